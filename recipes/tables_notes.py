"""Whether a table's numbers may be compared with the paper's: the scale, the release, and its size."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import data_prep.cvsbench
from recipes.tables_model import Evaluation
from recipes.tables_published import Published

NOT_COMPARABLE = "Not comparable with the paper: "
TOLERANCE = 0.02  # of the size of a test set: rows with unreadable pictures may be set aside


def comparability(evaluations: Iterable[Evaluation], published: Published | None) -> list[str]:
    """Notes for the head of a table, each with its cells; `published` says which subsets count."""
    about: dict[str, list[str]] = {}
    for evaluation in evaluations:
        for reason in _reasons(evaluation, published):
            about.setdefault(reason, []).append(evaluation.name)
    return [f"{NOT_COMPARABLE}{reason} ({', '.join(names)})." for reason, names in about.items()]


def _reasons(evaluation: Evaluation, published: Published | None) -> Iterable[str]:
    if evaluation.scale != "paper":
        yield f"scale={evaluation.scale} takes another model, other data and fewer steps"
    if evaluation.prep.config.data.synthetic is not None:
        yield "the release is synthetic"
        return
    if evaluation.config.eval.blank:
        yield "the pictures are blank"
    if published is not None and published.benchmark == "cvsbench":
        yield from _sizes(evaluation, published)


def _sizes(evaluation: Evaluation, published: Published) -> Iterable[str]:
    """Tasks whose number of questions is not that of the paper's test half."""
    subsets = {column.subset.lower() for column in published.columns}
    answered = Counter((p["subset"], p["task"]) for p in evaluation.predictions)
    for (subset, task), rows in paper_sizes().items():
        have = answered[subset, task]
        if subset in subsets and have and abs(have - rows) > TOLERANCE * rows:
            yield (
                f"{have:,} questions of {subset} {task}, where half of the paper's release has about "
                f"{rows:,}: another release, or a part of it"
            )


def paper_sizes() -> dict[tuple[str, str], float]:
    """(subset, task) -> half of the released questions (CVSBench 3.2, a split of 1:1)."""
    path = Path(data_prep.cvsbench.__file__).with_name("paper_counts.json")
    tasks = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    return {(task["subset"], task["task"]): task["rows"] // 2 for task in tasks}
