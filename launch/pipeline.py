"""From a composed configuration to the stages of a command, and through them one by one."""

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.local import asked_command, run_stage
from launch.preflight import check, notes
from launch.values import faults
from recipes.stages import ONE_CHECKPOINT, Stage, plan

# Label of the report -> checkpoint and whether its pictures are blank.
EVALUATIONS = {
    "base": ("base", False),
    "sft": ("sft", False),
    "grpo": ("grpo", False),
    "grpo-blank": ("grpo", True),
}
REPEATED = ("serve", "parity")  # commands whose last stage is never finished: it runs each time


def execute(command: str, config: DictConfig, asked: Sequence[str]) -> int:
    """Carry out a configured command (`asked`: the words of the command line); return the exit status.

    Raises:
        UserError: something stands in the way; nothing was started then.
    """
    if command in ("pipeline", "report") and config.run_dir is not None:
        raise UserError(f"run_dir= is the directory of one stage, and {command} has several: use runs_dir=.")
    if config.status or config.cell is not None:
        raise UserError(f"status= and cell= are for launch grid; {command} does not know them.")
    if config.check and command != "prep":
        raise UserError(
            f"check= audits a release, which {command} does not read: use launch prep check=true."
        )
    if config.serve and command != "report":
        raise UserError(
            f"serve= shows what is evaluated, and {command} does not: use launch report serve=true."
        )
    if command == "export":
        from launch import export

        return export.run(config)
    if config.to is not None:
        raise UserError(f"to= says where launch export copies a model; {command} does not know it.")
    if config.dry_run:
        from launch.dry_run import show

        return show(command, config)
    if command == "report":
        return _report(config)
    stages = stages_of(command, config)
    if config.cluster.name == "slurm" and (config.check or command in REPEATED):
        raise UserError(f"{command} answers in this terminal, and no job of Slurm can: give cluster=local.")
    check(config, stages)
    for line in notes(config, stages):
        _say(f"note: {line}")
    if config.cluster.name == "slurm":
        from launch.slurm.submit import report_folder, submit

        report = report_folder(stages) if command == "pipeline" else None
        return submit(stages, config, asked_command(asked), report)
    if config.check or command in REPEATED:
        *before, last = stages
        if status := _run(before, asked_command(asked)):
            return status
        _say(f"{label(last)}: writes into {shown(last.path)}")
        return run_stage(last, asked_command(asked))
    status = _run(stages, asked_command(asked))
    return _report(config) if command == "pipeline" and status == 0 else status


def evaluations(config: DictConfig) -> dict[str, Stage]:
    """The evaluations that a report compares, by their label."""
    stages = {}
    for label, (checkpoint, blank) in EVALUATIONS.items():
        variant = config.copy()
        variant.eval.checkpoint, variant.eval.blank = checkpoint, blank
        stages[label] = plan(variant, "eval")
    return stages


def stages_of(command: str, config: DictConfig) -> list[Stage]:
    """The stages of a command in the order in which they run, those it depends on first."""
    if command in ("pipeline", "report"):
        targets = list(evaluations(config).values())
    else:
        target = plan(config, "audit" if config.check else command)
        own_path = target.path if config.run_dir is None else Path(config.run_dir)
        targets = [dataclasses.replace(target, path=own_path)]
    ordered = {stage.hash: stage for target in targets for stage in target.with_inputs()}
    return list(ordered.values())


def _run(stages: Sequence[Stage], asked: str) -> int:
    for number, stage in enumerate(stages, 1):
        place = f"[{number}/{len(stages)}] {label(stage)}"
        if stage.finished:
            _say(f"{place}: finished before, kept in {shown(stage.path)}")
            continue
        taken_up = (stage.path / "config.yaml").exists()
        _say(f"{place}: {'goes on in' if taken_up else 'starts in'} {shown(stage.path)}")
        started = time.monotonic()
        status = run_stage(stage, asked)
        if status == 0 and not stage.finished:
            _say(f"{place}: ended without a manifest.json; this is a fault of the stage")
            status = 1
        if status != 0:
            how = "stopped" if status > 128 else f"failed with status {status}"
            _say(f"{place}: {how}. The same command goes on from what is in {shown(stage.path)}.")
            return status
        _say(f"{place}: done in {duration(time.monotonic() - started)}")
    return 0


def _report(config: DictConfig) -> int:
    from launch import summary

    stages = evaluations(config)
    if found := list(faults(config, {"report"})):
        raise UserError(" ".join(found))
    if config.serve:
        return summary.serve(config, stages)
    if config.report.runs is not None:
        return summary.compare(config, stages)
    return summary.write(config, stages)


def label(stage: Stage) -> str:
    """The stage in words: its name and, of an evaluation, what it evaluates."""
    if stage.name not in ONE_CHECKPOINT:
        return stage.name
    evaluation = stage.config["eval"]
    return f"{stage.name} of {evaluation['checkpoint']}{' on blank pictures' if evaluation['blank'] else ''}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def shown(path: Path) -> str:
    """`path` as a user would type it here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _say(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
