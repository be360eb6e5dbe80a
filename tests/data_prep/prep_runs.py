"""Prep's run directories for tests."""

from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from configs import TREE
from recipes.run_dir import RunDir
from recipes.stages import plan


def compose_config(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(TREE), version_base=None):
        return compose("config", ["recipe=imagination_cot", *overrides])


def open_prep(runs: Path, *overrides: str) -> RunDir:
    """The run directory that `launch prep` would open for these overrides."""
    return plan(compose_config(f"runs_dir={runs}", *overrides), "prep").open()


def open_release(runs: Path, root: Path, *overrides: str) -> RunDir:
    """Prep of a CVUSA release on disk whose reasoning lies in `root/reasoning.jsonl`."""
    fixed = [f"data.root={root}", "data.subsets=[cvusa]", f"teacher.path={root}/reasoning.jsonl"]
    return open_prep(runs, *fixed, *overrides)
