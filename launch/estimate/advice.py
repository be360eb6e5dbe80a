"""The ways out of a memory that is too small, the cheapest first, with what each would need."""

from collections.abc import Iterator
from typing import Any

from omegaconf import OmegaConf

from launch.estimate.memory import GIB
from launch.estimate.setups import OFFLOAD, Setup

LORA_RANK = 32
LEAST_GAIN = 0.02  # share of the largest phase that a way out must take off to be named

# Key to value: what costs least in time or result stands first.
WAYS: dict[str, list[tuple[str, Any]]] = {
    "sft": [
        ("model.sft_micro_batch_size", 1),
        ("model.gradient_checkpointing", True),
        ("sft.shard", "zero3"),
        ("sft.lora.rank", LORA_RANK),
    ],
    "grpo": [
        ("grpo.rollout_memory", 0.4),
        ("grpo.overrides", [f"{OFFLOAD}.optimizer_offload=true"]),
        ("model.grpo_micro_batch_size", 1),
        ("model.gradient_checkpointing", True),
        ("grpo.lora.rank", LORA_RANK),
    ],
    "eval": [("model.eval_batch_size", 4)],
}


def largest(setup: Setup) -> float:
    """Bytes of the stage's largest phase on one GPU."""
    return max(phase.total for phase in setup.phases())


def ways_out(setup: Setup) -> Iterator[tuple[str, float]]:
    """`key=value` and the GiB that the largest phase would then need, of every way that helps by itself."""
    now = largest(setup)
    for key, value in WAYS.get(setup.stage, []):
        if isinstance(value, list):
            value = [*OmegaConf.select(setup.config, key), *value]
        then = largest(setup.with_option(key, value))
        if then < now * (1 - LEAST_GAIN):
            yield f"{key}={_written(value)}", then / GIB
    if setup.stage in ("sft", "grpo"):
        then = largest(setup.on(2 * setup.gpus))
        if then < now * (1 - LEAST_GAIN):
            yield f"{2 * setup.gpus} GPUs", then / GIB


def _written(value: Any) -> str:
    return f"[{','.join(value)}]" if isinstance(value, list) else str(value).lower()
