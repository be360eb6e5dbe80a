"""What a teacher's text must be before it may teach. Each check has a name and gives one reason, or None.

Source of the rules: CVSBench 0.B.2. What passes here passes `files.fault` and the reward's full format check.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from data_prep.rows import Row
from data_prep.scoring import gold
from data_prep.sets import placeholder_fault
from data_prep.teacher.unseen import unseen_evidence
from rewards import check_format, names_option, parse_answer
from rewards.answer import find_span
from rewards.response_format import MAX_WORDS

MOST_OBJECTS = 3
_THINKING = re.compile(r"\A.*</think>", re.DOTALL | re.IGNORECASE)
_BOX = re.compile(r"\bbbox\b[^\w\[(\n]{0,4}(?:[\[(]([^\])\n]*)[\])])?", re.IGNORECASE)
_NUMBER = r"\s*(-?\d+(?:\.\d+)?)\s*"
_CORNERS = re.compile(",".join([_NUMBER] * 4))
_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd]")
_VERDICTS = re.compile(
    r"\b(?:the|my|our) (?:correct |right |best |final )?(?:answer|option|choice)"
    r" (?:is|must be|has to be|would be|should be|will be)\b(?! (?:not\b|un\w+))"
    r"|\b(?:correct|right|best|final) (?:answer|option|choice)\b"
    r"|\b(?:I|we) (?:choose|select|pick|go with|settle on|answer)\b",
    re.IGNORECASE,
)
_CONCLUDES = r"\b(?:therefore|thus|hence|consequently|in conclusion)\b[^.;\n]*"


@dataclass(frozen=True)
class Rejection:
    """Why a text is not kept; `reason` is told to the teacher and to the user."""

    check: str
    reason: str


def strip_thinking(text: str) -> str:
    """The text without what a reasoning model thought aloud before it, and without white space around."""
    return _THINKING.sub("", text).strip()


def check_text(row: Row, text: str, response_format: str) -> list[Rejection]:
    """Every check that `text` fails, in the order of `CHECKS`; empty where it may teach the row."""
    found = [(name, check(row, text, response_format)) for name, check in CHECKS.items()]
    return [Rejection(name, reason) for name, reason in found if reason]


def _answer(row: Row, text: str, response_format: str) -> str | None:
    parsed = parse_answer(text, row.answer_type, options=row.options, unit=row.unit)
    if parsed.value is None:
        return f"there is no answer at the end that can be read ({parsed.reason})"
    if parsed.value != gold(row):
        return f"the answer tag holds {parsed.text}, which is not the right option"
    return None


def _length(row: Row, text: str, response_format: str) -> str | None:
    words = len(text.split())
    return f"the text has {words} words, more than {MAX_WORDS}" if words > MAX_WORDS else None


def _letters(row: Row, text: str, response_format: str) -> str | None:
    named = names_option(find_span(text).before, row.options or "")
    return "the reasoning names an option's letter before the answer tag" if named else None


def _sections(row: Row, text: str, response_format: str) -> str | None:
    if _length(row, text, response_format) or _letters(row, text, response_format):
        return None  # `check_format` could not tell these apart
    if check_format(text, response_format, "full", letters=row.options or ""):
        return None
    return "the sections and the answer tag are not laid out as asked: each heading once, in order, with text"


def _verdict(row: Row, text: str, response_format: str) -> str | None:
    reasoning = find_span(text).before
    found = _VERDICTS.search(reasoning)
    if not found and row.options:
        options = "|".join(re.escape(option) for option in row.options.values())
        found = re.search(rf"{_CONCLUDES}\b(?:{options})", reasoning, re.IGNORECASE)
    return f"the reasoning announces its verdict ({found[0]!r:.80})" if found else None


def _unseen(row: Row, text: str, response_format: str) -> str | None:
    found = unseen_evidence(find_span(text).before, row.task, len(row.images))
    return f"the reasoning takes evidence from the hidden view ({found!r:.80})" if found else None


def _boxes(row: Row, text: str, response_format: str) -> str | None:
    """Corners in pixels of the picture shown; of several pictures, of the largest."""
    if response_format != "structured_cot":
        return None
    boxes = _BOX.findall(text)
    if not 1 <= len(boxes) <= MOST_OBJECTS:
        return f"there are {len(boxes)} boxes (bbox: [x1, y1, x2, y2]); one to {MOST_OBJECTS} are asked for"
    width = max((image.width for image in row.images), default=0)
    height = max((image.height for image in row.images), default=0)
    for box in boxes:
        corners = _CORNERS.fullmatch(box)
        if not corners:
            return f"the box [{box:.40}] is not of the form [x1, y1, x2, y2]"
        x1, y1, x2, y2 = map(float, corners.groups())
        if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
            return f"the box [{box:.40}] does not lie in the picture of {width} x {height} pixels"
    return None


def _characters(row: Row, text: str, response_format: str) -> str | None:
    """Control characters, and the stand-in for what was no text."""
    found = _UNREADABLE.search(text)
    return f"the text holds the character U+{ord(found[0]):04X}, which is none to read" if found else None


def _placeholder(row: Row, text: str, response_format: str) -> str | None:
    return placeholder_fault(replace(row, reasoning=text))


CHECKS: dict[str, Callable[[Row, str, str], str | None]] = {
    "answer": _answer,
    "sections": _sections,
    "length": _length,
    "letters": _letters,
    "verdict": _verdict,
    "unseen": _unseen,
    "boxes": _boxes,
    "characters": _characters,
    "placeholder": _placeholder,
}
"""Checks on one text alone; `near_copy` and `judge` need more and stand in `reasoning`."""
