"""Dist, Size and Dim: distances, extents and their comparison (paper, section 3.1)."""

import math
import random
from collections.abc import Iterator

from data_prep.monosr.questions.drafts import Draft, dealt
from data_prep.monosr.questions.facts import Facts
from data_prep.monosr.questions.numbers import WORDS, in_unit, written, wrong_numbers
from data_prep.monosr.questions.relations import capital

LENGTH, HEIGHT, WIDTH = 0, 1, 2  # axes of `Scene.size`
LEAST_DISTANCE = 0.05  # metres; closer centres are of things inside each other
SQUARE = 0.95  # a box whose length is at least so many widths has its length where one looks for it
MOST_PAIRS = 12

BETWEEN = (
    "How far apart are the centres of {one} and {other}? Answer in {unit}.",
    "What is the straight-line distance between the centres of {one} and {other}, in {unit}?",
    "Measured from centre to centre, how far apart are {one} and {other}? Give {unit}.",
    "Estimate the distance in {unit} from the centre of {one} to the centre of {other}.",
)
FROM_CAMERA = (
    "How far is the centre of {one} from the camera? Answer in {unit}.",
    "What is the straight-line distance from the camera to the centre of {one}, in {unit}?",
    "Estimate in {unit} how far the camera is from the centre of {one}.",
    "Give the distance between the camera and the centre of {one} in {unit}.",
)
SIZES = {
    "length": (
        "How long is {one}, along its longer horizontal side? Answer in {unit}.",
        "What is the length of {one} in {unit} (its longer horizontal side)?",
    ),
    "height": (
        "How tall is {one}? Answer in {unit}.",
        "What is the height of {one} in {unit}?",
    ),
    "width": (
        "How wide is {one}, along its shorter horizontal side? Answer in {unit}.",
        "What is the width of {one} in {unit} (its shorter horizontal side)?",
    ),
    "depth": (
        "What is the depth of {one} in {unit}?",
        "How deep is {one}, measured across its length? Answer in {unit}.",
    ),
    "footprint": (
        "What area of the ground does the footprint of {one} cover, in {unit}?",
        "How large is the footprint of {one}, its length times its width? Answer in {unit}.",
    ),
}
COMPARED = {
    "taller": ("Is {one} taller than {other}?", "Does {one} have a greater height than {other}?"),
    "longer": ("Is {one} longer than {other}?", "Does {one} have a greater length than {other}?"),
    "wider": ("Is {one} wider than {other}?", "Does {one} have a greater width than {other}?"),
    "larger": ("Is {one} larger in volume than {other}?", "Does {one} take up more space than {other}?"),
}


def _asked(
    facts: Facts, rng: random.Random, draft: tuple[str, str, tuple[int, ...]], forms: tuple[str, ...],
    names: tuple[str, ...], metres: float, form: str, area: bool = False,
) -> Draft:  # fmt: skip
    """A question for a number, or for one of four."""
    task, quantity, places = draft
    value, unit = in_unit(metres, facts.scene.domain, rng, area)
    words = {"one": names[0], "other": names[-1], "unit": rng.choice(WORDS[unit])}
    text = capital(rng.choice(forms).format(**words))
    if form == "numeric":
        return Draft(task, form, quantity, places, names, text, value, unit=unit)
    texts = [f"{written(n)} {unit}" for n in (value, *wrong_numbers(value, facts.options.tolerance, rng))]
    options, letter = dealt(texts, 0, rng)
    return Draft(task, form, quantity, places, names, text, letter, options)


def dist(facts: Facts) -> Iterator[Draft]:
    """Distances between centres, and of a centre from the camera."""
    rng = facts.rng("dist")
    for form in facts.options.formats("dist"):
        pairs = facts.pairs(rng, MOST_PAIRS)
        for number in range(facts.options.per_format):
            draft = None
            # One distance from the camera to two others, where there are two objects.
            if facts.places and (not pairs or rng.random() < 1 / 3):
                draft = _from_camera(facts, rng, form, number)
            while draft is None and pairs:
                draft = _between(facts, rng, form, pairs.pop())
            if draft:
                yield draft


