"""Where the run directories stand, and whether what is written fits there."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError
from data_prep.monosr.sources import FOLDER
from launch import machine
from launch.compose import is_unset
from recipes.stages import Stage

KEEPS = ("sft", "grpo")  # stages that keep checkpoints to resume from


def directories(stages: Sequence[Stage]) -> Iterator[str]:
    for stage in stages:
        try:
            stage.check()
        except UserError as error:
            yield str(error)
    for parent in sorted({machine.existing_parent(stage.path) for stage in stages if not stage.finished}):
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            yield f"{parent} cannot be written to: set runs_dir= to a folder of yours."


def disk_need(config: DictConfig, stage: Stage) -> float:
    """GiB that a stage writes at most, roughly.

    A checkpoint to resume from holds weights of 2 (SFT) or 4 bytes (GRPO) and AdamW's state of 8 bytes a
    trained parameter; one more than is kept stands on the disk while it is written, and the best by
    validation beside them.
    """
    weights = config.model.parameters
    if stage.name == "generate":
        pairs = Path(config.generation.pairs or "")
        # Every picture is copied, and drawn upon up to three times.
        return 4 * sum(p.stat().st_size for p in pairs.rglob("*") if p.is_file()) / machine.GIB
    if stage.name in ("prep", "audit"):
        if config.data.benchmark == "monosr":
            return _monosr_need(config.data)
        if config.data.synthetic is not None:
            drawn = config.data.synthetic
            return (drawn.train_groups + drawn.test_groups) * 50e3 / machine.GIB
        if stage.name == "audit":
            return 50e6 / machine.GIB
        folders = [Path(config.data.root or "", subset) for subset in config.data.subsets]
        pictures = (p.stat().st_size for folder in folders for p in folder.rglob("*") if p.is_file())
        return sum(pictures) / machine.GIB
    if stage.name in KEEPS:
        section = config[stage.name]
        trained = 0 if section.lora.rank else weights
        held = 2 if stage.name == "sft" else 4
        count = section.keep_checkpoints + 1 + bool(section.validation_rows)
        return (count * (held * weights + 8 * trained) + 2 * weights) / machine.GIB
    return (4 * weights if stage.name == "base" else 50e6) / machine.GIB


def _monosr_need(data: DictConfig) -> float:
    """GiB of MonoSR's prep: 100 kB a synthetic picture; of a release 0.3 MB for 26 kB of annotations.

    That is a picture's copy, the records of its objects and its questions.
    """
    if data.synthetic is not None:
        return (data.synthetic.train_pictures + data.synthetic.test_pictures) * 100e3 / machine.GIB
    files = Path(data.root or "", FOLDER).glob("*.json")
    annotations = sum(p.stat().st_size for p in files if p.stem.partition("_")[0] in data.sources)
    return annotations / 26e3 * 0.3e6 / machine.GIB


def room(config: DictConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """A stage that has begun is left out: much of what it writes stands on the disk already."""
    root_known = config.data.synthetic is not None or not is_unset(config, "data.root")
    ahead = [s for s in stages if not (s.path / "config.yaml").exists() and (root_known or s.name != "prep")]
    disks: dict[int, list[Stage]] = {}
    for stage in ahead:
        disks.setdefault(machine.existing_parent(stage.path).stat().st_dev, []).append(stage)
    for together in disks.values():
        need = sum(disk_need(config, stage) for stage in together)
        place = machine.existing_parent(together[0].path)
        free = machine.free_disk(place)
        if free < need:
            names = ", ".join(dict.fromkeys(stage.name for stage in together))
            lower = "".join(f", or lower {s.name}.keep_checkpoints" for s in together if s.name in KEEPS)
            yield (
                f"{place} has {free:.1f} GiB free, and {names} may write {need:.1f} GiB: "
                f"free some, or set runs_dir= to a larger disk{lower}."
            )
