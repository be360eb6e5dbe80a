"""Where the official reading differs from the strict one, and how much of it is the article "A"."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from recipes.official import read_box, read_letter
from recipes.statistics import paired_difference

_ANSWER = re.compile(r"<answer>.*?(?:</answer>|$)", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"\w+")
REASONING_FROM = 3  # words beside the answer block from which a reply counts as reasoning


def official_gap(predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`choice`, all choice rows; `reasoning`, those answered with words around the answer block; `boxes`.

    A part without rows is None.
    """
    choice = [p for p in predictions if p["answer_type"] == "choice"]
    return {
        "choice": _letters(choice),
        "reasoning": _letters([p for p in choice if reasons(p["completion"])]),
        "boxes": _boxes([p for p in predictions if p["answer_type"] == "box"]),
    }


def reasons(completion: str) -> bool:
    """Whether a reply has words beside its answer block (a bare "The answer is B." has few)."""
    around = _ANSWER.sub(" ", completion)
    words = _WORD.findall(around)
    return len(words) > REASONING_FROM + 1 if around == completion else len(words) >= REASONING_FROM


def _letters(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Accuracies and their paired difference, official minus strict, with interval and p over image groups.

    `lost` and `gained` count the answers right in the strict reading alone and in the official one alone.
    `from_article` counts the letters A that were the article of a sentence, `lost_to_article` and
    `gained_by_article` those among lost and gained. `cue`, `free` and `none` count how the official letter
    was found.
    """
    if not answers:
        return None
    readings = [read_letter(p["completion"]) for p in answers]
    strict = [p["accuracy"] for p in answers]
    official = [p["accuracy_official"] for p in answers]
    found = paired_difference(strict, official, [p["group"] for p in answers])
    changed = Counter(
        (before > after, reading.article)
        for before, after, reading in zip(strict, official, readings, strict=True)
        if before != after
    )
    rules = Counter(reading.rule or "none" for reading in readings)
    return {
        "n": len(answers),
        "accuracy": sum(strict) / len(answers),
        "accuracy_official": sum(official) / len(answers),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "lost": changed[True, True] + changed[True, False],
        "gained": changed[False, True] + changed[False, False],
        "from_article": sum(reading.article for reading in readings),
        "lost_to_article": changed[True, True],
        "gained_by_article": changed[False, True],
        **{rule: rules[rule] for rule in ("cue", "free", "none")},
    }


def _boxes(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Mean IoUs and their paired difference, official minus strict, and what changes a box.

    `shrunk` counts the boxes divided by the factor of a picture that the toolkit makes smaller, `share`
    those taken for shares of the picture, `first_numbers` those made of the first four numbers of a text
    without a list (the 2 of "bbox_2d" is one), `retried` the replies without a box, after which the toolkit
    asks once more.
    """
    if not answers:
        return None
    strict, official = [p["iou"] for p in answers], [p["iou_official"] for p in answers]
    found = paired_difference(strict, official, [p["group"] for p in answers])
    units = Counter(p["unit_official"] for p in answers)
    return {
        "n": len(answers),
        "mean_iou": sum(strict) / len(answers),
        "mean_iou_official": sum(official) / len(answers),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "shrunk": units["shrunk"],
        "share": units["share"],
        "first_numbers": sum(read_box(p["completion"], None).rule == "numbers" for p in answers),
        "retried": sum(p["retried_official"] for p in answers),
    }