def _from_camera(facts: Facts, rng: random.Random, form: str, number: int) -> Draft | None:
    if number and len(facts.places) == 1:
        return None  # it has been asked
    place = rng.choice(facts.places)
    names = facts.called(rng, (place,), ("depth",))
    metres = math.hypot(*facts.center[place])
    if names is None or metres < LEAST_DISTANCE:
        return None
    return _asked(facts, rng, ("dist", "camera_distance", (place,)), FROM_CAMERA, names, metres, form)


def _between(facts: Facts, rng: random.Random, form: str, pair: tuple[int, int]) -> Draft | None:
    metres = math.dist(facts.center[pair[0]], facts.center[pair[1]])
    names = facts.called(rng, pair)
    if names is None or metres < LEAST_DISTANCE:
        return None
    return _asked(facts, rng, ("dist", "distance", pair), BETWEEN, names, metres, form)


def size(facts: Facts) -> Iterator[Draft]:
    """Length, height, width, depth (along the box's width axis) and footprint (length times width).

    Length and the width across it are asked for where the box's length is the longer horizontal side, or
    nearly so: else a reader would take the one for the other.
    """
    rng = facts.rng("size")
    for form in facts.options.formats("size"):
        open_ones = [(place, quantity) for place in facts.places for quantity in _sizes(facts.size[place])]
        for place, quantity in rng.sample(open_ones, min(facts.options.per_format, len(open_ones))):
            length, height, width = facts.size[place]
            extents = {"length": length, "height": height, "width": width, "depth": width}
            metres = extents.get(quantity, length * width)
            names = facts.called(rng, (place,))
            if names is None or metres <= 0:
                continue
            draft = ("size", quantity, (place,))
            area = quantity == "footprint"
            yield _asked(facts, rng, draft, SIZES[quantity], names, metres, form, area)


def _sizes(box: list[float]) -> tuple[str, ...]:
    plain = box[LENGTH] >= SQUARE * box[WIDTH]
    return ("height", "footprint", "length", "width", "depth") if plain else ("height", "footprint")


def dim(facts: Facts) -> Iterator[Draft]:
    """Which of two is taller, longer, wider or larger in volume, by a clear ratio."""
    rng = facts.rng("dim")
    pairs = facts.pairs(rng, MOST_PAIRS)
    for form in facts.options.formats("dim"):
        for quantity in rng.sample(list(COMPARED), min(facts.options.per_format, len(COMPARED))):
            for place, (one, other) in enumerate(pairs):
                more = _more(facts, quantity, facts.size[one], facts.size[other])
                names = facts.called(rng, (one, other), ("size",)) if more is not None else None
                if names is None:
                    continue
                del pairs[place]
                if more != (rng.random() < 0.5):  # the answer is drawn, and the two are named accordingly
                    one, other, more, names = other, one, not more, names[::-1]
                text = rng.choice(COMPARED[quantity]).format(one=names[0], other=names[1])
                answer = "yes" if more else "no"
                yield Draft("dim", form, quantity, (one, other), names, capital(text), answer)
                break


def _more(facts: Facts, quantity: str, one: list[float], other: list[float]) -> bool | None:
    """Whether the first box has more of it; None where that is close.

    Length and width must compare alike whether they are the box's own or the longer and the shorter side.
    """
    ratio = facts.options.ratio
    if quantity == "taller":
        return _clear(one[HEIGHT], other[HEIGHT], ratio)
    if quantity == "larger":
        return _clear(math.prod(one), math.prod(other), ratio)
    axis, choose = (LENGTH, max) if quantity == "longer" else (WIDTH, min)
    own = _clear(one[axis], other[axis], ratio)
    seen = _clear(choose(one[LENGTH], one[WIDTH]), choose(other[LENGTH], other[WIDTH]), ratio)
    return own if own == seen else None


def _clear(one: float, other: float, ratio: float) -> bool | None:
    return one > other if max(one, other) >= ratio * min(one, other) else None
