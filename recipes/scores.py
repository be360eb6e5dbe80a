"""From completions to predictions and from predictions to scores. Needs no torch.

The strict reading (`rewards`, the same that GRPO is paid by) is the result; the flexible reading stands
beside it, so that a model which knows the answer but not the form is told from one that does not know.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.rows import Row
from data_prep.scoring import frame
from recipes.statistics import bootstrap_ci
from rewards import score_batch

UNPARSED = "none"
CELL = ("subset", "task", "category")


def predict(
    row: Row, completion: str, tokens: int, truncated: bool, response_format: str, reward: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one answer in predictions.jsonl; `tokens` counts the end token too.

    `accuracy` is in [0, 1] (the IoU of a box, else 0 or 1); `correct` means at least one half of it.
    `reward` are the keyword arguments of `rewards.compute_score`.
    """
    question = {
        "answer_type": row.answer_type,
        "options": row.options,
        "unit": row.unit,
        **frame(row),
        "response_format": response_format,
    }
    [scored] = score_batch(
        [{"solution_str": completion, "ground_truth": row.answer, "extra_info": question}], **reward
    )
    return {
        "id": row.id,
        "group": row.group,
        **{key: getattr(row, key) for key in CELL},
        "answer": row.answer,
        "completion": completion,
        "parsed": scored["parsed"],
        "parsed_flexible": scored["parsed_flexible"],
        "correct": scored["accuracy"] >= 0.5,
        "correct_flexible": scored["accuracy_flexible"] >= 0.5,
        "score": scored["score"],
        "accuracy": scored["accuracy"],
        "accuracy_flexible": scored["accuracy_flexible"],
        "format": scored["format"],
        "reason": scored["reason"],
        "tokens": tokens,
        "truncated": truncated,
        "chance": chance(row),
    }


def chance(row: Row) -> float:
    """Expected accuracy of a uniform guess; 0 for open answers."""
    if row.answer_type == "choice" and row.options:
        return 1.0 / len(row.options)
    return 0.5 if row.answer_type == "yes_no" else 0.0


def summarise(predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """{"overall": scores, "cells": [{subset, task, category, scores}]}; see `_scores` for the keys."""
    cells: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for prediction in predictions:
        cells.setdefault(tuple(prediction[key] for key in CELL), []).append(prediction)
    by_cell = [
        {**dict(zip(CELL, cell, strict=True)), **_scores(members)} for cell, members in sorted(cells.items())
    ]
    # The best that can be said without looking: for every category its own most frequent answer.
    blind = sum(cell["majority"] * cell["n"] for cell in by_cell) / max(1, len(predictions))
    return {"overall": {**_scores(predictions), "majority_by_category": blind}, "cells": by_cell}


def _scores(predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Accuracies with their 95 % intervals over image groups, what they are to be compared with, and habits.

    `chance` is the mean accuracy of uniform guesses, `majority` that of always giving `majority_answer`;
    `letters` and `gold` count the answers given and the right ones; shares are fractions of `n`.
    """
    n = len(predictions)
    groups = [p["group"] for p in predictions]
    strict = [p["accuracy"] for p in predictions]
    flexible = [p["accuracy_flexible"] for p in predictions]
    low, high = bootstrap_ci(strict, groups)
    low_flexible, high_flexible = bootstrap_ci(flexible, groups)
    gold = Counter(str(p["answer"]) for p in predictions)
    majority_answer, majority_count = min(gold.items(), key=lambda item: (-item[1], item[0]))
    return {
        "n": n,
        "groups": len(set(groups)),
        "accuracy": sum(strict) / n,
        "low": low,
        "high": high,
        "accuracy_flexible": sum(flexible) / n,
        "low_flexible": low_flexible,
        "high_flexible": high_flexible,
        "chance": sum(p["chance"] for p in predictions) / n,
        "majority": majority_count / n,
        "majority_answer": majority_answer,
        "score": sum(p["score"] for p in predictions) / n,
        "format": sum(p["format"] for p in predictions) / n,
        "unparsed": sum(not p["parsed"] for p in predictions) / n,
        "unparsed_flexible": sum(not p["parsed_flexible"] for p in predictions) / n,
        "truncated": sum(p["truncated"] for p in predictions) / n,
        "mean_tokens": sum(p["tokens"] for p in predictions) / n,
        "letters": _counts(p["parsed"] or UNPARSED for p in predictions),
        "gold": dict(sorted(gold.items())),
    }


def _counts(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
