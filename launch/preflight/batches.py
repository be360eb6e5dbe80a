"""The arithmetic of batches: what divides, and how many updates come of it."""

import math
from collections.abc import Iterator

from omegaconf import DictConfig

from recipes import devices
from recipes.step_counts import grpo_epoch, grpo_steps, sft_epoch, sft_whole


def faults(config: DictConfig, stages: set[str]) -> Iterator[str]:
    """Batches that cannot be divided over the devices as SFT and verl divide them."""
    count = devices.count(config)
    over = f" over {count} {_unit(config)}" if count > 1 else ""
    if "sft" in stages:
        batch, micro = config.sft.batch_size, config.model.sft_micro_batch_size
        if batch % (count * min(micro, max(1, batch // count))):
            yield (
                f"sft.batch_size={batch} does not divide{over} by model.sft_micro_batch_size={micro}: "
                f"make it a multiple of {count * micro}, or lower model.sft_micro_batch_size."
            )
    if "grpo" not in stages:
        return
    grpo, micro = config.grpo, config.model.grpo_micro_batch_size
    if grpo.group_size < 2:
        yield (
            f"grpo.group_size={grpo.group_size} leaves nothing to compare an answer with, "
            "so every advantage is zero: take 2 or more (the paper: 4)."
        )
    if grpo.batch_size % grpo.mini_batch_size:
        yield (
            f"grpo.batch_size={grpo.batch_size} is no multiple of "
            f"grpo.mini_batch_size={grpo.mini_batch_size}: change one of them."
        )
    samples = grpo.mini_batch_size * grpo.group_size
    if samples % count:
        yield (
            f"grpo.mini_batch_size={grpo.mini_batch_size} x grpo.group_size={grpo.group_size} = {samples} "
            f"answers do not divide{over}: make the product a multiple of {count}, or change cluster.gpus."
        )
    elif samples // count % min(micro, samples // count):
        fitting = ", ".join(str(n) for n in range(1, micro) if samples // count % n == 0)
        yield (
            f"{samples // count} answers an update (grpo.mini_batch_size x grpo.group_size{over}) are no "
            f"multiple of model.grpo_micro_batch_size={micro}: take one of {fitting}."
        )
    yield from _tensor_parallel(config)


def _tensor_parallel(config: DictConfig) -> Iterator[str]:
    parallel, gpus = config.grpo.tensor_parallel, devices.a_node(config)
    if config.model.device == "cpu" and parallel > 1:
        yield f"grpo.tensor_parallel={parallel} splits a rollout over GPUs, and model.device=cpu: take 1."
    elif gpus % parallel:
        yield f"cluster.gpus={gpus} is no multiple of grpo.tensor_parallel={parallel}: change one of them."


def notes(config: DictConfig, stages: set[str], rows: dict[str, int]) -> Iterator[str]:
    """How many updates SFT and GRPO make of `rows` (set to its rows; empty before the set is prepared)."""
    if "sft" in stages:
        yield _sft(config, rows.get("sft"))
        if config.model.device == "cuda" and devices.count(config) == 1 and config.sft.shard != "none":
            yield f"sft.shard={config.sft.shard} spreads the model over GPUs, and does nothing on one."
    if "grpo" in stages:
        yield _grpo(config, rows.get("rl"))


def _sft(config: DictConfig, rows: int | None) -> str:
    sft, count = config.sft, devices.count(config)
    micro = min(config.model.sft_micro_batch_size, max(1, sft.batch_size // count))
    accumulated = math.ceil(sft.batch_size / (micro * count))
    shape = f"{sft.batch_size} rows an update = {micro} (micro-batch) x {accumulated} (accumulated) x {count}"
    line = f"SFT: {shape} ({_unit(config)})"
    if rows is None:
        return f"{line}; the number of updates is known once prep is finished."
    less = f", of which sft.max_steps makes {sft.max_steps}" if sft.max_steps else ""
    epoch, whole = sft_epoch(config, rows), sft_whole(config, rows)
    return f"{line}; {rows} rows make {epoch} updates an epoch, {whole} in all{less}."


def _grpo(config: DictConfig, rows: int | None) -> str:
    grpo, count = config.grpo, devices.count(config)
    updates, samples = grpo.batch_size // grpo.mini_batch_size, grpo.mini_batch_size * grpo.group_size
    micro = max(1, min(config.model.grpo_micro_batch_size, samples // count))
    engines = max(1, count // grpo.tensor_parallel)
    line = (
        f"GRPO: a step is {grpo.batch_size} prompts x {grpo.group_size} answers = "
        f"{grpo.batch_size * grpo.group_size}, in {updates} updates of {samples} answers = "
        f"{micro} (micro-batch) x {samples // (micro * count)} (accumulated) x {count} ({_unit(config)}); "
        f"{engines} rollout engine{'s' if engines > 1 else ''} of {grpo.tensor_parallel}"
    )
    if rows is None:
        return f"{line}; the number of steps is known once prep is finished."
    epoch, total = grpo_epoch(config, rows), grpo_steps(config, rows)
    left = rows % grpo.batch_size
    out = f" ({left} rows of each are left out)" if left else ""
    return (
        f"{line}; {rows} rows make {epoch} steps an epoch{out}, so {total} steps and "
        f"{total * updates} optimizer updates."
    )


def _unit(config: DictConfig) -> str:
    return "GPUs" if config.model.device == "cuda" else "processes"
