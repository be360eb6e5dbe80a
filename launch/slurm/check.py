"""What would stop a chain of jobs on the cluster, asked before anything is submitted."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.machine import existing_parent
from launch.slurm import queue
from launch.slurm.render import needs, stage_script
from recipes.stages import Stage

NODE_LOCAL = ("/tmp", "/dev/shm", "/run", "/var/tmp")
TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")
# `NAME_TOKEN=value`; a value that is read from elsewhere ($VARIABLE, $(command)) is no secret.
SECRET = re.compile(r"(?i)\b\w*(token|secret|password|api_?key)\w*=['\"]?[^\s'\"$]")


def findings(config: DictConfig, stages: Sequence[Stage]) -> list[str]:
    """One sentence, with the way out, for everything that would stop the jobs of `stages`."""
    found = [*_settings(config), *_container(config.cluster), *_shared(config), *_cache(config, stages)]
    return found if found else [*_asked_of_slurm(stages)]


def seconds(time: str) -> float | None:
    """A limit as Slurm writes it ("90", "1:30:00", "2-12", "1-00:00:00") in seconds; None if it is none."""
    match = TIME.fullmatch(time.strip())
    if match is None:
        return None
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:
        hours, minutes, rest = (*parts, 0, 0)[:3]
        return ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + rest
    if len(parts) == 1:
        return parts[0] * 60
    hours, minutes, rest = parts if len(parts) == 3 else (0, *parts)
    return (hours * 60 + minutes) * 60 + rest


def _settings(config: DictConfig) -> Iterator[str]:
    cluster = config.cluster
    for key, time in (("cluster.time", cluster.time), ("cluster.cpu_jobs.time", cluster.cpu_jobs.time)):
        limit = seconds(str(time))
        if limit is None:
            yield f"{key}={time} is no time of Slurm: write days-hours:minutes:seconds, as in 1-00:00:00."
        elif key == "cluster.time" and limit <= cluster.signal:
            yield (
                f"cluster.signal={cluster.signal} seconds before its end comes before the start of a job of "
                f"{key}={time}: lower the one, or raise the other."
            )
    for line in [*cluster.setup, *cluster.options]:
        if SECRET.search(str(line)):
            yield (
                "cluster.setup or cluster.options seems to hold a secret, which would reach the script: set "
                "it in your shell, and name the variable in cluster.environment."
            )
    for name in cluster.environment:
        if not str(name).isidentifier():
            yield f"cluster.environment takes names of variables, and {str(name).split('=')[0]}... is none."


def _container(cluster: DictConfig) -> Iterator[str]:
    if cluster.container == "none":
        if cluster.image is not None:
            yield f"cluster.image={cluster.image} is not used: add cluster.container=pyxis or apptainer."
        return
    if cluster.image is None:
        yield f"cluster.container={cluster.container} wants cluster.image=."
    elif "://" not in cluster.image and not Path(cluster.image).exists():
        yield f"cluster.image={cluster.image} does not exist: give the path of an image, or docker://NAME."


def _shared(config: DictConfig) -> Iterator[str]:
    for key, given in (("runs_dir", config.runs_dir), ("run_dir", config.run_dir)):
        if given is None:
            continue
        place = existing_parent(Path(given)).resolve()
        local = next((folder for folder in NODE_LOCAL if place.is_relative_to(folder)), None)
        if local is not None:
            yield f"{key}={given} lies in {local}, which every node has for itself: give a shared folder."


def _cache(config: DictConfig, stages: Sequence[Stage]) -> Iterator[str]:
    """A model that the jobs could only download."""
    path = config.model.path
    reads = [stage for stage in stages if "model" in stage.config]
    if not config.cluster.offline or not reads or path is None or Path(path).exists():
        return
    home = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    if not (cache / f"models--{path.replace('/', '--')}" / "snapshots").is_dir():
        yield (
            f"model.path={path} is not in the cache {cache}, and jobs are offline: `hf download {path}` "
            "first, give a folder, or set cluster.offline=false."
        )


def _time_limits(stages: Sequence[Stage]) -> Iterator[str]:
    """Jobs that ask for more time than their partition gives: most clusters let them wait for ever."""
    try:
        limits = queue.time_limits()
    except UserError as error:
        yield str(error)
        return
    jobs = [needs(stage.name, stage.config) for stage in stages]
    for partition, time in dict.fromkeys((job.partition, str(job.time)) for job in jobs):
        limit, asked = seconds(limits.get(partition, "infinite")), seconds(time)
        if limit is not None and asked is not None and asked > limit:
            where = f"partition {partition}" if partition else "the default partition"
            yield (
                f"{where} gives a job {limits[partition]}, and jobs of {time} would wait for ever: lower "
                "cluster.time or cluster.cpu_jobs.time; a stage goes on in the same job, queued again."
            )


def _asked_of_slurm(stages: Sequence[Stage]) -> Iterator[str]:
    """Partition, account, QOS and limits, as Slurm itself judges them."""
    if shutil.which("sbatch") is None:
        yield "there is no sbatch on this machine: give the command on a login node, or take cluster=local."
        return
    told: set[str] = set()
    yield from _time_limits(stages)
    with tempfile.TemporaryDirectory() as folder:
        for number, stage in enumerate(stages):
            script = Path(folder) / f"{number}.sh"
            script.write_text(stage_script(stage, Path.cwd()), encoding="utf-8")
            try:
                refusal = queue.refusal(script)
            except UserError as error:
                yield str(error)
                return
            if refusal and refusal not in told:
                told.add(refusal)
                yield (
                    f"Slurm refuses the job of {stage.name}: {refusal}: look at cluster.partition, account, "
                    "qos, nodes, gpus, cpus, memory and time; `sinfo` tells what there is."
                )
