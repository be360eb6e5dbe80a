"""What a run would need, before it starts: memory on each GPU by phase, disk, time, GPU hours and cost.

Nothing is refused because of it, and nothing here imports torch. docs/estimate.md has the formulas, their
sources and what they were compared with.
"""

import textwrap
from collections.abc import Sequence

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.compose import is_unset
from launch.estimate import lines
from launch.estimate.setups import USERS, geometry_of, setups
from recipes.stages import Stage

WIDTH = 110


def table(config: DictConfig, stages: Sequence[Stage]) -> list[str]:
    """The estimate of `stages` in lines of `WIDTH`; empty where none of them trains or asks a model."""
    ahead = [stage for stage in stages if not stage.finished]
    if not {stage.name for stage in ahead} & {*USERS}:
        return []
    from launch import preflight  # it checks values against the table of GPUs, and so imports this package

    told = []
    try:
        geometry = geometry_of(config, stages)
    except UserError as error:
        return [f"No estimate: {error}"]
    if geometry is None:
        told.append(
            f"No estimate of memory and time: {config.model.path} is neither a folder with a config.json nor "
            "one of the models in launch/estimate/published.json."
        )
    else:
        found = setups(config, stages, geometry)
        told += [*lines.head(found[0]), *lines.memory(found), *lines.time(found, config.cluster.gpu_price)]
        if config.scale_name == "tiny":
            told.append(lines.tiny(config.data.benchmark))
    rooted = config.data.synthetic is not None or not is_unset(config, "data.root")
    disk = sum(preflight.disk_need(config, stage) for stage in ahead if rooted or stage.name != "prep")
    told.append(f"Disk: up to {disk:.1f} GiB.")
    return [part for line in told for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]
