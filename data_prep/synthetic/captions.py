"""What the tiny base model is pre-trained on: captions of drawn pictures, and answers that know nothing.

A real base model can describe a picture and keeps to an answer format before it is trained here. The
tiny one learns just that, from scenes of its own: captions teach it to see, and benchmark questions with
letters drawn by lot teach it the answer tag while leaving it at chance.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from data_prep.prompts import PromptSpec, build_messages, fixed_sentences
from data_prep.rows import Example, ImageRef, Row
from data_prep.synthetic import draw
from data_prep.synthetic.questions import Question, distance_to_camera, facade, location, relative_position
from data_prep.synthetic.scene import Scene, draw_scene

REQUEST = "Describe the picture."
MAKERS = (location, relative_position, distance_to_camera, facade)
# Shares of the examples: a question with a random answer; a caption asked for behind a whole prompt. The
# rest ask for a caption behind a few sentences, so that seeing does not hang on the prompt's length.
GUESSES, LONG = 0.1, 0.15
BLOCK = 64  # examples of one kind in a row: batches taken in order pad little


def caption_examples(folder: Path, seed: int, count: int, prompt: PromptSpec) -> Iterator[Example]:
    """Yield `count` examples, their pictures written below `folder`; the same seed gives the same ones."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = fixed_sentences()
    for number in range(count):
        rng = random.Random(f"captions/{seed}/{number}")
        scene = draw_scene(rng)
        question = rng.choice(MAKERS)(scene, rng, rng.randint(1, 4))
        path = folder / f"{number:06d}.png"
        role = _picture(scene, question, path)
        row = _row(question, ImageRef(str(path), role))
        (message,) = build_messages(row, prompt)
        picture, text = message["content"]
        kind = random.Random(f"captions/{seed}/{number // BLOCK}").random()
        if kind < GUESSES:
            letter = rng.choice("ABCD"[: len(question.options)])
            yield Example([message], f"<answer> {letter} </answer>", (str(path),))
            continue
        before = (
            text["text"].split("\n") if kind < GUESSES + LONG else rng.sample(sentences, rng.randint(0, 12))
        )
        content = [picture, {"type": "text", "text": "\n".join([*before, REQUEST])}]
        yield Example([{"role": "user", "content": content}], question.observations, (str(path),))


def _picture(scene: Scene, question: Question, path: Path) -> str:
    """Draw what the question shows; return the picture's role."""
    heading = question.view - 1
    if question.category == "facade":
        role, picture = "street", draw.street_photo(scene, heading)
    elif question.task == "g2s":
        role, picture = "panorama", draw.panorama(scene)
    else:
        arrow = heading if question.category == "relative_position" else None
        role, picture = "satellite", draw.satellite(scene, arrow)
    picture.save(path)
    return role


def _row(question: Question, image: ImageRef) -> Row:
    return Row(
        id=image.path, benchmark="captions", subset="", task=question.task, category=question.category,
        group=image.path, images=(image,), question=question.question,
        options=dict(zip("ABCD", question.options, strict=False)), answer=question.answer,
    )  # fmt: skip
