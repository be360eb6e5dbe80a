"""The wish that a stage saves and ends, made by the job that carries it: the file `slurm/stop`.

A job's script makes the file in the run directory when Slurm tells it that its time is nearly up or that
another job takes its place, and takes it away when it starts. Outside of a job nobody looks at it.
"""

import os
from pathlib import Path

from omegaconf import DictConfig

NAME = Path("slurm") / "stop"
STOPPED = 75  # status of a stage that has saved and ended as it was asked (sysexits.h: try again)


def listens(config: DictConfig) -> bool:
    """Whether a stage of this configuration runs in a job that may ask it to stop: one of its own, or a task
    of a grid's array, in which stages run as on any machine (`launch.slurm.cell`)."""
    return config.cluster.name == "slurm" or "SLURM_ARRAY_TASK_ID" in os.environ


def requested(folder: Path) -> bool:
    """Whether the stage of this run directory is asked to save and end."""
    return (folder / NAME).exists()


def answered(folder: Path, saved: Path | None) -> bool:
    """Whether the checkpoint `saved` of the run directory `folder` was made after the stage was asked."""
    try:
        asked = (folder / NAME).stat().st_mtime
    except FileNotFoundError:
        return False
    return saved is not None and saved.stat().st_mtime >= asked
