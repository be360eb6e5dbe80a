"""What ends a job from outside, and what the job makes of it: it goes on where it was, or ends for good."""

import shutil
from pathlib import Path

import pytest
import slurm_runs as runs

from data_prep.atomic import read_jsonl
from recipes.verl_checkpoints import is_whole

ENDLESS = ("sft.max_steps=100000", "sft.epochs=100000", "sft.save_every=5")


@pytest.fixture(autouse=True)
def _shared_folder(monkeypatch):
    monkeypatch.setattr("launch.slurm.check.NODE_LOCAL", ())


@pytest.fixture(scope="session")
def prepared(slurm, tmp_path_factory) -> Path:
    """A folder of runs with a finished prep, base model and SFT."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launch.slurm.check.NODE_LOCAL", ())
        assert runs.submit("sft", folder, "cluster.nodes=1") == 0
    sft = runs.stage("sft", folder).path
    assert slurm.wait(runs.job_of(sft), timeout=runs.WAIT) == "COMPLETED", runs.logs(sft)
    return folder


@pytest.fixture
def folder(prepared, tmp_path) -> Path:
    """A copy of it for one test."""
    shutil.copytree(prepared, tmp_path / "runs", symlinks=True)
    return tmp_path / "runs"


def started(name: str, folder: Path, *options: str) -> tuple[Path, str]:
    """A stage on its way: its directory and its job."""
    assert runs.submit(name, folder, *options) == 0
    path = runs.stage(name, folder, *options).path
    return path, runs.job_of(path)


def saved_steps(path: Path) -> list[int]:
    """The steps of SFT's checkpoints that are whole."""
    return [
        int(found.parent.name.split("-")[1])
        for found in path.glob("checkpoints/checkpoint-*/trainer_state.json")
    ]


def test_a_preempted_grpo_goes_on_from_its_checkpoint(slurm, folder):
    options = ("grpo.max_steps=3",)
    path, job = started("grpo", folder, *options)
    first = path / "verl/checkpoints/global_step_1"
    runs.wait_for(lambda: is_whole(first), "the first checkpoint", path)
    urgent = slurm.run(
        "sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null",
        "--wrap=true",
    )  # fmt: skip
    assert slurm.wait(urgent, timeout=runs.WAIT) == "COMPLETED"
    assert slurm.wait(job, timeout=runs.WAIT) == "COMPLETED", runs.logs(path)
    assert int(slurm.job(job)["Restarts"]) == 1
    assert runs.steps(path) == [0, 1, 2, 3]
    rollouts = [record["step"] for record in read_jsonl(path / "rollouts.jsonl")]
    assert rollouts == sorted([1, 2, 3] * runs.PROMPTS * runs.ANSWERS)
    before, after = runs.attempts(path)
    assert "GRPO: starting verl\n" in before
    assert "GRPO: starting verl from step" in after
    assert (path / "attempts/latest").readlink() == Path("attempt_2")


def test_at_its_time_limit_a_job_saves_and_goes_on(slurm, folder):
    options = (*ENDLESS, "sft.save_every=100000", "cluster.time=2", "logger=wandb")
    path, job = started("sft", folder, *options)
    runs.wait_for(lambda: slurm.job(job)["Restarts"] == "1", "the job to be queued again", path)
    (kept,) = path.glob("checkpoints/checkpoint-*")
    saved = int(kept.name.split("-")[1])
    runs.wait_for(lambda: runs.steps(path)[-1] > saved + 1, "steps after the saved one", path)
    slurm.run("scancel", job)
    assert slurm.wait(job, timeout=runs.WAIT) == "CANCELLED"
    assert runs.steps(path) == list(range(1, runs.steps(path)[-1] + 1))
    before, _ = runs.attempts(path)
    assert f"goes on from step {saved}, queued again" in before
    assert "wandb sync" in before
    copies = [found.name.rpartition("-")[2] for found in path.glob("wandb/offline-run-*")]
    assert copies == [(path / "wandb_id").read_text().strip()] * 2


def test_a_job_whose_node_dies_goes_on_when_it_is_back(slurm, folder):
    path, job = started("sft", folder, *ENDLESS)
    runs.wait_for(lambda: saved_steps(path), "a checkpoint", path)
    slurm.kill_node("node2")
    try:
        slurm.wait(job, ("PENDING",), timeout=runs.WAIT)
    finally:
        slurm.start_node("node2")
    reached = max(saved_steps(path))
    runs.wait_for(lambda: max(saved_steps(path)) > reached, "a checkpoint of the second attempt", path)
    slurm.run("scancel", job)
    assert slurm.wait(job, timeout=runs.WAIT) == "CANCELLED"
    assert len(runs.attempts(path)) == 2
    assert sorted(set(runs.steps(path))) == list(range(1, runs.steps(path)[-1] + 1))


def test_a_cancelled_job_is_over(slurm, folder):
    path, job = started("sft", folder, *ENDLESS)
    runs.wait_for(lambda: saved_steps(path), "a checkpoint", path)
    slurm.run("scancel", job)
    assert slurm.wait(job, timeout=runs.WAIT) == "CANCELLED"
    runs.wait_for(lambda: not slurm.processes("node1"), "the node to be empty", path, timeout=60)
    assert slurm.job(job)["Restarts"] == "0"
    assert slurm.run("squeue", "-h") == ""
    assert "queued again" not in runs.attempts(path)[0]


def test_a_ray_that_does_not_form_is_told(slurm, folder):
    path, job = started("grpo", folder, "cluster.start_timeout=1")
    assert slurm.wait(job, timeout=runs.WAIT) == "FAILED", runs.logs(path)
    assert "2 nodes joined the job's Ray within 1 s" in (path / "attempts/latest/stderr.txt").read_text()
    assert not (path / "verl.log").exists()
