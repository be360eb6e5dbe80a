"""A whole recipe as a chain of jobs: SFT and GRPO on two nodes, and what a failure in the middle does."""

import re
from pathlib import Path

import pytest
import slurm_runs as runs

from data_prep.atomic import read_jsonl
from launch.slurm import queue
from recipes.run_dir import RunDir

SECRET = "sk-planted-0d1f6a"
CHAIN = ("prep", "base", "sft", "grpo")


@pytest.fixture(scope="session")
def chain(slurm, tmp_path_factory) -> Path:
    """The folder of runs in which `launch pipeline` was given twice, and which all jobs have left."""
    folder = tmp_path_factory.mktemp("chain")
    # The variable must arrive, or every job ends here.
    check = f'cluster.setup=["[[ ${runs.PASSED_ON} == *{SECRET[-4:]} ]]"]'
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(runs.PASSED_ON, SECRET)
        patch.setattr("launch.slurm.check.NODE_LOCAL", ())  # the nodes share the tests' own folder in /tmp
        assert runs.submit("pipeline", folder, check) == 0
        submitted = {path: path.read_text() for path in folder.rglob("jobs.jsonl")}
        assert runs.submit("pipeline", folder, check) == 0
    assert {path: path.read_text() for path in folder.rglob("jobs.jsonl")} == submitted
    assert len(submitted) == 9
    for path in submitted:
        place = path.parent.parent
        assert slurm.wait(runs.job_of(place), timeout=runs.WAIT) == "COMPLETED", runs.logs(place)
    return folder


def test_every_stage_is_finished_by_its_job(chain):
    for name in (*CHAIN, "eval"):
        stage = runs.stage(name, chain)
        assert stage.finished, name
        assert len(runs.attempts(stage.path)) == 1
        assert (stage.path / "attempts/latest").readlink() == Path("attempt_1")
    assert (chain / "imagination_cot-tiny/report.html").exists()


def test_a_job_waits_for_those_that_it_reads(chain):
    jobs = {name: runs.job_of(runs.stage(name, chain).path) for name in (*CHAIN, "eval")}
    after = {name: queue.records(runs.stage(name, chain).path)[-1]["after"] for name in jobs}
    assert after["prep"] == []
    assert after["sft"] == [jobs["prep"], jobs["base"]]
    assert after["grpo"] == [jobs["prep"], jobs["sft"]]
    assert after["eval"] == [jobs["prep"], jobs["grpo"]]
    assert len(queue.records(chain / "imagination_cot-tiny/report")[-1]["after"]) == 8


def test_sft_trains_on_both_nodes(chain):
    sft = runs.stage("sft", chain).path
    assert runs.steps(sft) == [1, 2, 3, 4]
    # A state of random numbers for each process stands in its checkpoint.
    assert {path.name for path in sft.glob("checkpoints/checkpoint-4/rng_state_*.pth")} == {
        "rng_state_0.pth", "rng_state_1.pth",
    }  # fmt: skip


def test_grpo_spreads_over_both_nodes(chain):
    grpo = runs.stage("grpo", chain).path
    assert runs.steps(grpo) == [0, 1, 2]
    answers = list(read_jsonl(grpo / "rollouts.jsonl"))
    assert len(answers) == runs.STEPS * runs.PROMPTS * runs.ANSWERS
    log = (grpo / "verl.log").read_text()
    for role in ("WorkerDict", "RolloutServer"):  # Ray names the address of what prints on another node
        places = {match[1] for match in re.finditer(rf"\({role} pid=\d+(, ip=[\d.]+)?\)", log)}
        assert len(places) == 2, (role, places)
    assert "Ray: 2 nodes" in runs.attempts(grpo)[0]


def test_nothing_is_left_on_the_nodes(slurm, chain):
    for name in ("node1", "node2"):
        assert [line for line in slurm.processes(name) if "ray" in line or "recipes" in line] == []
        assert list((slurm.root / "tmp" / name).glob("ray-*")) == []


def test_no_file_holds_the_secret(chain):
    files = [path for path in chain.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_what_is_finished_is_not_submitted_again(chain, capsys, monkeypatch):
    monkeypatch.setattr("launch.slurm.check.NODE_LOCAL", ())
    before = {path: path.read_text() for path in chain.rglob("jobs.jsonl")}
    assert runs.submit("grpo", chain) == 0
    assert capsys.readouterr().out.count("finished before") == 4
    assert {path: path.read_text() for path in chain.rglob("jobs.jsonl")} == before


def test_a_failed_stage_takes_what_follows_off_the_queue(slurm, tmp_path, monkeypatch):
    monkeypatch.setattr("launch.slurm.check.NODE_LOCAL", ())
    short = "model.max_prompt_tokens=40"  # SFT refuses prompts that do not fit, once they are prepared
    assert runs.submit("pipeline", tmp_path, short) == 0
    sft, grpo = (runs.stage(name, tmp_path, short).path for name in ("sft", "grpo"))
    assert slurm.wait(runs.job_of(sft), timeout=runs.WAIT) == "FAILED", runs.logs(sft)
    assert "cannot be trained on" in (sft / "attempts/latest/stderr.txt").read_text()
    assert "failed with status" in runs.attempts(sft)[0]
    report = tmp_path / "imagination_cot-tiny/report"
    for place in (grpo, report):
        assert slurm.wait(runs.job_of(place), timeout=runs.WAIT) == "CANCELLED"
        assert queue.details(runs.job_of(place))["Reason"] == "DependencyNeverSatisfied"
        assert not (place / "attempts").exists()
    assert not RunDir(sft).finished
    assert slurm.run("squeue", "-h") == ""
