"""The packages and devices that stages need, and what a user hands on to verl and TRL."""

from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from launch import machine
from recipes import VERL, reward_settings, sft_arguments
from recipes.devices import gpus


def on_slurm(config: DictConfig) -> bool:
    """Whether the stages run on other machines than this one."""
    return config.cluster.name == "slurm"


def in_container(config: DictConfig) -> bool:
    """Whether the stages run with other packages than those installed here."""
    return OmegaConf.select(config, "cluster.container", default="none") not in (None, "none")


def reward(config: DictConfig) -> Iterator[str]:
    """A reward whose options or file cannot be used."""
    try:
        reward_settings.check(config.reward)
    except UserError as error:
        yield str(error)


def devices(config: DictConfig) -> Iterator[str]:
    """GPUs that are wanted and not here. A login node needs none."""
    wanted = gpus(config)
    have = len(machine.gpus())
    if on_slurm(config):
        return
    if wanted and not have:
        yield (
            f"model.device=cuda, but this machine shows no NVIDIA GPU ({config.model.name} wants {wanted}): "
            "run there, or add scale=tiny for the same recipe on a CPU."
        )
    elif wanted > have:
        yield f"cluster.gpus={wanted}, but this machine shows {have}: set cluster.gpus={have}."


def packages(config: DictConfig, names: set[str]) -> Iterator[str]:
    """Packages that the stages `names` need, and overrides for them that they would refuse or ignore."""
    cuda = config.model.device == "cuda"
    if "grpo" in names and machine.version("verl") != VERL:
        have = machine.version("verl")
        yield (
            f"GRPO needs verl {VERL}, and {f'{have} is' if have else 'none is'} installed: "
            f"pip install {'verl[vllm]' if cuda else 'verl'}=={VERL}."
        )
    elif "grpo" in names:
        yield from _verl(config)
    if "sft" in names:
        yield from _trl(config)
    # Without GPUs here nobody installs these, and their absence says nothing; a cluster shares its packages.
    trains_here = bool(machine.gpus()) or (on_slurm(config) and not in_container(config))
    if "grpo" in names and cuda and trains_here and machine.version("vllm") is None:
        yield "GRPO on GPUs needs vllm: pip install 'spatial-recipes[gpu]'."
    sharded = gpus(config) > 1 and config.sft.shard in ("zero2", "zero3")
    if "sft" in names and sharded and trains_here and machine.version("deepspeed") is None:
        install = "pip install 'spatial-recipes[gpu]'"
        yield f"sft.shard={config.sft.shard} needs deepspeed: {install}, or set sft.shard=fsdp."
    flash = config.model.attention == "flash_attention_2" and names & {"sft", "grpo", "eval", "parity"}
    if flash and not in_container(config) and machine.version("flash-attn") is None:
        yield (
            "model.attention=flash_attention_2, but flash-attn is not installed: take model.attention=auto, "
            "which uses it where it is there, or sdpa."
        )
    if flash and config.model.dtype == "float32":
        yield (
            "model.attention=flash_attention_2 computes in half precision alone, and model.dtype=float32: "
            "take model.attention=sdpa."
        )
    if config.logger == "wandb" and machine.version("wandb") is None:
        yield "logger=wandb needs wandb: pip install 'spatial-recipes[wandb]', or set logger=none."


def _verl(config: DictConfig) -> Iterator[str]:
    from recipes import verl_overrides

    try:
        verl_overrides.overrides(config, Path("prep"), "checkpoint", Path("out"), config.grpo.batch_size)
    except UserError as error:
        yield str(error)


def _trl(config: DictConfig) -> Iterator[str]:
    try:
        arguments = sft_arguments.values(list(config.sft.overrides))
    except UserError as error:
        yield str(error)
        return
    optimizer = str(arguments.get("optim", ""))
    if ("8bit" in optimizer or "bnb" in optimizer) and machine.version("bitsandbytes") is None:
        yield f"sft.overrides: optim={optimizer} needs bitsandbytes: pip install it, or leave that out."
