"""Over how many nodes and devices a configuration spreads its training."""

from collections.abc import Mapping
from typing import Any


def gpus(config: Mapping[str, Any]) -> int:
    """GPUs that a stage of this configuration uses on a node; 0 on the CPU."""
    return config["cluster"]["gpus"] if config.get("model", {}).get("device") == "cuda" else 0


def nodes(cluster: Mapping[str, Any]) -> int:
    """Machines that SFT and GRPO run on; `cluster` is that section. Only a real cluster has several."""
    return cluster.get("nodes", 1)


def a_node(config: Mapping[str, Any]) -> int:
    """Training processes on each node: one a GPU, one on the CPU."""
    return max(1, gpus(config))


def count(config: Mapping[str, Any]) -> int:
    """Training processes in all, over which SFT and GRPO divide their batches."""
    return nodes(config["cluster"]) * a_node(config)
