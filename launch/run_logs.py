"""`launch logs`: what the newest attempt of a stage printed, and on request what it prints further."""

import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from data_prep.errors import UserError
from launch.follow import FOLLOW, Follower
from launch.pipeline import shown
from launch.run_state import Run, RunState, states
from launch.slurm import queue
from recipes import attempt_logs

ASK = 5.0  # seconds between questions whether it still runs
MORE = {"grpo": ("verl.log",), "serve": ("vllm.log",)}  # further logs of a stage, which are only named


def show(runs: Sequence[Run], follow: bool) -> int:
    """Print the logs of the run that runs, or that was begun last; with `follow`, until it ends.

    Raises:
        UserError: none of them was ever begun.
    """
    run = newest(states(runs)[0])
    with contextlib.ExitStack() as streams:
        open_: dict[Path, Follower] = {}
        asked, alive = time.monotonic(), follow
        while True:
            for path in _files(run):
                if path not in open_:
                    if path.stat().st_size == 0:
                        continue
                    print(f"==> {shown(path)}", flush=True)
                    open_[path] = streams.enter_context(Follower(path, sys.stdout))
                open_[path].pass_on()
            if not alive:
                break
            time.sleep(FOLLOW)
            if time.monotonic() - asked > ASK:
                asked = time.monotonic()
                alive = states([run])[0][0].state in ("running", "queued")
    for name in MORE.get(run.name, ()):
        if (run.path / name).exists():
            print(f"more in {shown(run.path / name)}")
    return 0


def newest(found: Sequence[RunState]) -> Run:
    """The run that runs, else the one whose logs were written last.

    Raises:
        UserError: there are no logs.
    """
    with_logs = {state.run.path: _written(state.run) for state in found if _files(state.run)}
    if not with_logs:
        raise UserError("there are no logs yet: nothing of it was begun.")
    running = [state.run for state in found if state.state == "running" and state.run.path in with_logs]
    begun = [state.run for state in found if state.run.path in with_logs]
    return max(running or begun, key=lambda run: with_logs[run.path])


def _files(run: Run) -> list[Path]:
    """What the last job printed before and after its stage, and the logs of the last attempt."""
    records = queue.records(run.path)
    jobs = [run.path / "slurm" / f"{records[-1]['job']}.txt"] if records else []
    last = attempt_logs.latest(run.path)
    return [path for path in (*jobs, *((last.stdout, last.stderr) if last else ())) if path.exists()]


def _written(run: Run) -> float:
    return max(path.stat().st_mtime for path in _files(run))
