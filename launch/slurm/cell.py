"""A task of a grid's job array: run the stages of one cell that are its own.

    python -m launch.slurm.cell GRID/cells/N              run them
    python -m launch.slurm.cell GRID/cells/N progress     print a number that grows with what is done

The cell is the N-th of GRID/cells.json, which was frozen when the array was submitted.
"""

import shlex
import sys
import threading
from pathlib import Path

from data_prep.errors import UserError
from launch.local import run_stage
from launch.pipeline import label, shown
from launch.runs import last_command
from launch.slurm.grid import local, own_stages
from recipes import stop
from recipes.grid_frozen import thaw
from recipes.run_dir import RunDir
from recipes.run_progress import progress
from recipes.stages import Stage

WATCH = 1.0  # seconds between looks for the wish to stop
STAGE = 1_000_000  # more steps than a stage has


def run(task: Path) -> int:
    """Run what is missing of the cell; the status is that of the stage that failed.

    Raises:
        UserError: a stage that has a job of its own is not finished.
    """
    _, work = thaw(task.parent.parent)
    planned = work[int(task.name)]
    own = {stage.hash for stage in own_stages(work, planned)}
    asked = shlex.join(["launch", *last_command(task.parent.parent / "command.txt")[0]])
    for stage in planned.stage.with_inputs():
        if stage.finished:
            continue
        if stage.hash not in own:
            raise UserError(f"it waits for {label(stage)}, which is not finished: see {shown(stage.path)}.")
        print(f"{planned.cell.name}: {label(stage)} in {shown(stage.path)}", flush=True)
        with _Forwarded(task, stage):
            status = run_stage(local(stage), asked)
        if status or not stage.finished:
            return status or 1
    return 0


class _Forwarded:
    """While a stage runs, hands on to it that its job is told to save and end."""

    def __init__(self, task: Path, stage: Stage) -> None:
        self._asked, self._told = task / stop.NAME, stage.path / stop.NAME
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(WATCH):
            if self._asked.exists():
                self._told.parent.mkdir(exist_ok=True)
                self._told.touch()
                return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def how_far(task: Path) -> int:
    """A number that grows whenever a stage of the cell is finished or has kept a step."""
    _, work = thaw(task.parent.parent)
    total = 0
    for stage in work[int(task.name)].stage.with_inputs():
        if stage.finished:
            total += STAGE
        elif (stage.path / "config.yaml").exists() and (found := progress(stage.name, RunDir(stage.path))):
            total += found.done
    return total


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    if sys.argv[2:] == ["progress"]:
        print(how_far(folder))
        sys.exit(0)
    try:
        sys.exit(run(folder))
    except UserError as error:
        print(f"cell {folder.name}: {error}", file=sys.stderr)
        sys.exit(2)
