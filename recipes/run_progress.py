"""How far a stage is, read from its run directory while it runs or after it was stopped."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from data_prep.errors import UserError
from recipes.run_dir import RunDir
from recipes.step_counts import sft_steps

RECENT = 20  # steps that the time of a step is taken over


@dataclass(frozen=True)
class Progress:
    """`done` of `total` (None: not known yet) of `unit`s, each of which lately took `seconds`."""

    unit: str
    done: int
    total: int | None
    seconds: float | None


def progress(name: str, run: RunDir) -> Progress | None:
    """How far stage `name` in `run` is; None of a stage that counts nothing, or has counted nothing yet."""
    if name == "eval":
        answered = sum(1 for _ in _lines(run.path / "predictions.jsonl"))
        return Progress("answers", answered, _total(name, run), None) if answered else None
    if name not in ("sft", "grpo"):
        return None
    records = {record["step"]: record for record in _records(run.path / "metrics.jsonl")}
    if not max(records, default=0):
        return None
    times = [records[step]["seconds"] for step in sorted(records) if "seconds" in records[step]]
    seconds = median(times[-RECENT:]) if times else None
    return Progress("steps", max(records), _total(name, run), seconds)


def _total(name: str, run: RunDir) -> int | None:
    """Steps, or rows, of the whole stage by its configuration and the prepared sets."""
    prep = run.inputs.get("prep")
    if prep is None or not prep.finished:
        return None
    config = run.config
    if name == "eval":
        every = sum(1 for _ in _lines(prep.path / "rows" / "test.jsonl"))
        return min(every, config.eval.max_rows or every)
    rows = prep.manifest["sets"][{"sft": "sft", "grpo": "rl"}[name]]["rows"]
    rows -= config[name].get("validation_rows", 0)
    if name == "sft":
        return sft_steps(config, rows)
    from recipes.verl_overrides import total_steps

    try:
        return total_steps(config, rows)
    except UserError:
        return None  # fewer rows than a batch: the stage itself says so


def _records(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, _lines(path))


def _lines(path: Path) -> Iterator[str]:
    """The whole lines of a file that may be growing."""
    if not path.exists():
        return
    with open(path, encoding="utf-8") as lines:
        yield from (line for line in lines if line.endswith("\n"))
