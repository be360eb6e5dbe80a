"""The readings of an answer that tables choose between, and where a prediction or a score keeps each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from recipes.statistics import bootstrap_ci

MODES = ("strict", "flexible", "official")
_SUFFIX = {"strict": "", "flexible": "_flexible", "official": "_official"}


class Score(NamedTuple):
    """A share in [0, 1] with its 95 % interval over image groups; `n` counts the questions."""

    value: float
    low: float
    high: float
    n: int


def score_of(scores: Mapping[str, Any], mode: str) -> Score | None:
    """One reading of a score of scores.json (`overall`, or one of its cells); None where it was not taken."""
    keys = [f"{name}{_SUFFIX[mode]}" for name in ("accuracy", "low", "high")]
    values = [scores.get(key) for key in keys]
    return None if None in values else Score(*values, scores["n"])


def accuracy_of(prediction: Mapping[str, Any], mode: str) -> float | None:
    """How right one answer is, in [0, 1]; None where the evaluation did not take this reading."""
    return prediction.get(f"accuracy{_SUFFIX[mode]}")


def iou_of(prediction: Mapping[str, Any], mode: str, threshold: float | None) -> float | None:
    """The IoU of a box; without `iou` its accuracy, where no `threshold` (reward.iou_threshold) cut it."""
    stored = prediction.get(f"iou{_SUFFIX[mode]}")
    return accuracy_of(prediction, mode) if stored is None and threshold is None else stored


def parsed_of(prediction: Mapping[str, Any], mode: str) -> str | None:
    """The answer as it was read ("" where none could be); None where the evaluation did not take this
    reading of such an answer."""
    if accuracy_of(prediction, mode) is None:
        return None
    return prediction[f"parsed{_SUFFIX[mode]}"]


def mean_of(values: Sequence[float | None], groups: Sequence[str]) -> Score | None:
    """The mean of one value a question, with its interval; None without values, or where one is missing."""
    kept = [value for value in values if value is not None]
    if not kept or len(kept) < len(values):
        return None
    low, high = bootstrap_ci(kept, groups)
    return Score(sum(kept) / len(kept), low, high, len(kept))
