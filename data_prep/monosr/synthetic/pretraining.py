"""What the tiny base model of MonoSR is pre-trained on: to read, to see, and answers that know nothing.

A real base model copies a number out of a text, writes it in another unit, says which of two is larger, names
what a photo shows and keeps to an answer tag before it is trained here. The tiny one learns just that, on
scenes of its own. Lists of boxes have sizes by lot, so that nothing can be guessed from a name; questions of
the benchmark come with answers by lot, which teach the tag and leave it at chance.
"""

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from data_prep.monosr.auxiliary import names_of, objects_and_text, objects_from_left, objects_of
from data_prep.monosr.auxiliary_text import box_words, object_lines
from data_prep.monosr.auxiliary_words import UNITS, VARIANTS
from data_prep.monosr.filter import Thresholds, observe
from data_prep.monosr.generate import questions_of
from data_prep.monosr.options import Options
from data_prep.monosr.questions.numbers import WORDS, rounded, written
from data_prep.monosr.scene import Scene
from data_prep.monosr.synthetic.release import dealt, drawn
from data_prep.prompts import PromptSpec, build_messages, fixed_sentences, prompt_text
from data_prep.rows import Example, ImageRef, Row
from rewards.units import UNITS as METRES

SPLIT = "pretraining"  # its pictures are those of no split of a release
REQUEST = "Describe the photo."
FIELDS = ("length", "height", "width")
OTHER_UNITS = {"metres": ("cm", "mm"), "centimetres": ("m", "mm")}
SYMBOLS = {"metres": "m", "centimetres": "cm"}
# Kinds of reading and how often each comes: whole boxes most often, for copying is learned from long answers.
READING = {"box": 6, "field": 3, "depth": 2, "unit": 2, "more": 1}
# Shares of the examples: lists that grow, plain lists, all reading before any picture is shown; each with the
# one before. Copying sets in suddenly, and sooner on short lists that differ in nothing else.
GROWING, PLAIN, FIRST_READING = 0.15, 0.42, 0.8
PARTS = ("centre", *FIELDS, "yaw")  # of a box in words, as they begin
PART = re.compile(r"centre \([^)]*\)|(?:length|height|width) [\d.]+|yaw .*")
LATER = {"reading": 1, "caption": 3, "guess": 1}  # blocks of the rest
BLOCK = 64  # examples of one kind in a row: batches taken in order pad little
STRETCH = (0.4, 2.5)  # of the sizes in a list
SENTENCES = 3  # before a request, at most
LISTED = 2  # objects of a list, at most
NEAREST = 6  # objects that a caption tells


@dataclass(frozen=True)
class Shown:
    """A picture with the scene that the filter left, and questions about it."""

    path: Path
    scene: Scene
    rows: Sequence[Row]


