"""Where the official reading differs from the strict one, and how much of it is the article "A"."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from recipes.judged import Boxed, Judged
from recipes.statistics import paired_difference


def official_gap(answers: Sequence[Judged]) -> dict[str, Any]:
    """`choice`, all choice rows; `reasoning`, those answered with words around the answer block; `boxes`.

    A part without rows is None.
    """
    choice = [p for p in answers if p.answer_type == "choice"]
    boxes = [(p.box, p.group) for p in answers if p.box]
    return {
        "choice": _letters(choice),
        "reasoning": _letters([p for p in choice if p.reasoned]),
        "boxes": _boxes([box for box, _ in boxes], [group for _, group in boxes]),
    }


def _letters(answers: Sequence[Judged]) -> dict[str, Any] | None:
    """Accuracies and their paired difference, official minus strict, with interval and p over image groups.

    `lost` and `gained` count the answers right in the strict reading alone and in the official one alone.
    `from_article` counts the letters A that were the article of a sentence, `lost_to_article` and
    `gained_by_article` those among lost and gained. `cue`, `free` and `none` count how the official letter
    was found.
    """
    if not answers:
        return None
    strict = [p.accuracy for p in answers]
    official = [p.accuracy_official or 0.0 for p in answers]  # a choice row always has one
    found = paired_difference(strict, official, [p.group for p in answers])
    changed = Counter(
        (before > after, answer.article)
        for before, after, answer in zip(strict, official, answers, strict=True)
        if before != after
    )
    rules = Counter(p.rule_official for p in answers)
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
        "from_article": sum(p.article for p in answers),
        "lost_to_article": changed[True, True],
        "gained_by_article": changed[False, True],
        **{rule: rules[rule] for rule in ("cue", "free", "none")},
    }


def _boxes(boxes: Sequence[Boxed], groups: Sequence[str]) -> dict[str, Any] | None:
    """Mean IoUs and their paired difference, official minus strict, and what changes a box.

    `shrunk` counts the boxes divided by the factor of a picture that the toolkit makes smaller, `share`
    those taken for shares of the picture, `first_numbers` those made of the first four numbers of a text
    without a list (the 2 of "bbox_2d" is one), `retried` the replies without a box, after which the toolkit
    asks once more.
    """
    if not boxes:
        return None
    strict, official = [box.strict.iou for box in boxes], [box.official.iou for box in boxes]
    found = paired_difference(strict, official, groups)
    units = Counter(box.unit_official for box in boxes)
    return {
        "n": len(boxes),
        "mean_iou": sum(strict) / len(boxes),
        "mean_iou_official": sum(official) / len(boxes),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "shrunk": units["shrunk"],
        "share": units["share"],
        "first_numbers": sum(box.numbers_official for box in boxes),
        "retried": sum(box.retried_official for box in boxes),
    }
