"""A grid on Slurm: shared stages as jobs of their own, the cells as one job array, and a job for the tables.

A stage that several cells need is never left to the array: its tasks would wait for each other, each with the
GPUs that it holds, and on file locks, which not every shared file system keeps across nodes. So the array
starts when those jobs have ended, whatever they ended as, and a cell whose stage is missing then fails alone,
and at once. A training over several nodes is a job of its own too, as a task of the array has one node.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from data_prep.errors import UserError
from launch.pipeline import shown
from launch.slurm import queue
from launch.slurm.render import CELLS, COLLECT, NODES, Needs, needs, script
from launch.slurm.submit import new_script, submit, variables, waits
from recipes import devices
from recipes.grid import Grid, Planned, all_stages, needed_by
from recipes.grid_state import CellState
from recipes.stages import Stage

FOLDER = "cells"  # of the grid's folder: what its tasks print, a folder a cell


def own_stages(work: Sequence[Planned], planned: Planned) -> list[Stage]:
    """The stages that the task of a cell runs, in their order: those that no job of their own runs."""
    shared = {stage.hash for stage in job_stages(work)}
    return [stage for stage in planned.stage.with_inputs() if stage.hash not in shared]


def job_stages(work: Sequence[Planned]) -> list[Stage]:
    """The stages that are jobs of their own, with all that those read, in an order that can be run."""
    apart = [
        stage
        for stage in all_stages(work)
        if len(needed_by(work, stage)) > 1
        or (stage.name in NODES and devices.nodes(stage.config["cluster"]) > 1)
    ]
    return list({source.hash: source for stage in apart for source in stage.with_inputs()}.values())


def local(stage: Stage) -> Stage:
    """The stage as a task runs it: on its node, with the GPUs of the job, as on any machine."""
    cluster = {"name": "local", "gpus": stage.config["cluster"]["gpus"]}
    return replace(stage, config={**stage.config, "cluster": cluster})


def submit_grid(
    grid: Grid, work: Sequence[Planned], blocked: Mapping[str, Sequence[str]], folder: Path, asked: str
) -> int:
    """Submit what is not finished of the grid in `folder`, without the cells that are `blocked`.

    Raises:
        UserError: jobs of it are on the queue already; Slurm is not here or refuses one; or a stage's
            directory was made by another configuration. Nothing of it stays on the queue then.
    """
    if alive := queue.alive(folder):
        raise UserError(
            f"{grid.name} is on the queue already: job {', '.join(alive)}. "
            f"`launch status run_dir={shown(folder)}` shows it, `launch cancel` takes it off."
        )
    left = unfinished(work, blocked)
    for name, reasons in blocked.items():
        print(f"{name} is left out: {' '.join(reasons)}")
    if not left:
        print("Every cell that can be run is finished.")
        return 1 if blocked else 0
    mine = [work[index] for index in left]
    before = [s for s in job_stages(work) if needed_by(mine, s) and not s.finished]
    for planned in mine:
        for stage in own_stages(work, planned):
            stage.check()
    known = {stage.hash: set(queue.alive(stage.path)) for stage in before}
    with queue.together() as new:
        submit(before, work[0].config, asked)
        after = []
        for stage in before:
            jobs = list(queue.alive(stage.path))
            after += jobs
            new += [job for job in jobs if job not in known[stage.hash]]
        for index in left:
            (folder / FOLDER / str(index) / "slurm").mkdir(parents=True, exist_ok=True)
        array, collect = scripts(work, left, folder)
        job = _submit(folder, CELLS, new_script(folder / FOLDER, array), "array", after, work, len(left))
        new.append(job)
        print(f"{grid.name}: {len(left)} of {len(work)} cells as array {job}{waits(after)}")
        tables = _submit(folder, COLLECT, new_script(folder, collect), "collect", [job], work)
        print(f"tables: job {tables} after {job}, in {shown(folder)}", flush=True)
    return 0


def unfinished(work: Sequence[Planned], blocked: Mapping[str, Sequence[str]]) -> list[int]:
    return [
        i for i, planned in enumerate(work) if not planned.stage.finished and planned.cell.name not in blocked
    ]


def scripts(work: Sequence[Planned], left: Sequence[int], folder: Path) -> tuple[str, str]:
    """The scripts of the array over the cells `left`, and of the job that writes the tables."""
    config: Any = OmegaConf.to_container(work[0].config, resolve=True)
    limit = config["cluster"]["max_cells"]
    indices = ",".join(map(str, left)) + (f"%{limit}" if limit else "")
    place, cwd, runs = folder.absolute(), Path.cwd(), folder.absolute().parent.parent
    asked = _needs([stage for index in left for stage in own_stages(work, work[index])])
    command = '"$PYTHON" -m launch.slurm.cell "$RUN"'
    array = script(CELLS, place / FOLDER, config, cwd, command, "stage.sh.j2", asked, indices, runs)
    command = '"$PYTHON" -m launch.slurm.collect "$RUN"'
    return array, script(COLLECT, place, config, cwd, command, "stage.sh.j2", runs=runs)


def _needs(stages: Sequence[Stage]) -> Needs:
    """What a task of the array asks for: the most that one of its stages does."""
    each = [needs(stage.name, stage.config) for stage in stages]
    most = max(each, key=lambda asked: (asked.gpus, asked.cpus))
    return replace(most, cpus=max(asked.cpus for asked in each))


def _submit(
    folder: Path,
    stage: str,
    path: Path,
    kind: str,
    after: Sequence[str],
    work: Sequence[Planned],
    cells: int | None = None,
) -> str:
    names = list(dict.fromkeys(name for planned in work for name in variables(planned.config)))
    job = queue.sbatch(path, after, kind="afterany", variables=names)
    queue.record(folder, job, kind, stage, path, after, cells)
    return job


def with_queue(states: Sequence[CellState], folder: Path) -> list[CellState]:
    """The states of a grid's cells with what Slurm says of their tasks.

    Raises:
        UserError: Slurm is not here or does not answer.
    """
    found: dict[int, tuple[str, str]] = {}
    for record in queue.records(folder):
        if record["kind"] == "array":
            tasks = queue.task_states(record["job"])
            found |= {index: (f"job {record['job']}_{index}", state) for index, state in tasks.items()}
    return [_with_task(state, *found.get(index, (None, None))) for index, state in enumerate(states)]


def _with_task(state: CellState, job: str | None, word: str | None) -> CellState:
    if job is None or word is None or state.state in ("done", "running"):
        return state
    if word in (*queue.WAITING, *queue.LIVE):
        name = "queued" if word in queue.WAITING else "running"
        return replace(state, state=name, error=f"{job}: {word.lower()}", failed=None)
    if state.state == "missing" and word != queue.GOOD:
        return replace(state, state="failed", error=f"{job} has ended as {word.lower()}")
    return state


def plan_lines(work: Sequence[Planned], folder: Path) -> Iterator[str]:
    """What would be submitted: the stages that are jobs of their own, then both scripts."""
    left = unfinished(work, {})
    if not left:
        yield "# Jobs\n\nNone: every cell is finished.\n"
        return
    apart = [stage for stage in job_stages(work) if not stage.finished]
    if apart:
        yield "# Jobs of their own, before the array\n"
        yield from (f"- {stage.name} in {shown(stage.path)}" for stage in apart)
        yield ""
    array, collect = scripts(work, left, folder)
    yield f"# Job array: {len(left)} of {len(work)} cells\n\n{array}"
    yield f"# Job for the tables, after the array\n\n{collect}"
