"""How many steps SFT and GRPO take over a number of rows. Needs no torch."""

import math

from omegaconf import DictConfig


def sft_epoch(config: DictConfig, rows: int) -> int:
    """Updates of SFT in one epoch; the last batch may be smaller."""
    return math.ceil(rows / config.sft.batch_size)


def sft_whole(config: DictConfig, rows: int) -> int:
    """Updates of SFT in `sft.epochs`, over which the rate goes down whatever `sft.max_steps` is."""
    return sft_epoch(config, rows) * config.sft.epochs


def sft_steps(config: DictConfig, rows: int) -> int:
    """Updates that SFT takes."""
    return config.sft.max_steps or sft_whole(config, rows)


def grpo_epoch(config: DictConfig, rows: int) -> int:
    """Steps of GRPO in one epoch, of whole batches alone."""
    return rows // config.grpo.batch_size


def grpo_steps(config: DictConfig, rows: int) -> int:
    """Steps that GRPO takes: `grpo.max_steps`, or as many as `grpo.epochs` hold."""
    return config.grpo.max_steps or grpo_epoch(config, rows) * config.grpo.epochs
