"""The stages of a recipe, what each depends on, and where each one's directory stands.

A stage's directory is named by a hash of the parts of the configuration that it reads and of the
stages before it. Changing how evaluation decodes therefore finds the same trained model again,
while changing the SFT learning rate gives a new SFT, a new GRPO and new evaluations.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import digest
from data_prep.errors import UserError
from recipes.run_dir import RunDir, decisive

CHECKPOINT_STAGES = ("base", "sft", "grpo")
ENDPOINT = "endpoint"  # as eval.checkpoint: the model that eval.endpoint names, whatever it is

# Top-level keys of the configuration that change what a stage makes.
SECTIONS: dict[str, tuple[str, ...]] = {
    "generate": ("seed", "teacher", "generation"),
    "prep": ("seed", "data", "teacher", "prompt"),
    "audit": ("data",),
    "base": ("seed", "model"),
    "sft": ("seed", "model", "sft"),
    "grpo": ("seed", "model", "reward", "grpo"),
    "eval": ("model", "reward", "eval", "vllm"),
    "parity": ("model", "reward", "eval", "vllm"),
    "serve": ("model", "eval", "vllm"),
}
ONE_CHECKPOINT = ("eval", "parity", "serve")  # stages that work with the model of eval.checkpoint
# Keys of `model` that say which weights are trained, and the stages that train.
TRAINED_WEIGHTS = ("freeze_vision", "lora_targets", "lora_exclude")
TRAINING = ("sft", "grpo")


@dataclass(frozen=True)
class Stage:
    """One step of the work: its name, its directory, its configuration and what feeds it."""

    name: str
    path: Path
    config: dict[str, Any]
    hash: str
    inputs: dict[str, "Stage"]

    def open(self) -> RunDir:
        return RunDir.open(self.path, self.config, self._folders())

    def check(self) -> None:
        """Raise a UserError when the directory is not this stage's, as `RunDir.check` does."""
        RunDir(self.path).check(self.config, self._folders())

    def _folders(self) -> dict[str, Path]:
        return {name: stage.path for name, stage in self.inputs.items()}

    @property
    def finished(self) -> bool:
        return RunDir(self.path).finished

    def with_inputs(self) -> list["Stage"]:
        """This stage after everything that it depends on, each once, in an order that can be run."""
        ordered: dict[str, Stage] = {}
        for stage in self.inputs.values():
            ordered |= {s.hash: s for s in stage.with_inputs()}
        return [*ordered.values(), self] if self.hash not in ordered else list(ordered.values())


def plan(cfg: DictConfig, name: str) -> Stage:
    """The stage `name` of the composed configuration `cfg` with all that it depends on.

    Raises:
        UserError: `eval.checkpoint` is neither a stage nor a folder.
    """
    inputs = {upstream: plan(cfg, upstream) for upstream in _upstream(cfg, name)}
    resolved = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(resolved, dict)
    if name not in TRAINING:
        resolved["model"] = {k: v for k, v in resolved["model"].items() if k not in TRAINED_WEIGHTS}
    config = {key: resolved[key] for key in ("recipe_name", "scale_name", "logger", "cluster")}
    config |= {key: resolved[key] for key in SECTIONS[name]}
    parts = decisive({key: resolved[key] for key in SECTIONS[name]})
    identity = digest([name, parts, {key: stage.hash for key, stage in inputs.items()}])[:10]
    label = name
    if name in ONE_CHECKPOINT:
        label = f"{name}-{Path(cfg.eval.checkpoint).name}{'-blank' if cfg.eval.blank else ''}"
        label += f"-rotated{cfg.eval.rotate_options}" if cfg.eval.rotate_options else ""
    family = cfg.recipe_name if cfg.scale_name == "paper" else f"{cfg.recipe_name}-{cfg.scale_name}"
    path = Path(cfg.runs_dir) / family / f"{label}-{identity}"
    return Stage(name, path, config, identity, inputs)


def _upstream(cfg: DictConfig, name: str) -> list[str]:
    built = ["base"] if cfg.model.build is not None else []
    if name == "base":
        # That of MonoSR brings scenes of its own, so that sets with other information start from one model.
        return ["prep"] if cfg.model.build.pretraining.world == "cvsbench" else []
    if name == "sft":
        return ["prep", *built]
    if name == "grpo":
        return ["prep", "sft"]
    if name in ONE_CHECKPOINT:
        checkpoint, rows = cfg.eval.checkpoint, [] if name == "serve" else ["prep"]
        if checkpoint == ENDPOINT:
            return rows
        if checkpoint in CHECKPOINT_STAGES:
            return [*rows, *([] if checkpoint == "base" and not built else [checkpoint])]
        if not Path(checkpoint).is_dir():
            raise UserError(
                f"eval.checkpoint={checkpoint} is neither one of {', '.join((*CHECKPOINT_STAGES, ENDPOINT))} "
                "nor the folder of a checkpoint."
            )
        return rows
    return []


def checkpoint_path(run: RunDir, name: str) -> str:
    """The folder (or hub id) of the model that stage `name` left, as `run`'s inputs or configuration tell.

    `run` is the directory of a later stage; `name` is base, sft, grpo or a folder.
    """
    if name in run.inputs:
        return str(run.inputs[name].path / "checkpoint")
    return str(run.config.model.path) if name == "base" else name


def recipe_hash(run: RunDir) -> str:
    """The hash of the configuration that made `run`: that of its stage, which ends its directory's name.

    A directory that was given by `run_dir=` may be called anything; then it is that of the configuration
    kept in it.
    """
    named = re.search(r"-([0-9a-f]{10})$", run.path.name)
    return named[1] if named else digest(decisive(OmegaConf.to_container(run.config)))[:10]
