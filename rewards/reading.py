"""Answers outside the reward: read one from a completion, write one for a teacher, check a gold.

The keywords `about` are keys of `extra_info` (`options`, `unit`, `coordinates`, `image_size`,
`resized_size`, `response_format`); `rewards.question` lists them with their defaults.
"""

from typing import Any

from rewards.answer import Parsed
from rewards.box import render_box
from rewards.number import plain_number
from rewards.question import MODES, Question, read_question

_KEYS = frozenset(Question._fields)


def parse_answer(text: str, answer_type: str = "choice", *, mode: str = "strict", **about: Any) -> Parsed:
    """Read the answer of a completion: a letter, "yes" or "no", a float in `unit`, a box in original pixels.

    An unreadable text gives `value=None` and a `reason`. ValueError for an unknown mode or a malformed
    keyword, TypeError for an unknown one.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    return _question(answer_type, about).read(text, mode)


def render_answer(value: Any, answer_type: str = "choice", **about: Any) -> str:
    """The answer block for a gold: ``parse_answer(render_answer(gold)).value == gold``.

    A box is given in original pixels and written in the convention of `coordinates`, which rounds it (see
    `render_box`). ValueError for a malformed gold or keyword, TypeError for an unknown keyword.
    """
    question = _question(answer_type, about)
    gold = question.read_gold(value)
    if answer_type == "box":
        content = render_box(gold, question.coordinates, question.image_size, question.resized_size)
    elif answer_type == "number":
        content = f"{plain_number(gold)} {question.unit or ''}".rstrip()
    else:
        content = gold
    return f"<answer>{content}</answer>"


def validate_gold(gold: Any, answer_type: str = "choice", **about: Any) -> None:
    """ValueError when the reward could never score this gold or row; TypeError for an unknown keyword."""
    _question(answer_type, about).read_gold(gold)


def _question(answer_type: str, about: dict[str, Any]) -> Question:
    unknown = about.keys() - _KEYS
    if unknown:
        raise TypeError(
            f"unknown keyword {', '.join(sorted(unknown))}; take any of {', '.join(sorted(_KEYS))}"
        )
    return read_question({"answer_type": answer_type, **about})
