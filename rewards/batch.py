"""Scoring for evaluation: the strict and the flexible reading side by side."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rewards.cvs_reward import as_text, compute_score
from rewards.options import RewardOptions
from rewards.question import read_question


def score_batch(rows: Iterable[Mapping[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """Score rows of {`solution_str`, `ground_truth`, `extra_info`}, in order.

    Each result has the keys of `compute_score` (the strict reading), `accuracy_flexible` and
    `parsed_flexible`. `options` are those of `RewardOptions`; ValueError or TypeError for a wrong one.
    """
    RewardOptions(**options)
    return [_score_row(row, options) for row in rows]


def summarise(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over the results of `score_batch`, all in [0, 1]; 0.0 for no results.

    `unparsed` and `unparsed_flexible` are the shares of answers that could not be read, `malformed` the
    share of rows that could not be scored.
    """
    columns = {
        "accuracy": [r["accuracy"] for r in results],
        "accuracy_flexible": [r["accuracy_flexible"] for r in results],
        "format": [r["format"] for r in results],
        "unparsed": [not r["parsed"] for r in results],
        "unparsed_flexible": [not r["parsed_flexible"] for r in results],
        "malformed": [r["reason"] == "malformed_row" for r in results],
    }
    return {name: sum(values) / max(len(values), 1) for name, values in columns.items()}


def _score_row(row: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    extra_info = row.get("extra_info")
    result = compute_score(None, row["solution_str"], row["ground_truth"], extra_info, **options)
    flexible = {"accuracy_flexible": result["accuracy"], "parsed_flexible": result["parsed"]}
    if not result["parsed"] and result["reason"] != "malformed_row":
        question = read_question(extra_info)
        parsed = question.read(as_text(row["solution_str"]), "flexible")
        if parsed.value is not None:
            chosen = RewardOptions(**options)
            gold = question.read_gold(row["ground_truth"])
            accuracy = question.score(parsed.value, gold, chosen.tolerance, chosen.iou_threshold)
            flexible = {"accuracy_flexible": accuracy, "parsed_flexible": parsed.text}
    return result | flexible
