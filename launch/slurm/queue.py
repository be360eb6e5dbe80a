"""Slurm's queue: submit, ask, cancel; and `slurm/jobs.jsonl`, what was submitted for a folder.

    {"job": "123", "kind": "stage" | "array" | "collect", "stage": "sft", "after": ["122"],
     "submitted": ISO time, "script": path, "cells": n or null}     a line a submission

A state is Slurm's own word, PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL, ...
"""

import contextlib
import datetime
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.atomic import JsonlLog, read_jsonl
from data_prep.errors import UserError

LIVE = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT")
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT")
GOOD = "COMPLETED"
DEPENDENCIES = ("afterok", "afterany", "afternotok")
PATIENCE = 60.0  # seconds that a command of Slurm may take
JOBS = Path("slurm") / "jobs.jsonl"


def sbatch(
    script: Path,
    dependencies: Sequence[str] = (),
    kind: str = "afterok",
    variables: Iterable[str] = (),
    options: Sequence[str] = (),
) -> str:
    """Submit `script` and return the id of the job (of the array, where its options make one).

    It waits for the jobs in `dependencies`, `kind` being afterok or afterany; one that can never start is
    taken off the queue by Slurm. `variables` are the names of those environment variables that the job gets
    beside those of a login shell: their values go from this process's environment to Slurm, and stand in no
    file of ours. `options` are further words for sbatch.

    Raises:
        UserError: Slurm is not here, does not answer, or refuses the job; or a dependency is a job that it
            does not know, or that has failed already.
    """
    if kind not in DEPENDENCIES:
        raise ValueError(f"a dependency is one of {', '.join(DEPENDENCIES)}, not {kind}")
    _check_dependencies(script, dependencies, kind)
    command = ["sbatch", "--parsable", f"--export={','.join(variables) or 'NONE'}", *options]
    if dependencies:
        command += [f"--dependency={kind}:{':'.join(dependencies)}", "--kill-on-invalid-dep=yes"]
    answer = _slurm(*command, str(script))
    if answer.returncode:
        raise UserError(f"Slurm refuses {script}: {_said(answer)}")
    return answer.stdout.strip().split(";")[0]  # "id;cluster" on a federation


def refusal(script: Path) -> str | None:
    """Why Slurm would not take `script` as it stands, or None; nothing is submitted.

    Raises:
        UserError: Slurm is not here or does not answer.
    """
    answer = _slurm("sbatch", "--test-only", "--export=NONE", str(script))
    return _said(answer) if answer.returncode else None


def time_limits() -> dict[str | None, str]:
    """Partition (None: the default one) to the longest time that it gives a job, as Slurm writes it.

    Raises:
        UserError: Slurm is not here or does not answer.
    """
    answer = _slurm("sinfo", "--noheader", "--format=%P|%l")
    if answer.returncode:
        raise UserError(f"Slurm does not answer: {_said(answer)}")
    found: dict[str | None, str] = {}
    for line in answer.stdout.splitlines():
        name, limit = line.split("|")
        found[name.rstrip("*")] = limit
        if name.endswith("*"):
            found[None] = limit
    return found


def _check_dependencies(script: Path, jobs: Sequence[str], kind: str) -> None:
    """Slurm takes a dependency on any number, and one that it does not know counts as fulfilled."""
    known = states(jobs)
    for job in jobs:
        if job not in known:
            raise UserError(f"{script} is to wait for job {job}, which Slurm does not know.")
        if kind == "afterok" and known[job] not in (*LIVE, *WAITING, GOOD):
            raise UserError(f"{script} is to wait for job {job}, which has ended as {known[job]}.")


def states(jobs: Sequence[str]) -> dict[str, str]:
    """The state of every job in `jobs`; one that Slurm no longer knows is left out.

    Of an array: that of a task that runs, else waits, else failed, else COMPLETED.

    Raises:
        UserError: Slurm is not here or does not answer.
    """
    return {job: _together(list(found.values())) for job, found in _tasks(jobs).items()}


def task_states(array: str) -> dict[int, str]:
    """The state of every task of the array by its index; empty where Slurm no longer knows it.

    Raises:
        UserError: as `states`.
    """
    found = _tasks([array]).get(array, {})
    return {index: state for index, state in found.items() if index is not None}


def details(job: str) -> dict[str, str]:
    """What `scontrol show job` says: Reason, ExitCode, Restarts, NodeList, StdOut, ...; empty once forgotten.

    Raises:
        UserError: as `states`.
    """
    answer = _slurm("scontrol", "--oneliner", "show", "job", job)
    lines = answer.stdout.splitlines() if answer.returncode == 0 else []
    return dict(word.split("=", 1) for word in lines[0].split() if "=" in word) if lines else {}


