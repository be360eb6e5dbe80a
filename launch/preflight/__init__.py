"""What would stop a run, found before anything starts: one sentence each, with the way out.

Beside that, what is worth knowing before it: how many updates come of the batches, and how long the prompts
are. Everything is arithmetic on the configuration, on files' names, sizes and headers, and on the rows that
are prepared; no model is loaded, and nothing heavy imported. docs/preflight.md lists what is looked at.
"""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch import values
from launch.preflight import answering, batches, disk, models, prepared, software, sources
from launch.preflight.disk import disk_need
from recipes.stages import ONE_CHECKPOINT, SECTIONS, Stage

__all__ = ["check", "disk_need", "findings", "notes"]

MODEL_STAGES = {"sft", "grpo", *ONE_CHECKPOINT}


def findings(config: DictConfig, stages: Sequence[Stage]) -> list[str]:
    """What stands in the way of `stages` on this machine; empty when they can start.

    `config` is the composed configuration. Of stages that are finished, what the others read is looked at.
    """
    names = _ahead(stages)
    sections = _sections(config, names)
    wrong = list(values.faults(config, sections))
    found = [*sources.unset(config, sections), *wrong]
    if not wrong:  # or arithmetic on values that no stage could work with would only repeat that
        found += batches.faults(config, names)
    if names & {"prep", "audit"}:
        found += sources.release(config)
    if "prep" in names:
        found += [*sources.views(config.data), *sources.teacher(config)]
    if "grpo" in names:
        found += sources.rl_rows(config)
    if "generate" in names:
        found += sources.generation(config)
        if config.teacher.kind == "openai":
            found += sources.teacher(config)
    if "prompt" in sections and config.prompt.file is not None and not Path(config.prompt.file).is_file():
        found.append(
            f"prompt.file={config.prompt.file} does not exist: give the path of a text file, or null."
        )
    if "sft" in names and config.teacher.kind == "none":
        found.append(
            "teacher=none leaves the SFT rows without reasoning: take teacher=file teacher.path=FILE."
        )
    if "reward" in sections:
        found += software.reward(config)
    if names & MODEL_STAGES:
        found += models.findings(config, stages, names)
    # A server elsewhere has the devices for its model.
    if names & MODEL_STAGES - {"eval"} or ("eval" in names and answering.answers_here(config)):
        found += software.devices(config)
    if names & {*ONE_CHECKPOINT}:
        found += answering.engine(config, names)
    found += software.packages(config, names)
    if not wrong:
        found += prepared.findings(config, stages, names)
    found += disk.directories(stages)
    found += disk.room(config, [stage for stage in stages if not stage.finished])
    if names and software.on_slurm(config):
        from launch.slurm.check import findings as slurm

        found += slurm(config, [stage for stage in stages if not stage.finished])
    return found


def notes(config: DictConfig, stages: Sequence[Stage]) -> list[str]:
    """What is worth knowing before `stages` start, and stops none of them; one sentence each.

    Empty where values are so wrong that nothing can be said.
    """
    names = _ahead(stages)
    sections = _sections(config, names)
    if not names or any(values.faults(config, sections)) or any(batches.faults(config, names)):
        return []
    try:
        rows = prepared.trained_on(config, stages)
    except UserError:
        return []  # it stands among the findings
    told = list(batches.notes(config, names, rows))
    if names & MODEL_STAGES:
        told += [*models.notes(config, stages, names), *prepared.notes(config, stages, names)]
    return told


def check(config: DictConfig, stages: Sequence[Stage]) -> None:
    """Return when nothing stands in the way.

    Raises:
        UserError: all findings, one a line.
    """
    found = findings(config, stages)
    if found:
        lead = "" if len(found) == 1 else f"{len(found)} things stand in the way:\n  - "
        raise UserError(lead + "\n  - ".join(found))


def _ahead(stages: Sequence[Stage]) -> set[str]:
    return {stage.name for stage in stages if not stage.finished}


def _sections(config: DictConfig, names: set[str]) -> set[str]:
    """The top-level keys that the stages `names` read."""
    sections = {"logger", "cluster", *(s for name in names for s in SECTIONS[name])} if names else set()
    if names == {"generate"} and config.teacher.kind != "openai":
        sections -= {"teacher"}  # `sources.generation` says what is missing, if it is wanted at all
    return sections
