"""PR: relations as one would have them who stands at an object and faces another (paper, section 3.1).

Two kinds: on which side of oneself an object lies (yes or no; `meta.objects` has three), and how one object
lies to another as seen from there, both of them ahead (`meta.objects` has four; the last may be the one that
is faced). In the second kind what is in front of another thing is nearer to the viewer, as it is for the
camera.
"""

import random
from collections.abc import Iterator

from data_prep.monosr.questions.drafts import Draft, dealt
from data_prep.monosr.questions.facts import INVERSE, RELATION, Facts
from data_prep.monosr.questions.frames import ACROSS, AHEAD, DOWN, Frame
from data_prep.monosr.questions.relations import (
    CHOICES,
    PHRASES,
    axes_in_turn,
    capital,
    wrong_choices,
)

AROUND = {(ACROSS, -1): "left", (ACROSS, 1): "right", (AHEAD, 1): "front", (AHEAD, -1): "behind"}
"""Axis and sign of `Facts.around` -> the relation of an object to the viewer."""
OPPOSITE = {"left": "right", "right": "left", "front": "behind", "behind": "front"}
OF_YOU = {
    "left": "on your left",
    "right": "on your right",
    "front": "in front of you",
    "behind": "behind you",
}
STANDS = (
    "Imagine standing at {stand} and facing {face}.",
    "You are at {stand}, looking toward {face}.",
    "Put yourself where {stand} is, with {face} straight ahead.",
    "Take the place of {stand} and look at {face}.",
)
ASIDE = ("Is {one} {relation}?", "From there, is {one} {relation}?", "Would {one} be {relation}?")
YES_NO = (
    "Seen from there, is {one} {relation} {other}?",
    "From that viewpoint, is {one} {relation} {other}?",
    "Does {one} then lie {relation} {other}?",
)
CHOICE = (
    "Seen from there, where is {one} relative to {other}?",
    "From that viewpoint, how does {one} lie relative to {other}?",
    "Which option says where {one} then is relative to {other}?",
)
TRIES = 12  # viewers and objects that are tried for one question


def pr(facts: Facts) -> Iterator[Draft]:
    """Left, right, above, below, in front and behind from another viewpoint."""
    rng = facts.rng("pr")
    if not facts.viewpoints or len(facts.places) < 3:
        return
    for form in facts.options.formats("pr"):
        made = 0
        for axis in axes_in_turn(rng):
            if made == facts.options.per_format:
                break
            for _ in range(TRIES):
                frame = rng.choice(facts.viewpoints)
                if form == "yes_no" and axis in (ACROSS, AHEAD) and rng.random() < 0.5:
                    draft = _aside(rng, facts, frame, axis)
                else:
                    draft = _between(rng, facts, frame, axis, form)
                if draft:
                    made += 1
                    yield draft
                    break


def _aside(rng: random.Random, facts: Facts, frame: Frame, axis: int) -> Draft | None:
    open_ones = facts.others(frame)
    if not open_ones:
        return None
    one = rng.choice(open_ones)
    side = facts.around(frame, one, axis)
    places = (frame.stand, frame.face, one)
    names = facts.called(rng, places) if side else None
    if side is None or names is None:
        return None
    relation = AROUND[axis, side]
    asked, answer = (relation, "yes") if rng.random() < 0.5 else (OPPOSITE[relation], "no")
    text = rng.choice(ASIDE).format(one=names[2], relation=OF_YOU[asked])
    question = f"{rng.choice(STANDS).format(stand=names[0], face=names[1])} {capital(text)}"
    return Draft("pr", "yes_no", asked, places, names, question, answer, viewpoint=places[:2])


def _pair(rng: random.Random, facts: Facts, frame: Frame, axis: int) -> tuple[int, int] | None:
    """Two objects ahead of a viewer; the second may be the one that it faces."""
    ahead = facts.ahead(frame)
    if axis == DOWN:
        first, second = set(ahead), {*ahead, frame.face}
        open_ones = [p for p in facts.upright_pairs if p[0] in first and p[1] in second]
        return rng.choice(open_ones) if open_ones else None
    if not ahead:
        return None
    one = rng.choice(ahead)
    return one, rng.choice([frame.face, *(place for place in ahead if place != one)])


def _between(rng: random.Random, facts: Facts, frame: Frame, axis: int, form: str) -> Draft | None:
    pair = _pair(rng, facts, frame, axis)
    if pair is None or not facts.seen_apart(*pair):
        return None
    one, other = pair
    side = facts.side(frame, one, other, axis)
    places = (frame.stand, frame.face, one, other)
    names = facts.called(rng, places) if side else None
    if not side or names is None:
        return None
    relation = RELATION[axis, side]
    before = rng.choice(STANDS).format(stand=names[0], face=names[1])
    if form == "yes_no":
        asked, answer = (relation, "yes") if rng.random() < 0.5 else (INVERSE[relation], "no")
        text = rng.choice(YES_NO).format(one=names[2], other=names[3], relation=PHRASES[asked])
        question = f"{before} {capital(text)}"
        return Draft("pr", form, asked, places, names, question, answer, viewpoint=places[:2])
    wrong = wrong_choices(facts, frame, one, other, relation)
    if wrong is None:
        return None
    options, letter = dealt([CHOICES[name] for name in (relation, *wrong)], 0, rng)
    text = rng.choice(CHOICE).format(one=names[2], other=names[3])
    question = f"{before} {capital(text)}"
    return Draft("pr", form, relation, places, names, question, letter, options, viewpoint=places[:2])
