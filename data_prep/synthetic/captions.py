"""What the tiny base model is pre-trained on: captions of drawn pictures, and answers that know nothing.

A real base model can describe a picture and keeps to an answer format before it is trained here. The
tiny one learns just that, from scenes of its own: captions teach it to see, and benchmark questions with
letters drawn by lot teach it the answer tag while leaving it at chance.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from data_prep.prompts import PromptSpec, build_messages, fixed_sentences
from data_prep.rows import Example, ImageRef, Row
from data_prep.synthetic import draw
from data_prep.synthetic.questions import Question, distance_to_camera, facade, location
from data_prep.synthetic.scene import Scene, draw_scene

REQUEST = "Describe the picture."
MAKERS = (location, location, distance_to_camera, facade)  # a picture from above is the hardest to read
# The first share of the examples asks for captions behind a few sentences: seeing is learned on short
# sequences. Of the rest, most ask behind a whole prompt, so that seeing does not hang on what was asked, and
# some are questions with an answer by lot.
SHORT = 0.6
GUESSES = 0.4
BLOCK = 64  # examples of one kind in a row: batches taken in order pad little


def caption_examples(
    folder: Path, seed: int, count: int, pictures: int, prompt: PromptSpec
) -> Iterator[Example]:
    """Yield `count` examples, to be learned in this order, about `pictures` pictures written below `folder`.

    The same seed gives the same ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sentences = fixed_sentences()
    first_long = int(SHORT * count) // BLOCK * BLOCK
    for number in range(count):
        rng = random.Random(f"captions/{seed}/{number % pictures}")
        scene = draw_scene(rng)
        question = rng.choice(MAKERS)(scene, rng, rng.randint(1, 4))
        path = folder / f"{number % pictures:06d}.png"
        role = _role(question)
        if number < pictures:
            _picture(scene, question).save(path)
        (message,) = build_messages(_row(question, ImageRef(str(path), role)), prompt)
        picture, text = message["content"]
        rng = random.Random(f"requests/{seed}/{number}")
        if number < first_long:
            before = rng.sample(sentences, rng.randint(0, 12))
        elif random.Random(f"kinds/{seed}/{number // BLOCK}").random() < GUESSES:
            letter = rng.choice("ABCD"[: len(question.options)])
            yield Example([message], f"<answer> {letter} </answer>", (str(path),))
            continue
        else:
            before = text["text"].split("\n")
        content = [picture, {"type": "text", "text": "\n".join([*before, REQUEST])}]
        yield Example([{"role": "user", "content": content}], question.observations, (str(path),))


def _role(question: Question) -> str:
    if question.category == "facade":
        return "street"
    return "panorama" if question.task == "g2s" else "satellite"


def _picture(scene: Scene, question: Question) -> Image.Image:
    """What the question shows."""
    if _role(question) == "street":
        return draw.street_photo(scene, question.view - 1)
    if _role(question) == "panorama":
        return draw.panorama(scene)
    return draw.satellite(scene, None)


def _row(question: Question, image: ImageRef) -> Row:
    return Row(
        id=image.path, benchmark="captions", subset="", task=question.task, category=question.category,
        group=image.path, images=(image,), question=question.question,
        options=dict(zip("ABCD", question.options, strict=False)), answer=question.answer,
    )  # fmt: skip
