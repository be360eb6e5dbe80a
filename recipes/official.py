"""How CVSBench's released evaluation toolkit reads an answer and scores it: the `official` mode.

Written from a description of the toolkit's behaviour, quirks and all; `docs/evaluation.md` says which of them
change a score. Everything here is a function of the answer's text and the target picture's size. Needs no
torch.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rewards import iou
from rewards.box import Box, Size, in_order

MAX_SIDE = 512
"""The toolkit's default for the longer side, in pixels, of the pictures that it sends for grounding."""
SHARE_UP_TO = 1.5
"""Four numbers none of which is above this are taken for shares of the picture's width and height."""
RIGHT_FROM = 0.5
"""IoU from which a box is right."""
THRESHOLDS = (0.3, 0.5, 0.7)
"""IoUs at which accuracies are told; the toolkit's own are the first (its recall) and the second."""
RETRY = (
    "No box could be read in that reply. Reply with four numbers in square brackets and nothing else:"
    " [x_min, y_min, x_max, y_max]."
)

# A word such as "means" ends in a cue too: there is no boundary to the left of one.
_CUE = re.compile(r"(?:ANSWER|ANS|OPTION|CHOICE|OUTPUT)\s*:?\s*([A-D])(?![A-Z0-9])")
_FREE = re.compile(r"(?<![A-Z0-9])([A-D])(?![A-Z0-9])")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
# An article goes before a word that may begin what it names; in "A or B" and "A is right" the A is a letter.
_ARTICLE = re.compile(
    r"[Aa]\s+(?!(?:or|and|is|was|as|to|in|on|of|but|not|would|because|since|seems|looks|matches)\b)[a-z]"
)


class LetterReading(NamedTuple):
    """`letter` is A to D or None; `rule` is cue, free or ""; `article`: the "A" of a sentence was read."""

    letter: str | None
    rule: str = ""
    article: bool = False


class BoxReading(NamedTuple):
    """`box` in pixels of the original target picture, corners in order, or None where no box can be read.

    `rule`: list (four numbers in square brackets), numbers (the first four anywhere) or "". `unit`: pixel,
    share (of width and height), shrunk (pixels of a picture made smaller) or "".
    """

    box: Box | None
    rule: str = ""
    unit: str = ""


class BoxScore(NamedTuple):
    """A grounding answer: its IoU in [0, 1], whether a box was read, whether its centre is in the gold."""

    iou: float
    valid: bool
    center_hit: bool


def read_letter(text: str) -> LetterReading:
    """The option letter that the toolkit takes from a reply.

    In the upper-cased text: the letter A to D behind the first cue (answer, option, ...; white space and a
    colon may stand between), else the first such letter that touches no other letter and no digit. So the
    article of "A house." is an answer, while the tag of `<answer>B</answer>` is no cue.
    """
    upper = text.upper()
    for rule, pattern in (("cue", _CUE), ("free", _FREE)):
        if found := pattern.search(upper):
            place = _place(text, upper, found.start(1))
            return LetterReading(found[1], rule, found[1] == "A" and bool(_ARTICLE.match(text, place)))
    return LetterReading(None)


def read_box(text: str, size: Size | None, max_side: int = MAX_SIDE) -> BoxReading:
    """The box that the toolkit takes from a reply, in pixels of the original target picture of `size`.

    The first bracketed chunk that is a JSON list of four numbers (as texts too), else the first four numbers
    anywhere. Up to 1.5 they are shares of width and height; else they are divided by the factor by which the
    toolkit would have shrunk the picture, whether or not the model saw it so. Nothing is clipped. Without a
    size they are pixels.
    """
    rule, numbers = "list", _listed(text)
    if numbers is None:
        rule, numbers = "numbers", [float(number) for number in _NUMBER.findall(text)[:4]]
        if len(numbers) < 4:
            return BoxReading(None)
    unit = "pixel"
    if size is not None and max(numbers) <= SHARE_UP_TO:
        unit, numbers = "share", [v * side for v, side in zip(numbers, size * 2, strict=True)]
    elif size is not None and (factor := shrink_factor(size, max_side)) < 1:
        unit, numbers = "shrunk", [v / factor for v in numbers]
    return BoxReading(in_order(numbers), rule, unit)


def shrink_factor(size: Size, max_side: int = MAX_SIDE) -> float:
    """By what the toolkit multiplies a picture's sides before sending it; 1.0 where it is small enough."""
    longer = max(size)
    return max_side / longer if 0 < max_side < longer else 1.0


def score_box(box: Box | None, gold: Box | Sequence[float]) -> BoxScore:
    """Score a box against the gold, both in pixels with corners in order. No box has IoU 0."""
    if box is None:
        return BoxScore(0.0, False, False)
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    hit = gold[0] <= x <= gold[2] and gold[1] <= y <= gold[3]
    return BoxScore(iou(box, tuple(gold)), True, hit)


def box_metrics(scores: Iterable[BoxScore | None]) -> dict[str, Any]:
    """The toolkit's metrics over grounding answers; None stands for a row on which it raised.

    Such a row (a missing picture, a failed request) leaves numerator and denominator, and is counted under
    `dropped`. A reply without a box has IoU 0 and stays. No answers at all give None for every share.
    """
    asked = list(scores)
    kept = [score for score in asked if score is not None]
    return {
        "n": len(kept),
        "dropped": len(asked) - len(kept),
        "mean_iou": _mean(score.iou for score in kept),
        "accuracy": _mean(score.iou >= RIGHT_FROM for score in kept),
        "accuracy_at": {str(t): _mean(score.iou >= t for score in kept) for t in THRESHOLDS},
        "valid_box": _mean(score.valid for score in kept),
        "null_boxes": sum(not score.valid for score in kept),
        "center_hit": _mean(score.center_hit for score in kept),
    }


def letter_metrics(answers: Iterable[tuple[str | None, str] | None]) -> dict[str, Any]:
    """The toolkit's metrics over choice answers (letter read, gold letter); None as for `box_metrics`.

    A reply without a letter is wrong and stays in the denominator.
    """
    asked = list(answers)
    kept = [answer for answer in asked if answer is not None]
    return {
        "n": len(kept),
        "dropped": len(asked) - len(kept),
        "correct": sum(letter == gold for letter, gold in kept),
        "accuracy": _mean(letter == gold for letter, gold in kept),
    }


def retry_sentence(text: str, answer_type: str) -> str | None:
    """What the toolkit's second request adds (in our words) where it asks again, else None.

    It asks again, once, when a grounding reply holds no box. A choice reply without a letter is not repeated.
    """
    return RETRY if answer_type == "box" and read_box(text, None).box is None else None


def _place(text: str, upper: str, position: int) -> int:
    """Where in `text` stands what upper-casing moved to `position` ("ß" becomes two letters)."""
    if len(text) == len(upper):
        return position
    moved = 0
    for place, character in enumerate(text):
        if moved >= position:
            return place
        moved += len(character.upper())
    return len(text)


def _listed(text: str) -> list[float] | None:
    """The first chunk from a "[" to the next "]" that is a JSON list of four numbers.

    Chunks do not nest: in `[{"bbox_2d": [1, 2, 3, 4]}]` the chunk begins at the outer bracket and is no JSON.
    """
    start = text.find("[")
    while start >= 0 and (end := text.find("]", start)) >= 0:
        try:
            values = json.loads(text[start : end + 1])
            if len(values) == 4 and not any(isinstance(value, bool | list | dict) for value in values):
                return [float(value) for value in values]
        except (OverflowError, RecursionError, TypeError, ValueError):
            pass  # no such list: look at the next chunk
        start = text.find("[", end)
    return None


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else None
