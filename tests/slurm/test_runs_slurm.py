"""`launch status`, `logs`, `cancel` and `resume` of a chain of jobs on a real Slurm; its stages are stubs."""

import json
from pathlib import Path

import pytest
from job_stubs import JOBS, interpreter

from launch.cli import main
from launch.compose import compose
from launch.slurm import queue
from recipes.stages import plan


@pytest.fixture
def words(shared, monkeypatch) -> list[str]:
    """Options of a recipe whose jobs are scripts; commands are given in the shared folder."""
    monkeypatch.chdir(shared)
    return ["recipe=imagination_cot", "scale=tiny", *JOBS, f"cluster.python={interpreter(shared)}"]


def told(capsys, words: list[str]) -> dict[str, tuple[str, str | None]]:
    """Label -> state and reason, of what was begun."""
    capsys.readouterr()
    assert main(["status", *words, "json=true"]) == 0
    states = json.loads(capsys.readouterr().out)
    return {s["label"]: (s["state"], s["reason"]) for s in states if s["state"] != "missing"}


def jobs(words: list[str]) -> dict[str, str]:
    """Stage -> its last job."""
    stages = plan(compose(words), "grpo").with_inputs()
    return {stage.name: queue.records(stage.path)[-1]["job"] for stage in stages}


def test_a_chain_that_fails_is_told_and_resumed(words, shared, slurm, capsys):
    (shared / "fail").write_text("sft")
    assert main(["grpo", *words]) == 0
    job = jobs(words)
    slurm.wait(job["grpo"], timeout=900)
    why = f"job {job['grpo']}: sft (job {job['sft']}), which it waits for, has ended as failed"
    assert told(capsys, words) == {
        "prep": ("finished", None),
        "base": ("finished", None),
        "sft": ("failed", f"job {job['sft']}: exit code 1: sft: it is told to fail"),
        "grpo": ("cancelled", why),
    }
    assert main(["logs", *words]) == 0
    assert "sft: it is told to fail" in capsys.readouterr().out

    (shared / "fail").unlink()
    (shared / "slow").write_text("sft")
    sft = plan(compose(words), "sft").path
    assert main(["resume", f"run_dir={sft}"]) == 0
    job = jobs(words)
    slurm.wait(job["sft"], ("RUNNING",))
    found = told(capsys, words)
    assert found["sft"] == ("running", f"job {job['sft']} on {slurm.job(job['sft'])['NodeList']}")
    assert found["grpo"] == ("queued", f"job {job['grpo']} waits for sft (job {job['sft']})")
    assert main(["resume", *words]) == 2
    assert "there is nothing to resume" in capsys.readouterr().err

    assert main(["cancel", *words]) == 0
    assert slurm.run("squeue", "-h") == ""
    found = told(capsys, words)
    assert found["sft"] == ("cancelled", f"job {job['sft']} was cancelled")
    assert found["grpo"][0] == "cancelled"
    assert slurm.processes("node1") == slurm.processes("node2") == []


def test_a_stage_is_shown_by_its_directory_when_slurm_has_forgotten_it_too(
    words, shared, slurm, capsys, monkeypatch
):
    (shared / "fail").write_text("prep")
    assert main(["prep", *words]) == 0
    prep = plan(compose(words), "prep").path
    job = queue.records(prep)[-1]["job"]
    assert slurm.wait(job) == "FAILED"
    reason = f"job {job}: exit code 1: prep: it is told to fail"
    assert told(capsys, [f"run_dir={prep}"]) == {"prep": ("failed", reason)}
    monkeypatch.setattr(queue, "states", lambda jobs: {})
    assert told(capsys, [f"run_dir={prep}"])["prep"][0] == "stopped"
    assert Path(prep, "attempts", "latest", "stderr.txt").read_text() == "prep: it is told to fail\n"
