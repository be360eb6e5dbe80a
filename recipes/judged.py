"""What the scores of an answer need of its prediction: a tenth of its memory, for the text stays away."""

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from recipes.official import BoxScore, read_box, read_letter

CELL = ("subset", "task", "category")
CLOSED = ("choice", "yes_no")  # answer types whose answers can be counted
READINGS = {"": "parsed", "_flexible": "parsed_flexible", "_official": "parsed_official"}
REASONING_FROM = 3  # words beside the answer block from which a reply counts as reasoning

_ANSWER = re.compile(r"<answer>.*?(?:</answer>|$)", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"\w+")


class Boxed(NamedTuple):
    """What a box row has besides. `numbers_official`: the official box is the first four numbers of a text
    without a list."""

    strict: BoxScore
    official: BoxScore
    out_of_range: float
    unit_official: str
    retried_official: bool
    numbers_official: bool
    target_size: str
    gold: tuple[float, ...]


class Judged(NamedTuple):
    """One answer without its text. What is not told here is as in `recipes.scores.predict`.

    `parsed`, `gold`: of rows with letters or yes and no; "" for others. `unparsed`: by reading, in the order
    of `READINGS`. `rule_official`: cue, free or none, how the letter was found, and `article`: it was the
    article of a sentence. `reasoned`: see `reasons`. The last three tell nothing of rows without letters.
    """

    id: str
    group: str
    cell: tuple[str, ...]
    level: int | None
    answer_type: str
    parsed: str
    gold: str
    unparsed: tuple[bool, ...]
    accuracy: float
    accuracy_flexible: float
    accuracy_official: float | None
    chance: float
    score: float
    format: float
    truncated: bool
    tokens: int
    rule_official: str
    article: bool
    reasoned: bool
    box: Boxed | None


def judged(predictions: Iterable[Mapping[str, Any]]) -> list[Judged]:
    """The predictions, read one at a time, in the order of their ids.

    In one order whichever answer came first: sums of fractions depend on it in their last digit.
    """
    known: dict[Any, Any] = {}
    found = [_judge(prediction, known) for prediction in predictions]
    found.sort(key=lambda answer: answer.id)
    return found


def reasons(completion: str) -> bool:
    """Whether a reply has words beside its answer block (a bare "The answer is B." has few)."""
    around = _ANSWER.sub(" ", completion)
    words = _WORD.findall(around)
    return len(words) > REASONING_FROM + 1 if around == completion else len(words) >= REASONING_FROM


def _judge(prediction: Mapping[str, Any], known: dict[Any, Any]) -> Judged:
    """`known` holds one object for equal values: thousands of rows share a few dozen."""

    def shared(value: Any) -> Any:
        return known.setdefault((type(value), value), value)

    kind, completion = prediction["answer_type"], prediction["completion"]
    letter = read_letter(completion) if kind == "choice" else None
    cell = tuple(prediction[key] for key in CELL)
    unparsed = tuple(not prediction[key] for key in READINGS.values())
    return Judged(
        id=prediction["id"],
        group=sys.intern(prediction["group"]),
        cell=shared(cell),
        level=prediction["level"],
        answer_type=sys.intern(kind),
        parsed=sys.intern(prediction["parsed"]) if kind in CLOSED else "",
        gold=sys.intern(str(prediction["answer"])) if kind in CLOSED else "",
        unparsed=shared(unparsed),
        accuracy=shared(prediction["accuracy"]),
        accuracy_flexible=shared(prediction["accuracy_flexible"]),
        accuracy_official=shared(prediction["accuracy_official"]),
        chance=shared(prediction["chance"]),
        score=shared(prediction["score"]),
        format=shared(prediction["format"]),
        truncated=prediction["truncated"],
        tokens=shared(prediction["tokens"]),
        rule_official=sys.intern(letter.rule or "none") if letter else "",
        article=letter is not None and letter.article,
        reasoned=letter is not None and reasons(completion),
        box=_box(prediction) if kind == "box" else None,
    )


def _box(prediction: Mapping[str, Any]) -> Boxed:
    strict, official = (
        BoxScore(*(prediction[f"{key}{reading}"] for key in ("iou", "valid_box", "center_hit")))
        for reading in ("", "_official")
    )
    return Boxed(
        strict=strict,
        official=official,
        out_of_range=prediction["out_of_range"],
        unit_official=sys.intern(prediction["unit_official"]),
        retried_official=prediction["retried_official"],
        numbers_official=read_box(prediction["completion"], None).rule == "numbers",
        target_size=sys.intern(str(prediction["target_size"])),
        gold=tuple(prediction["answer"]),
    )
