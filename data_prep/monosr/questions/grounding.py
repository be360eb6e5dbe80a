"""OG: an object named by its side of a viewer, to be found among four boxes (paper, section 3.1).

A box is given as its eight corners in Omni3D's order (`data_prep.monosr.scene.CORNER_SIGNS`), x1, y1, z1 to
x8, y8, z8: metres in the camera frame (x right, y down, z forward), two decimals.
"""

import random
from collections.abc import Iterator
from itertools import chain

from data_prep.monosr.questions.drafts import LETTERS, Draft, dealt
from data_prep.monosr.questions.facts import Facts
from data_prep.monosr.questions.frames import Frame
from data_prep.monosr.questions.perspective import AROUND, OF_YOU, STANDS
from data_prep.monosr.references import NAMELESS

CHOICE = (
    "Which of these 3D boxes is that of the {noun} {relation}?",
    "Find the {noun} {relation} and choose its 3D box.",
    "The {noun} {relation}: which 3D box holds it?",
)
FRAME = (
    "Each box is given by its eight corners, x1, y1, z1 to x8, y8, z8, in metres in the camera's frame: x to"
    " the right, y down, z forward."
)
TRIES = 10
_CORNERS = "[" + ", ".join(["%.2f"] * 24) + "]"


def corners_text(corners: list[list[float]]) -> str:
    """Eight corners as "[x1, y1, z1, ...]", two decimals each, and no minus before 0.00."""
    return (_CORNERS % tuple(chain.from_iterable(corners))).replace("-0.00", "0.00")


def og(facts: Facts) -> Iterator[Draft]:
    """Left, right, in front and behind of a viewer, one box of four."""
    rng = facts.rng("og")
    if not facts.viewpoints or len(facts.asked) < 4:
        return
    for form in facts.options.formats("og"):
        made = 0
        for _ in range(TRIES):
            if made == facts.options.per_format:
                break
            frame, (axis, side) = rng.choice(facts.viewpoints), rng.choice(list(AROUND))
            sides = frame.sides[axis]
            open_ones = [place for place in facts.others(frame) if sides[place] == side]
            draft = _draft(rng, facts, form, frame, rng.choice(open_ones), axis) if open_ones else None
            if draft:
                made += 1
                yield draft


def _draft(rng: random.Random, facts: Facts, form: str, frame: Frame, place: int, axis: int) -> Draft | None:
    text = facts.nouns[place]
    side = facts.around(frame, place, axis)
    if side is None or text in NAMELESS:
        return None
    alike = [k for k, name in enumerate(facts.nouns) if name == text and k != place]
    # One at which the viewer stands or looks is not what is asked for, and is named otherwise.
    if any(k in (frame.stand, frame.face) or facts.around(frame, k, axis) != -side for k in alike):
        return None
    wrong = _wrong(rng, facts, place, alike)
    names = facts.called(rng, (frame.stand, frame.face)) if wrong else None
    if wrong is None or names is None:
        return None
    boxes = [corners_text(facts.scene.corners[k].tolist()) for k in (place, *wrong)]
    if len({*boxes}) < 4:
        return None
    options, letter = dealt(boxes, 0, rng)
    owner = dict(zip(boxes, (place, *wrong), strict=True))
    relation = AROUND[axis, side]
    before = rng.choice(STANDS).format(stand=names[0], face=names[1])
    asked = rng.choice(CHOICE).format(noun=text, relation=OF_YOU[relation])
    places = (frame.stand, frame.face, place)
    more = {"boxes": {key: facts.scene.ids[owner[options[key]]] for key in LETTERS}}
    question = f"{before} {asked} {FRAME}"
    return Draft(
        "og", form, relation, places, (*names, text), question, letter, options, None, places[:2], more
    )


def _wrong(rng: random.Random, facts: Facts, place: int, alike: list[int]) -> list[int] | None:
    """Three other objects: of the same category first, and all certainly elsewhere."""
    apart = [
        k for k in facts.asked
        if k != place and _distance(facts, k, place) > facts.options.gap_metres
    ]  # fmt: skip
    same = [k for k in apart if k in alike]
    rest = [k for k in apart if k not in alike]
    if len(apart) < 3:
        return None
    chosen = rng.sample(same, min(2, len(same)))
    return (
        chosen + rng.sample(rest, min(3 - len(chosen), len(rest))) if len(rest) >= 3 - len(chosen) else None
    )


def _distance(facts: Facts, one: int, other: int) -> float:
    return sum(abs(a - b) for a, b in zip(facts.center[one], facts.center[other], strict=True))
