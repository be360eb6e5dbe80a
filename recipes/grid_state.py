"""How far the stages and cells of a grid are, read from their run directories.

Why a stage failed stands in the logs of its last attempt (`recipes.attempt_logs`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recipes import attempt_logs
from recipes.grid import Planned
from recipes.stages import Stage

STATES = ("done", "running", "queued", "failed", "missing")


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
            return CellState("failed", counts, attempts(stage), f"{stage.name}: {failure}", stage)
    return CellState("missing", counts, max(map(attempts, ahead)), None)


def attempts(stage: Stage) -> int:
    """How often the stage was started."""
    return len(attempt_logs.attempts(stage.path))


def failure_of(stage: Stage) -> str | None:
    """The error of the last attempt, where that one failed."""
    last = None if stage.finished else attempt_logs.latest(stage.path)
    if last is None:
        return None
    # A status of 0 without a manifest.json is a fault of the stage.
    return (
        "it ended without a manifest.json"
        if last.facts["status"] == 0
        else last.error()
        if last.failed
        else None
    )
