"""The reward verl calls (`reward.custom_reward_function.path`), named as in CVSBench, appendix 0.B.6.

verl drops the group of a completion whose reward raises, and the run goes on. So `compute_score` is total:
whatever the text, the gold or the row, it returns the same keys, and `reason` says why an answer earned
nothing.
"""

from collections.abc import Mapping
from typing import Any

from rewards.answer import Parsed, find_span
from rewards.combine import combine
from rewards.options import read_options
from rewards.question import read_question
from rewards.response_format import span_keeps_format


def compute_score(
    data_source: Any,
    solution_str: Any,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Score one completion. Never raises.

    Args:
        data_source: not used; verl passes it.
        solution_str: the completion; bytes are read as UTF-8, anything else that is no text earns nothing.
        ground_truth: the gold, as text or as what JSON holds; a box in original pixels.
        extra_info: what the row says about its question, see `rewards.question`.
        kwargs: `RewardOptions`; unknown ones are ignored, as verl adds its own.

    Returns:
        `score` in [0, 1], see `combine`; `accuracy` in [0, 1]; `format`, 1.0 when the format is kept and the
        answer can be read, else 0.0; `parsed`, the answer in canonical spelling ("" when unparsed); `reason`,
        why it is unparsed ("" otherwise); `out_of_range`, how many coordinates of a box lie off the image.
    """
    try:
        options = read_options(kwargs)
    except ValueError:
        return _result(Parsed(reason="bad_options"))
    try:
        question = read_question(extra_info)
        gold = question.read_gold(ground_truth)
    except ValueError:
        # Refused where the set is made (`validate_gold`); here such a row can only earn nothing.
        return _result(Parsed(reason="malformed_row"))
    text = as_text(solution_str)
    span = find_span(text)
    parsed = Parsed(reason=span.reason) if span.text is None else question.read_span(span.text)
    if parsed.value is None:
        return _result(parsed)
    accuracy = question.score(parsed.value, gold, options.tolerance, options.iou_threshold)
    kept = span_keeps_format(text, span, question.response_format, options.format_mode, question.offered)
    return _result(
        parsed, accuracy, float(kept), combine(accuracy, kept, options.format_weight, options.gate_format)
    )


def as_text(solution: Any) -> str:
    """A completion as text: bytes decoded, "" for what is neither."""
    if isinstance(solution, (bytes, bytearray)):
        return solution.decode("utf-8", "replace")
    return solution if isinstance(solution, str) else ""


def _result(
    parsed: Parsed, accuracy: float = 0.0, format_score: float = 0.0, score: float = 0.0
) -> dict[str, Any]:
    return {
        "score": score,
        "accuracy": accuracy,
        "format": format_score,
        "parsed": parsed.text,
        "reason": parsed.reason,
        "out_of_range": parsed.out_of_range,
    }
