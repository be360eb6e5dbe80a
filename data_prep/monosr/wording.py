"""Whether a reworded question asks the same: names, numbers, units and relations survive (paper, section
3.1).

The paper's own error analysis names noise from paraphrasing; these checks are ours. They look at words alone
and send back rather too much than too little.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from data_prep.generation.validate import Fault, Verdict
from data_prep.monosr.questions.grounding import FRAME
from data_prep.rows import Row
from data_prep.sets import placeholder_fault
from rewards.units import canonical_unit

LONGEST = 2.0  # times the words of the question as it stands
LONGEST_SITUATION = 2.5
SHORTEST = 0.5
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\d)")
_NUMBER_WORDS = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twice|half|double|dozen|hundred)\b", re.IGNORECASE
)
_UNIT = re.compile(
    r"(?<![\w'’])(?:sq(?:uare|\.)?\s+(?:centi)?met(?:re|er)s?|sq(?:uare|\.)?\s+f(?:ee|oo)t|(?:centi|milli|kilo)?met(?:re|er)s?"
    r"|f(?:ee|oo)t|inch(?:es)?|yards?|[cmk]?m2?|ft2?|[cm]?m\^2|ft\^2)(?!\w)",
    re.IGNORECASE,
)
RELATIONS = {
    "left": r"\bleft\b",
    "right": r"\bright\b",
    "above": r"\b(?:above|over|atop|on top of|higher)\b",
    "below": r"\b(?:below|under|underneath|beneath|lower)\b",
    "front": r"\b(?:front|ahead of)\b",
    "behind": r"\b(?:behind|back of|rear)\b",
    "taller": r"\b(?:tall(?:er)?|heights?|high)\b",
    "longer": r"\b(?:long(?:er)?|lengths?)\b",
    "wider": r"\b(?:wide(?:r)?|widths?|breadth)\b",
    "deep": r"\b(?:deep(?:er)?|depths?)\b",
    "larger": r"\b(?:larger|bigger|volume|space)\b",
    "smaller": r"\b(?:smaller|shorter|narrower|less)\b",
    "footprint": r"\bfootprint\b",
    "distance": r"\b(?:distance|far|apart)\b",
    "centre": r"\bcent(?:re|er)s?\b",
    "camera": r"\bcamera(?:'s)?\b",
    "seen": r"\b(?:visible|see|seen|sight|view)\b",
    "horizontal": r"\bhorizontal\b",
    "box": r"\bbox(?:es)?\b",
}
"""Family of words -> pattern; the families in a question stay as they are."""
_RELATIONS = {family: re.compile(pattern, re.IGNORECASE) for family, pattern in RELATIONS.items()}
_FREE = {"seen", "smaller"}  # may come and go with the form of words ("as seen from", "its shorter side")
_NEGATION = re.compile(
    r"\b(?:not|never|neither|nor|without|no|cannot|except|other than)\b|n't\b", re.IGNORECASE
)
_VERDICT = re.compile(r"\b(?:yes|correct|answer is|true|false)\b", re.IGNORECASE)
_FIELD = re.compile(r"your field of view is [\d.]+ degrees wide\.?", re.IGNORECASE)


def open_part(row: Row) -> str:
    """The part of a question that may be reworded: not the sentence on the frame of boxes."""
    return row.question.removesuffix(FRAME).strip()


def reworded(row: Row, text: str) -> str:
    """The whole question with its open part in other words."""
    return f"{text} {FRAME}" if row.question.endswith(FRAME) else text


def judge(row: Row, reply: str) -> Verdict:
    """The reply as a question, or what is wrong with it."""
    text = " ".join(reply.split()).strip("\"'“”").removeprefix("Question:").strip()
    faults = tuple(_faults(row, open_part(row), text))
    return Verdict((), faults) if faults else Verdict((text,), ())


def _faults(row: Row, old: str, new: str) -> Iterator[Fault]:
    if new[-1:] not in (".", "?") or ("?" in old and "?" not in new):
        yield Fault("form", "it has to be a question, and to end in a question mark or a full stop.")
    if re.search(r"\b[A-D]\)", new):
        yield Fault("form", "it lists options; give the question alone.")
    count, before = len(new.split()), len(old.split())
    most = LONGEST_SITUATION if row.task == "situational" else LONGEST
    if not SHORTEST * before <= count <= most * before + 8:
        yield Fault("length", f"it has {count} words where the question had {before}.")
    if new.casefold() == old.casefold():
        yield Fault("copy", "it is the question as it was; use other words.")
    if fault := placeholder_fault(replace(row, question=new)):
        yield Fault("characters", f"{fault}.")
    if row.task == "situational":
        old = old.split(": ", 1)[
            1
        ]  # the story before it is free, as long as it brings in nothing of that kind
    left_new, order_new, missing = _without_names(row, new)
    left_old, order_old, _ = _without_names(row, old)
    for name in missing:
        yield Fault("names", f'it no longer holds "{name}", word for word.')
    if not missing and order_new != order_old:
        yield Fault("names", "the objects are named in another order than before.")
    if _numbers(left_new) != _numbers(left_old):
        yield Fault("numbers", "its numbers are not those of the question.")
    if _units(left_new) != _units(left_old):
        yield Fault(
            "units", f"its units are not those of the question ({', '.join(sorted(_units(left_old)))})."
        )
    old_words, new_words = _families(left_old), _families(left_new)
    if old_words != new_words:
        changed = sorted({*old_words} ^ {*new_words})
        yield Fault("relations", f"what is asked has changed: {', '.join(changed)}.")
    if bool(_NEGATION.search(left_new)) != bool(_NEGATION.search(left_old)):
        yield Fault("negation", "it denies what the question does not deny, or the other way round.")
    if _VERDICT.search(left_new) and not _VERDICT.search(left_old):
        yield Fault("verdict", "it hints at the answer.")


def _without_names(row: Row, text: str) -> tuple[str, list[str], list[str]]:
    """The text with each name as a bare mark, the names by first mention, and those that it lacks."""
    names = sorted({name.casefold() for name in row.meta["names"]}, key=len, reverse=True)
    order: list[tuple[int, str]] = []
    missing = []
    rest = text.casefold()
    for number, name in enumerate(names):
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        found = pattern.search(rest)
        if found is None:
            missing.append(name)
            continue
        mark = f" \x00{chr(0xE000 + number)} "
        # Blanks keep the places of what follows, so that first mentions can be compared.
        rest = pattern.sub(lambda hit, mark=mark: mark.ljust(len(hit[0])), rest)
        order.append((found.start(), name))
    return re.sub(r"\x00.", "#", rest), [name for _, name in sorted(order)], missing


def _numbers(text: str) -> Counter[str]:
    return Counter([*_NUMBER.findall(text), *(word.lower() for word in _NUMBER_WORDS.findall(text))])


def _units(text: str) -> set[str]:
    return {unit for found in _UNIT.findall(text) if (unit := canonical_unit(" ".join(found.split())))}


def _families(text: str) -> list[str]:
    """The families of words in a text, but for what is said of the field of view."""
    text = _FIELD.sub(" ", text)
    return [family for family, one in _RELATIONS.items() if family not in _FREE and one.search(text)]
