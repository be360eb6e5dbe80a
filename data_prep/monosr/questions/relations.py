"""Relations of two objects in a viewer's frame, and SR: the camera's own (paper, section 3.1)."""

import random
from collections.abc import Iterator, Sequence

from data_prep.monosr.questions.drafts import Draft, dealt
from data_prep.monosr.questions.facts import INVERSE, RELATION, SIDES, Facts
from data_prep.monosr.questions.frames import ACROSS, AHEAD, DOWN, LEVEL, Frame

PHRASES = {
    "left": "to the left of",
    "right": "to the right of",
    "above": "above",
    "below": "below",
    "front": "in front of",
    "behind": "behind",
}
CHOICES = {
    "left": "To the left",
    "right": "To the right",
    "above": "Above",
    "below": "Below",
    "front": "In front",
    "behind": "Behind",
}
TELLS: dict[int, tuple[str, ...]] = {ACROSS: ("x",), DOWN: (), AHEAD: ("depth",)}
"""Axis -> what a name may not tell where a relation along it is asked for."""
ALL_TELL = ("x", "depth")
MOST_PAIRS = 30  # pairs of a scene that are looked at

YES_NO = (
    "Seen from the camera, is {one} {relation} {other}?",
    "From the camera's point of view, is {one} {relation} {other}?",
    "In this picture, is {one} {relation} {other}, as the camera sees it?",
    "As seen by the camera, does {one} lie {relation} {other}?",
)
CHOICE = (
    "Seen from the camera, where is {one} relative to {other}?",
    "Which option says where {one} is relative to {other}, as the camera sees them?",
    "From the camera's point of view, how does {one} lie relative to {other}?",
    "Take the camera's view: what is the position of {one} with respect to {other}?",
)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def wrong_choices(facts: Facts, frame: Frame, one: int, other: int, right: str) -> list[str] | None:
    """Three relations that are certainly false of a pair, or None where there are none.

    The four options are always above, below, one side and one of in front and behind: so the options do not
    tell on which axis the right one is. For that, what lies on one side has to stand level with the other
    thing, and what lies above or below has to differ on both other axes, whose false halves are offered.
    """
    false: list[str] = []
    for axis in (ACROSS, DOWN, AHEAD):
        side = facts.side(frame, one, other, axis)
        if axis == SIDES[right][0]:
            false += [INVERSE[right]] if axis == DOWN else []
        elif axis == DOWN:
            false += ["above", "below"] if side == LEVEL else []
        else:
            false += [INVERSE[RELATION[axis, side]]] if side else []
    return false if len(false) == 3 else None


def axes_in_turn(rng: random.Random) -> list[int]:
    """The axes in the order of trying: the vertical one, on which few pairs differ, more often first."""
    order = rng.sample((ACROSS, DOWN, AHEAD), 3)
    return order if rng.random() < 0.8 else sorted(order, key=DOWN.__ne__)


def sr(facts: Facts) -> Iterator[Draft]:
    """Left, right, above, below, in front and behind, as the camera has it."""
    rng = facts.rng("sr")
    pairs = [pair for pair in facts.pairs(rng, MOST_PAIRS) if facts.seen_apart(*pair)]
    for form in facts.options.formats("sr"):
        made = 0
        for axis in axes_in_turn(rng):
            if made == facts.options.per_format:
                break
            open_ones = pairs if axis != DOWN else [p for p in facts.upright_pairs if facts.seen_apart(*p)]
            for draft in _along(rng, facts, open_ones, axis, form):
                made += 1
                yield draft
                break


def _along(
    rng: random.Random, facts: Facts, pairs: Sequence[tuple[int, int]], axis: int, form: str
) -> Iterator[Draft]:
    frame = facts.camera
    start = rng.randrange(len(pairs)) if pairs else 0
    for one, other in (*pairs[start:], *pairs[:start]):
        side = facts.side(frame, one, other, axis)
        if not side:
            continue
        names = facts.called(rng, (one, other), ALL_TELL if form == "mc4" else TELLS[axis])
        if names is None:
            continue
        relation = RELATION[axis, side]
        if form == "yes_no":
            asked, answer = (relation, "yes") if rng.random() < 0.5 else (INVERSE[relation], "no")
            text = rng.choice(YES_NO).format(one=names[0], other=names[1], relation=PHRASES[asked])
            yield Draft("sr", form, asked, (one, other), names, capital(text), answer)
            continue
        wrong = wrong_choices(facts, frame, one, other, relation)
        if wrong is None:
            continue
        options, letter = dealt([CHOICES[name] for name in (relation, *wrong)], 0, rng)
        text = rng.choice(CHOICE).format(one=names[0], other=names[1])
        yield Draft("sr", form, relation, (one, other), names, capital(text), letter, options)
