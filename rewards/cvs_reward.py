"""The reward verl calls (`reward.custom_reward_function.path`), named as in CVSBench, appendix 0.B.6.

verl drops the whole group of a completion whose reward raises, without stopping the run. So `compute_score` is total: whatever
the text, the gold or the row, it returns the same keys, and `reason` says why an answer earned nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rewards.answer import Parsed, find_span
from rewards.combine import FORMAT_WEIGHT, combine
from rewards.question import read_question
from rewards.response_format import FORMAT_MODES, format_of_span


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """verl's `reward_kwargs`. ValueError at construction names a value out of range."""

    format_weight: float = FORMAT_WEIGHT
    format_mode: str = "answer"
    gate_format: bool = False
    tolerance: float = 0.10
    iou_threshold: float | None = None

    def __post_init__(self) -> None:
        for name, low, high in (("format_weight", 0, 1), ("tolerance", 0, math.inf), ("iou_threshold", 0, 1)):
            value = getattr(self, name)
            if name == "iou_threshold" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise ValueError(f"{name} must be a number in [{low}, {high}], got {value!r}")
        if self.format_mode not in FORMAT_MODES:
            raise ValueError(
                f"format_mode must be one of {', '.join(FORMAT_MODES)}, got {self.format_mode!r}"
            )
        if not isinstance(self.gate_format, bool):
            raise ValueError(f"gate_format must be true or false, got {self.gate_format!r}")


_DEFAULTS = RewardOptions()
_OPTION_NAMES = frozenset(RewardOptions.__slots__)


def read_options(kwargs: Mapping[str, Any]) -> RewardOptions:
    """Reward options among verl's keyword arguments; others (reward router, tokenizer) are verl's own."""
    known = {name: kwargs[name] for name in _OPTION_NAMES & kwargs.keys()}
    return RewardOptions(**known) if known else _DEFAULTS


def compute_score(
    data_source: Any,
    solution_str: Any,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Score one completion.

    Returns `score` in [0, 1] (see `combine`), `accuracy` in [0, 1], `format` 0.0 or 1.0, `parsed` (canonical
    spelling, "" when unparsed), `reason` ("" when parsed) and `out_of_range` (box coordinates off the image).
    Keys of `extra_info` are listed in `rewards.question`, options in `RewardOptions`. Never raises.
    """
    try:
        options = read_options(kwargs)
    except ValueError:
        return _result(Parsed(reason="bad_options"))
    text = solution_str if isinstance(solution_str, str) else _text(solution_str)
    try:
        question = read_question(extra_info)
        span = find_span(text)
        parsed = Parsed(reason=span.reason) if span.text is None else question.read_span(span.text)
        if parsed.value is None:
            return _result(parsed)
        gold = question.read_gold(ground_truth)
    except ValueError:
        # A malformed row or gold is refused at data preparation; here it can only earn nothing.
        return _result(Parsed(reason="malformed_row"))
    letters = question.offered if question.answer_type == "choice" else ""
    format = float(format_of_span(text, span, question.response_format, options.format_mode, letters))
    accuracy = question.score(parsed.value, gold, options.tolerance, options.iou_threshold)
    return _result(
        parsed, accuracy, format, combine(accuracy, format, options.format_weight, options.gate_format)
    )


def _text(solution: Any) -> str:
    return bytes(solution).decode("utf-8", "replace") if isinstance(solution, (bytes, bytearray)) else ""


def _result(parsed: Parsed, accuracy: float = 0.0, format: float = 0.0, score: float = 0.0) -> dict[str, Any]:
    return {
        "score": score,
        "accuracy": accuracy,
        "format": format,
        "parsed": parsed.text,
        "reason": parsed.reason,
        "out_of_range": parsed.out_of_range,
    }
