"""Submit the stages of a command as a chain of jobs, each waiting for those that it reads."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import write_text
from data_prep.errors import UserError
from launch.local import environment_text, in_use, note_command
from launch.pipeline import label, shown
from launch.slurm import queue
from launch.slurm.render import REPORT, report_script, stage_script
from recipes.stages import Stage


def submit(stages: Sequence[Stage], config: DictConfig, asked: str, report: Path | None = None) -> int:
    """Submit what is not finished and not on the queue of `stages`, which stand in an order that can be run.

    `report` is the folder of a last job, which writes the report once all of them are finished. Nothing stays
    on the queue when one of them is refused.

    Raises:
        UserError: Slurm is not here or refuses a job, a stage runs elsewhere at this moment, or its directory
            was made by another configuration.
    """
    jobs: dict[str, str] = {}  # stage's hash -> job
    with queue.together() as new:
        for number, stage in enumerate(stages, 1):
            place = f"[{number}/{len(stages)}] {label(stage)}"
            if stage.finished:
                _say(f"{place}: finished before, kept in {shown(stage.path)}")
                continue
            if job := _on_queue(stage.path):
                jobs[stage.hash] = job
                _say(f"{place}: on the queue already, job {job}")
                continue
            after = [jobs[s.hash] for s in stage.inputs.values() if s.hash in jobs]
            jobs[stage.hash] = job = _submit_stage(stage, after, asked)
            new.append(job)
            _say(f"{place}: job {job}{waits(after)}, in {shown(stage.path)}")
        if report is not None:
            _submit_report(report, config, list(jobs.values()), new)
    return 0


def report_folder(stages: Sequence[Stage]) -> Path:
    """Where the job of a pipeline's report keeps its scripts and logs; the report lies one folder above."""
    return stages[-1].path.parent / REPORT


def _on_queue(folder: Path) -> str | None:
    """The job that waits or runs for `folder`.

    Raises:
        UserError: a launch runs it outside of Slurm.
    """
    alive = queue.alive(folder)
    if alive:
        return list(alive)[-1]
    if holder := in_use(folder):
        raise UserError(f"{folder} is in use by {holder}. Wait until it ends, or stop it.")
    return None


def _submit_stage(stage: Stage, after: Sequence[str], asked: str) -> str:
    run = stage.open()
    script = new_script(run.path, stage_script(stage, Path.cwd()))
    note_command(run.path, asked, ["sbatch", str(script)])
    write_text(run.path / "environment.txt", environment_text())
    job = queue.sbatch(script, after, variables=variables(stage.config))
    queue.record(run.path, job, "stage", stage.name, script, after)
    return job


def _submit_report(folder: Path, config: DictConfig, after: Sequence[str], new: list[str]) -> None:
    """Submit the report again even if it is there: an evaluation may be new."""
    if job := _on_queue(folder):
        _say(f"report: on the queue already, job {job}")
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.yaml", OmegaConf.to_yaml(config, resolve=True))
    container: Any = OmegaConf.to_container(config, resolve=True)
    script = new_script(folder, report_script(folder, container, Path.cwd()))
    job = queue.sbatch(script, after, variables=variables(container))
    new.append(job)
    queue.record(folder, job, "stage", REPORT, script, after)
    _say(f"report: job {job}{waits(after)}, in {shown(folder)}")


def new_script(folder: Path, text: str) -> Path:
    """Write a job's script to `folder`/slurm under a name that is not taken: a queued job keeps its own."""
    place = folder.absolute() / "slurm"
    place.mkdir(parents=True, exist_ok=True)
    script = place / f"job_{1 + len(list(place.glob('job_*.sh')))}.sh"
    write_text(script, text)
    return script


def variables(config: Mapping[str, Any]) -> list[str]:
    """Names of the variables that a job of this configuration gets from here: those that are set."""
    plain: Any = OmegaConf.to_container(OmegaConf.create(dict(config)))
    named = [*plain["cluster"]["environment"], *_key_names(plain)]
    return [name for name in dict.fromkeys(named) if name and name in os.environ]


def _key_names(config: Mapping[str, Any]) -> Iterator[str | None]:
    """The names of the keys of every endpoint in `config`."""
    for key, value in config.items():
        if key == "api_key_env":
            yield value
        elif isinstance(value, Mapping):
            yield from _key_names(value)


def waits(after: Sequence[str]) -> str:
    return f" after {', '.join(after)}" if after else ""


def _say(text: str) -> None:
    print(text, flush=True)
