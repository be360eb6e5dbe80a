"""Batch entry points for evaluation and data preparation: strict and flexible reading side by side."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewards.answer import Parsed
from rewards.box import render_box
from rewards.cvs_reward import compute_score, read_options
from rewards.number import plain_number
from rewards.question import MODES, read_question


def parse_answer(
    text: str, answer_type: str = "choice", *, mode: str = "strict", **extra_info: Any
) -> Parsed:
    """Read the answer of a completion.

    Keyword arguments are those of `extra_info`: `options`, `unit`, `coordinates`, `image_size`, `resized_size`.
    Raises ValueError for an unknown type, mode or unit; an unreadable text gives `value=None` and a `reason`.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    return read_question({"answer_type": answer_type, **extra_info}).read(text, mode)


def render_answer(value: Any, answer_type: str = "choice", **extra_info: Any) -> str:
    """The answer block for a gold value: ``parse_answer(render_answer(v, t), t).value == v``.

    Boxes are given in original pixels and written in the convention of `coordinates`. ValueError for a malformed value.
    """
    question = read_question({"answer_type": answer_type, **extra_info})
    gold = question.read_gold(value)
    if answer_type == "box":
        content = render_box(gold, question.coordinates, question.image_size, question.resized_size)
    elif answer_type == "number":
        content = f"{plain_number(gold)} {question.unit}" if question.unit else plain_number(gold)
    else:
        content = gold
    return f"<answer>{content}</answer>"


def validate_gold(gold: Any, answer_type: str = "choice", **extra_info: Any) -> None:
    """Raise ValueError when a gold, or what its row says about the question, could never be scored."""
    question = read_question({"answer_type": answer_type, **extra_info})
    question.read_gold(gold)
    if answer_type == "box":
        question.read_span("[0, 0, 1, 1]")


def score_batch(rows: Iterable[Mapping[str, Any]], **kwargs: Any) -> list[dict[str, Any]]:
    """Score rows of {"solution_str", "ground_truth", "extra_info"}; the same keyword arguments as `compute_score`.

    Each result holds `compute_score`'s keys (the strict reading) and `accuracy_flexible`, `parsed_flexible`.
    Raises ValueError for bad options.
    """
    options = read_options(kwargs)
    results = []
    for row in rows:
        text, gold, extra_info = row["solution_str"], row["ground_truth"], row.get("extra_info")
        result = compute_score(row.get("data_source"), text, gold, extra_info, **kwargs)
        result["accuracy_flexible"], result["parsed_flexible"] = result["accuracy"], result["parsed"]
        if not result["parsed"] and isinstance(text, str) and result["reason"] != "malformed_row":
            question = read_question(extra_info)
            loose = question.read(text, "flexible")
            if loose.value is not None:
                value = question.read_gold(gold)
                result["parsed_flexible"] = loose.text
                result["accuracy_flexible"] = question.score(
                    loose.value, value, options.tolerance, options.iou_threshold
                )
        results.append(result)
    return results


def summarise(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over `score_batch` results: strict and flexible accuracy, format, and the share each reading left unparsed."""
    count = len(results)
    means = {
        key: sum(r[key] for r in results) / count if count else 0.0
        for key in ("accuracy", "accuracy_flexible", "format")
    }
    unparsed = {
        name: sum(not r[key] for r in results) / count if count else 0.0
        for name, key in (("unparsed", "parsed"), ("unparsed_flexible", "parsed_flexible"))
    }
    return {"count": float(count), **means, **unparsed}