def cancel(jobs: Sequence[str]) -> None:
    """Take `jobs` off the queue and end those that run; one that is over already is no error.

    Raises:
        UserError: Slurm is not here or refuses.
    """
    if not jobs:
        return
    answer = _slurm("scancel", *jobs)
    if answer.returncode:
        raise UserError(f"Slurm does not cancel {', '.join(jobs)}: {_said(answer)}")


@contextlib.contextmanager
def together() -> Iterator[list[str]]:
    """Yield a list for the ids of jobs that belong together: on an error all of them leave the queue."""
    jobs: list[str] = []
    try:
        yield jobs
    except BaseException:
        cancel(jobs)
        if jobs:
            print(f"taken off the queue again: job {', '.join(jobs)}", flush=True)
        raise


def record(
    folder: Path,
    job: str,
    kind: str,
    stage: str,
    script: Path,
    after: Sequence[str] = (),
    cells: int | None = None,
) -> None:
    """Note a submission in `folder`'s jobs.jsonl."""
    path = folder / JOBS
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with JsonlLog(path) as log:
        log.append(
            {
                "job": job,
                "kind": kind,
                "stage": stage,
                "after": list(after),
                "submitted": now,
                "script": str(script),
                "cells": cells,
            }
        )


def records(folder: Path) -> list[dict[str, Any]]:
    """Every submission for `folder`, the oldest first."""
    path = folder / JOBS
    return list(read_jsonl(path)) if path.exists() else []


def alive(folder: Path) -> dict[str, str]:
    """Job to state of the submissions for `folder` that wait or run.

    Raises:
        UserError: as `states`.
    """
    jobs = [entry["job"] for entry in records(folder)]
    return {job: state for job, state in states(jobs).items() if state in (*LIVE, *WAITING)}


def _tasks(jobs: Sequence[str]) -> dict[str, dict[int | None, str]]:
    """Job to the states of its tasks by index (None: it is no array), from the queue, else the accounting."""
    if not jobs:
        return {}
    found = _read_squeue(jobs)
    rest = [job for job in jobs if job not in found]
    return found | (_read_sacct(rest) if rest else {})


def _read_squeue(jobs: Sequence[str]) -> dict[str, dict[int | None, str]]:
    # Asked with all states, squeue has what scontrol has: ended jobs too, until MinJobAge is over.
    words = ("--noheader", "--array", "--states=all", f"--jobs={','.join(jobs)}", "--format=%F|%K|%A|%T")
    answer = _slurm("squeue", *words)
    if answer.returncode:
        if "Invalid job id" in answer.stderr:  # said only where none of them is known
            return {}
        raise UserError(f"Slurm does not answer: {_said(answer)}")
    found: dict[str, dict[int | None, str]] = {}
    for line in answer.stdout.splitlines():
        array, index, job, state = line.strip().split("|")
        name = array if array in jobs else job
        if name in jobs:
            found.setdefault(name, {})[int(index) if index.isdigit() else None] = state
    return found


def _read_sacct(jobs: Sequence[str]) -> dict[str, dict[int | None, str]]:
    """Empty where the cluster keeps no accounting."""
    if shutil.which("sacct") is None:
        return {}
    words = ("--noheader", "--parsable2", "--allocations", "--array", f"--jobs={','.join(jobs)}")
    answer = _slurm("sacct", *words, "--format=JobID,State")
    found: dict[str, dict[int | None, str]] = {}
    for line in answer.stdout.splitlines() if answer.returncode == 0 else []:
        name, state = line.split("|")
        job, _, index = name.partition("_")
        if job in jobs:
            found.setdefault(job, {})[int(index) if index.isdigit() else None] = state.split()[0]
    return found


def _together(found: Sequence[str]) -> str:
    """One state for the tasks of an array."""
    for kind in (LIVE, WAITING):
        if some := [state for state in found if state in kind]:
            return some[0]
    return next((state for state in found if state != GOOD), GOOD)


def _slurm(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of Slurm.

    Raises:
        UserError: it is not installed, or has not answered within `PATIENCE`.
    """
    if shutil.which(words[0]) is None:
        raise UserError(
            f"there is no {words[0]} on this machine: give the command on a login node of the cluster, "
            "or take cluster=local."
        )
    try:
        return subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=PATIENCE, env=_outside(os.environ)
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"Slurm has not answered {words[0]} in {PATIENCE:.0f} s; try again later.") from None


def _outside(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` as it is outside of any job: one that this command is typed in must not shape another."""
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {k: v for k, v in environment.items() if k in kept or not k.startswith("SLURM_")}


def _said(answer: "subprocess.CompletedProcess[str]") -> str:
    """What Slurm said of its refusal, without the names of its programs."""
    lines = [line.split(": ", 2)[-1] for line in answer.stderr.strip().splitlines()]
    return " ".join(lines) or f"status {answer.returncode}"
