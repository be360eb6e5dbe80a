"""Runs of a tiny recipe as jobs of the tests' Slurm, as small as they can be."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from data_prep.atomic import read_jsonl
from launch.cli import main
from launch.compose import compose
from recipes.run_dir import RunDir
from recipes.stages import Stage, plan

PROMPTS, ANSWERS, STEPS = 4, 2, 2
WAIT = 900.0  # seconds
PASSED_ON = "PLANTED_SECRET"
TINY = (
    "recipe=imagination_cot", "scale=tiny", "data.synthetic.train_groups=24", "data.synthetic.test_groups=4",
    "model.build.pretraining.steps=0", "model.build.pretraining.pictures=8", "model.build.vocabulary=400",
    "model.max_response_tokens=128", "sft.max_steps=4", "sft.batch_size=8", "sft.save_every=1",
    f"grpo.batch_size={PROMPTS}", "grpo.mini_batch_size=2", f"grpo.group_size={ANSWERS}",
    f"grpo.max_steps={STEPS}", "grpo.save_every=1", "grpo.lr=1e-4",
    "grpo.probe.rows=2", "grpo.probe.max_flat_share=1",  # an untrained model is right in nothing
    "eval.max_rows=4", "eval.max_new_tokens=8",
    "cluster=slurm", "cluster.nodes=2", "cluster.gpus=1", "cluster.cpus=8", "cluster.cpu_jobs.cpus=4",
    "cluster.time=10", "cluster.cpu_jobs.time=10", "cluster.signal=60",
    f"cluster.environment=[OMP_NUM_THREADS,{PASSED_ON}]",
)  # fmt: skip


def words(folder: Path, *options: str) -> list[str]:
    return [*TINY, f"runs_dir={folder}", *options]


def submit(command: str, folder: Path, *options: str) -> int:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return main([command, *words(folder, *options)])


def stage(name: str, folder: Path, *options: str) -> Stage:
    return plan(compose(words(folder, *options)), name)


def job_of(folder: Path) -> str:
    """The last job that was submitted for a run directory."""
    return list(read_jsonl(folder / "slurm" / "jobs.jsonl"))[-1]["job"]


def wait_for(condition: Callable[[], object], what: str, folder: Path, timeout: float = WAIT) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:.0f} s for {what}\n{logs(folder)}"
        time.sleep(0.2)


def attempts(folder: Path) -> list[str]:
    """What the script and the stage printed, an attempt an entry."""
    paths = sorted((folder / "attempts").glob("attempt_*"), key=lambda path: int(path.name.split("_")[1]))
    return [(path / "stdout.txt").read_text() for path in paths]


def logs(folder: Path) -> str:
    """The end of everything that a failing test wants to show."""
    paths = [
        *sorted((folder / "slurm").glob("*.txt")),
        *sorted((folder / "attempts").glob("attempt_*/*.txt")),
    ]
    verl = [folder / "verl.log"] if (folder / "verl.log").exists() else []
    return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-1500:]}" for path in [*paths, *verl])


def steps(folder: Path) -> list[int]:
    """The steps in a run's metrics, as they stand in the file."""
    return [record["step"] for record in read_jsonl(RunDir(folder).path / "metrics.jsonl")]
