"""How far the stages and cells of a grid are, read from their run directories.

A stage that failed leaves failure.json in its directory, with the attempt, the status and the last line of
its stderr.txt; it goes when the stage is finished.
"""

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.atomic import write_json
from recipes.grid import Planned
from recipes.stages import Stage

STDERR = "stderr.txt"
STATES = ("done", "running", "failed", "missing")


@dataclass(frozen=True)
class CellState:
    """`stages` are (finished, all); `attempts` counts the starts of the stage that it stands at."""

    state: str
    stages: tuple[int, int]
    attempts: int
    error: str | None
    failed: Stage | None = None


def state_of(planned: Planned, in_use: Callable[[Path], str | None]) -> CellState:
    """`in_use` tells who holds a stage's directory at this moment."""
    stages = planned.stage.with_inputs()
    counts = (sum(stage.finished for stage in stages), len(stages))
    if planned.stage.finished:
        return CellState("done", counts, attempts(planned.stage), None)
    ahead = [stage for stage in stages if not stage.finished]
    if any(in_use(stage.path) for stage in ahead):
        return CellState("running", counts, max(map(attempts, ahead)), None)
    for stage in ahead:
        if failure := failure_of(stage):
            error = f"{stage.name}: {failure['error']}"
            return CellState("failed", counts, attempts(stage), error, stage)
    return CellState("missing", counts, max(map(attempts, ahead)), None)


def attempts(stage: Stage) -> int:
    """How often the stage was started: command.txt has a line with the date for every start."""
    path = stage.path / "command.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return sum(line.startswith("# ") for line in lines)


def failure_of(stage: Stage) -> dict[str, Any] | None:
    path = stage.path / "failure.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() and not stage.finished else None


def stderr_size(stage: Stage) -> int:
    path = stage.path / STDERR
    return path.stat().st_size if path.exists() else 0


def record_failure(stage: Stage, status: int, before: int) -> str:
    """Write failure.json and return the error: the last line that the stage wrote to stderr.txt behind
    `before` bytes, or how it ended."""
    path = stage.path / STDERR
    said = path.read_bytes()[before:].decode("utf-8", "replace") if path.exists() else ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    error = f"ended by signal {status - 128}" if status > 128 else lines[-1] if lines else f"status {status}"
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    write_json(
        stage.path / "failure.json",
        {"attempt": attempts(stage), "status": status, "error": error, "date": now},
    )
    return error


def clear_failure(stage: Stage) -> None:
    (stage.path / "failure.json").unlink(missing_ok=True)