class Pretraining:
    """Examples and texts about `pictures` scenes, drawn below `folder`. The same seed gives the same ones.

    Args:
        side: a picture has as many pixels as a square of that side.
        prompt: asks the questions that are answered by lot.
    """

    def __init__(self, folder: Path, seed: int, pictures: int, side: int, prompt: PromptSpec) -> None:
        self.seed, self.prompt = seed, prompt
        self._sentences = fixed_sentences()
        self.shown = list(_shown(folder, seed, pictures, side))

    def examples(self, count: int) -> list[Example]:
        """`count` examples, to be learned in this order: plain lists, other lists, then blocks of all."""
        growing, plain, first = (
            int(share * count) // BLOCK * BLOCK for share in (GROWING, PLAIN, FIRST_READING)
        )
        made = []
        for number in range(count):
            block = random.Random(f"blocks/{self.seed}/{number // BLOCK}")
            kind = "reading" if number < first else _one_of(LATER, block)
            rng = random.Random(f"examples/{self.seed}/{number}")
            kind = _one_of(READING, rng) if kind == "reading" else kind
            parts = 1 + len(PARTS) * number // growing if number < growing else len(PARTS)
            made.append(self._example(kind, rng, parts if number < plain else None))
        return made

    def texts(self, count: int) -> list[str]:
        """`count` prompts of questions, with every kind of auxiliary information in turn."""
        rng = random.Random(f"texts/{self.seed}")
        variants = list(VARIANTS.values())
        found = []
        for number in range(count):
            shown = rng.choice(self.shown)
            row, scene = rng.choice(shown.rows), shown.scene
            variant = variants[number % len(variants)]
            if variant != VARIANTS["none"]:
                _, told = objects_and_text(row, scene, variant)
                row = replace(row, meta={**row.meta, "aux": {"text": told}})
            role = "numbered" if variant.marks else "frame"
            found.append(prompt_text(replace(row, images=(ImageRef(row.group, role),)), self.prompt))
        return found

    def _example(self, kind: str, rng: random.Random, parts: int | None) -> Example:
        shown = rng.choice(self.shown)
        if kind == "caption":
            return self._asked([REQUEST], rng, caption(shown.scene), shown.path)
        if kind == "more":
            one, other = (round(rng.uniform(0.1, 9.99), 2) for _ in range(2))
            answer = "yes" if one > other else "no"
            return self._asked([f"Is {one:.2f} more than {other:.2f}?"], rng, f"<answer>{answer}</answer>")
        if kind == "guess":
            path = str(shown.path)
            row = rng.choice([row for row in shown.rows if row.task != "og"])  # whose options are long
            row = replace(row, images=(ImageRef(path, "frame"),))
            return Example(build_messages(row, self.prompt), f"<answer>{_lot(row, rng)}</answer>", (path,))
        return self._read(kind, rng.choice(shown.rows), shown.scene, rng, parts)

    def _read(self, kind: str, row: Row, scene: Scene, rng: random.Random, parts: int | None) -> Example:
        """Of a list of boxes, one as a whole, or one of its numbers, in the list's unit or another.

        A list with at most so many `parts` of each box, or with all of them, is plain: it has categories for
        names, no numbers of marks and no sentences before it. None gives whole boxes by the names of `row`.
        """
        plain = parts is not None
        stretch = np.array([[rng.uniform(*STRETCH) for _ in (*FIELDS, "away")] for _ in scene.ids])
        scene = replace(scene, size=scene.size * stretch[:, :3], center=scene.center * stretch[:, 3:])
        names = {} if plain else names_of(row, scene)
        indices = _one_a_category(scene, rng) if plain else objects_of(row, scene)
        indices = rng.sample(indices, min(rng.randint(1, LISTED), len(indices)))
        lines = object_lines(scene, indices, names, numbered=not plain and rng.random() < 0.5, boxes=True)
        index = rng.choice(indices)
        name = names.get(index, scene.categories[index])
        field, unit = rng.randrange(len(FIELDS)), UNITS[scene.domain]
        length = (scene.center[index, 2] if kind == "depth" else scene.size[index, field]) * unit.scale
        answer = f"<answer>{length:.{unit.digits}f} {SYMBOLS[unit.name]}</answer>"
        if kind == "box":
            request, answer = f"Copy the box of {name}.", box_words(scene, index)
        elif kind == "depth":
            request = f"Copy the last number of the centre of {name}."
        elif kind == "field":
            request = f"Copy the {FIELDS[field]} of {name}."
        else:
            other = rng.choice(OTHER_UNITS[unit.name])
            request = f"Write the {FIELDS[field]} of {name} in {rng.choice(WORDS[other])}."
            metres = round(length, unit.digits) / unit.scale
            answer = f"<answer>{written(rounded(metres / METRES[other][1]))} {other}</answer>"
        if parts is None:
            return self._asked([*lines, request], rng, answer)
        needed = {"box": (), "depth": PARTS[:1]}.get(kind, (FIELDS[field],))
        count = rng.randint(1, parts) if parts < len(PARTS) else parts
        others = [part for part in PARTS if part not in needed]
        kept = {*needed, *rng.sample(others, count - len(needed))}
        lines, answer = [_only(kept, line) for line in lines], _only(kept, answer)
        return self._asked([*lines, request], rng, answer, sentences=0)

    def _asked(
        self,
        lines: list[str],
        rng: random.Random,
        answer: str,
        picture: Path | None = None,
        sentences: int = SENTENCES,
    ) -> Example:
        """Behind a few sentences that prompts begin with, so that nothing hangs on what stands before."""
        before = rng.sample(self._sentences, rng.randint(0, sentences))
        content = [{"type": "text", "text": "\n".join([*before, *lines])}]
        if picture is None:
            return Example([{"role": "user", "content": content}], answer, ())
        return Example([{"role": "user", "content": [{"type": "image"}, *content]}], answer, (str(picture),))


def caption(scene: Scene) -> str:
    """The nearest objects from left to right: name, place across the picture in tenths, distance and height.

    For example "bed at 3, 4.1 m away, 0.6 m high". Distances are those of the centre along the view.
    """
    middle = (scene.box2d[:, 0] + scene.box2d[:, 2]) / 2 / scene.width
    nearest = set(np.argsort(scene.center[:, 2])[:NEAREST].tolist())
    return "\n".join(
        f"{scene.categories[i]} at {min(9, int(10 * middle[i]))}, {scene.center[i, 2]:.1f} m away, "
        f"{scene.size[i, 1]:.1f} m high"
        for i in objects_from_left(scene)
        if i in nearest
    )


def _only(kept: Collection[str], text: str) -> str:
    """The text with those parts of a box alone; one that has no box stays as it is."""
    if not (parts := list(PART.finditer(text))):
        return text
    return text[: parts[0].start()] + ", ".join(part[0] for part in parts if part[0].split()[0] in kept)


def _one_a_category(scene: Scene, rng: random.Random) -> list[int]:
    shuffled = rng.sample(range(len(scene)), len(scene))
    return list({scene.categories[index]: index for index in shuffled}.values())


def _one_of(weights: Mapping[str, int], rng: random.Random) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _lot(row: Row, rng: random.Random) -> str:
    """An answer of the row's form that has nothing to do with the question."""
    if row.options is not None:
        return rng.choice(list(row.options))
    if row.answer_type == "yes_no":
        return rng.choice(("yes", "no"))
    return f"{written(rounded(10 ** rng.uniform(-0.5, 2.5)))} {row.unit}"


def _shown(folder: Path, seed: int, pictures: int, side: int) -> Iterator[Shown]:
    for source, numbers in dealt(SPLIT, pictures):
        scenes = (scene for scene, _ in drawn(folder, source, seed, numbers, side, SPLIT))
        for judged in observe(scenes, Thresholds()):
            if judged.scene is None:
                continue
            rows = questions_of(judged.scene, Options(per_format=1, situational=0), seed, judged.full)
            if rows:
                yield Shown(folder / judged.scene.image, judged.scene, rows)
