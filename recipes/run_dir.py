"""A stage's run directory: what was asked, what came in, what was measured, what came out.

    config.yaml      the resolved configuration of the stage
    inputs.json      stage -> run directory that feeds this one
    command.txt      the command of every attempt
    environment.txt  versions, commit, machine
    slurm/           scripts and numbers of its jobs, and what Slurm said of them
    metrics.jsonl    the source of truth of every curve
    manifest.json    written last, and only when the stage is whole
    attempts/        what every start of it printed, and how it ended

The directory is found from the configuration (`recipes.stages`), so the same command finds the same
directory again: that is what makes resuming work.
"""

import datetime
import json
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import JsonlLog, read_jsonl, write_json, write_text
from data_prep.errors import UserError
from data_prep.views.settings import deciding

# How fast or where a stage runs, not what it makes: a run continues when these change.
NEUTRAL = {
    "allow_failures", "allow_unanswered", "allow_unreadable", "api_key_env", "base_url", "cache",
    "cluster", "concurrency", "device", "eval_batch_size", "gradient_checkpointing",
    "grpo_micro_batch_size", "image_tokens", "keep_checkpoints", "logger", "max_cost", "max_requests",
    "micro_batch_size", "monitors", "parameters", "price_in", "price_out", "probe", "rollout_memory",
    "save_every", "serve", "sft_micro_batch_size", "shard", "tensor_parallel", "timeout", "tries", "vllm",
}  # fmt: skip


# Keys whose first value means "as before there was the key": at that value they decide nothing.
IDLE: dict[str, dict[str, Any]] = {
    "model": {
        "trust_remote_code": False,
        "freeze_vision": False,
        "lora_targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        "lora_exclude": ".*(visual|vision_tower|multi_modal_projector).*",
    },
    "sft": {"validation_rows": 0, "take": "last", "overrides": []},
    "grpo": {"validation_rows": 0, "take": "last"},
}


class RunDir:
    """One stage's directory. `open` creates it or takes it up again; it never mixes two configurations."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, path: Path, config: dict[str, Any], inputs: dict[str, Path]) -> "RunDir":
        """Create the directory or resume it.

        Raises:
            UserError: as `check` does.
        """
        run = cls(path)
        run.check(config, inputs)
        path.mkdir(parents=True, exist_ok=True)
        write_text(path / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(config)))
        write_json(path / "inputs.json", {name: str(folder.resolve()) for name, folder in inputs.items()})
        return run

    def check(self, config: dict[str, Any], inputs: dict[str, Path]) -> None:
        """Refuse a directory that `config` on `inputs` may not continue; keys in `NEUTRAL` may differ.

        Raises:
            UserError: another configuration made it, or it was fed by other stages, and the message names the
                keys; or no run made it.
        """
        stored = self.path / "config.yaml"
        if stored.exists():
            made_by = OmegaConf.to_container(OmegaConf.load(stored))
            assert isinstance(made_by, dict)
            differing = _differences(decisive(made_by), decisive(config))
            if (self.path / "inputs.json").exists():
                # By name, which holds the hash: the folder of all runs may have moved.
                before = {name: run.path.name for name, run in self.inputs.items()}
                differing += _differences(before, {name: folder.name for name, folder in inputs.items()})
            if differing:
                raise UserError(
                    f"{self.path} was made by another configuration ({'; '.join(differing[:4])}). "
                    "Give another run_dir=, or take that folder away."
                )
        elif self.path.is_dir() and any(not entry.name.startswith(".") for entry in self.path.iterdir()):
            raise UserError(f"{self.path} holds files but is no run directory. Give another run_dir=.")

    @property
    def config(self) -> DictConfig:
        config = OmegaConf.load(self.path / "config.yaml")
        assert isinstance(config, DictConfig)
        OmegaConf.set_struct(config, True)
        return config

    @property
    def inputs(self) -> dict[str, "RunDir"]:
        stored = json.loads((self.path / "inputs.json").read_text())
        return {name: RunDir(Path(folder)) for name, folder in stored.items()}

    @property
    def finished(self) -> bool:
        return (self.path / "manifest.json").exists()

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.path / "manifest.json").read_text())

    def finish(self, manifest: dict[str, Any]) -> None:
        """Mark the stage whole. `manifest` holds counts, hashes and the names of what was made."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        write_json(self.path / "manifest.json", {**manifest, "finished": now})

    def metrics_log(self) -> JsonlLog:
        return JsonlLog(self.path / "metrics.jsonl")

    def metrics(self) -> list[dict[str, Any]]:
        """Every logged record; where a killed run repeated a step, the last record of the step counts."""
        path = self.path / "metrics.jsonl"
        records = list(read_jsonl(path)) if path.exists() else []
        return list({record.get("step", -i - 1): record for i, record in enumerate(records)}.values())


def decisive(config: dict[str, Any]) -> dict[str, Any]:
    """What of a configuration decides what is made: without `NEUTRAL` and without keys that are idle.

    Where the best checkpoint is taken, it matters when one is saved.
    """
    own = {**config, "data": deciding(config["data"])} if isinstance(config.get("data"), dict) else config
    kept = _without_neutral(own)
    for section, idle in IDLE.items():
        if isinstance(config.get(section), dict):
            part = {k: v for k, v in kept[section].items() if k not in idle or v != idle[k]}
            if part.get("take") == "best":
                part["save_every"] = config[section].get("save_every")
            kept[section] = part
    return kept


def _without_neutral(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_neutral(v) for k, v in value.items() if k not in NEUTRAL}
    return value


def _differences(stored: Any, wanted: Any, prefix: str = "") -> list[str]:
    """`key was stored, now wanted` for every leaf that differs."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = sorted({*stored, *wanted})
        nested = (_differences(stored.get(k), wanted.get(k), f"{prefix}{k}.") for k in keys)
        return [line for lines in nested for line in lines]
    if isinstance(stored, dict) or isinstance(wanted, dict):
        return [f"{prefix[:-1]} is set in one of them alone"]
    return [] if stored == wanted else [f"{prefix[:-1]} was {stored!r}, now {wanted!r}"]
