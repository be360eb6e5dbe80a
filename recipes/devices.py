"""Over how many nodes and devices a configuration spreads its training."""

from collections.abc import Mapping
from typing import Any


def nodes(cluster: Mapping[str, Any]) -> int:
    """Machines that SFT and GRPO run on; `cluster` is that section. Only a real cluster has several."""
    return cluster.get("nodes", 1)


def a_node(config: Mapping[str, Any]) -> int:
    """Training processes on each node: one a GPU, one on the CPU."""
    return 1 if config["model"]["device"] == "cpu" else config["cluster"]["gpus"]


def count(config: Mapping[str, Any]) -> int:
    """Training processes in all, over which SFT and GRPO divide their batches."""
    return nodes(config["cluster"]) * a_node(config)
