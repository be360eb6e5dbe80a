"""`launch cancel`: take jobs off the queue, and end what a launch runs on this machine, and nothing else."""

import re
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from data_prep.errors import UserError
from launch.local import in_use
from launch.pipeline import shown
from launch.run_state import Run
from launch.slurm import queue

PATIENCE = 60.0  # seconds that a stage may take to save and end, more than launch itself gives it
HOLDER = re.compile(r"process (\d+) on (\S+)")


def cancel(runs: Sequence[Run], folders: Sequence[Path]) -> int:
    """End whatever of `runs` runs or waits; `folders` are those in which submissions are recorded.

    Raises:
        UserError: something runs on another machine, or does not end.
    """
    jobs = list(dict.fromkeys(job for folder in folders for job in queue.alive(folder)))
    if jobs:
        queue.cancel(jobs)
        print(f"cancelled: job {', '.join(jobs)}", flush=True)
        _until(lambda: not _live(jobs), "Slurm's jobs do not end")
    ended = [run for run in runs if (holder := in_use(run.path)) and _end(run, holder)]
    if not jobs and not ended:
        print("Nothing of it runs or waits.")
    return 0


def _live(jobs: Sequence[str]) -> set[str]:
    alive = (*queue.LIVE, *queue.WAITING)
    return {job for job, state in queue.states(jobs).items() if state in alive}


def _end(run: Run, holder: str) -> bool:
    """End the launch that holds the directory. It is told twice: at first to save, then to end at once."""
    found = HOLDER.fullmatch(holder)
    if found and found[2] != socket.gethostname():
        raise UserError(f"{run.label} is run by {holder}: give the command there.")
    for patience in (PATIENCE, PATIENCE / 4):
        processes = holders(run.path, int(found[1]) if found else None)
        for process in processes:
            process.terminate()
        if processes:
            print(f"{run.label}: ending process {', '.join(str(p.pid) for p in processes)}", flush=True)
        if _ends(run.path, patience):
            return True
    raise UserError(f"{run.label} in {shown(run.path)} does not end: {in_use(run.path)}.")


def holders(folder: Path, launch: int | None = None) -> list[psutil.Process]:
    """The processes that keep `folder`'s lock: `launch` alone where it does, else those that inherited it.

    A number says little, as it may belong to another process by now; the open lock is proof.
    """
    lock = str((folder / ".lock").resolve())
    found = []
    for process in psutil.process_iter():
        try:
            # Whoever only looks whether the lock is free has it open for reading.
            if any(file.path == lock and file.mode != "r" for file in process.open_files()):
                found.append(process)
        except psutil.Error:
            continue  # another user's, or it has ended
    return [process for process in found if process.pid == launch] or found


def _ends(folder: Path, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while in_use(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _until(condition: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise UserError(f"{failure} in {PATIENCE:.0f} s; look at squeue.")
        time.sleep(0.5)
