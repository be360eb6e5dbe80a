"""Chains of jobs: what is submitted, in which order, and what is taken back. Slurm answers from a table."""

import subprocess
import types
from collections.abc import Sequence
from pathlib import Path

import pytest

from data_prep.errors import UserError
from launch.cli import main
from launch.compose import compose
from launch.slurm import check, queue
from launch.slurm.check import findings, seconds
from launch.slurm.submit import variables
from recipes.run_dir import RunDir
from recipes.stages import plan

TINY = ("recipe=imagination_cot", "scale=tiny", "cluster=slurm")


class Slurm:
    """Takes jobs until the one named in `refused`; `states` is what the queue says of them."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.submitted: list[Sequence[str]] = []
        self.cancelled: list[str] = []
        self.refused = ""

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(words, *getattr(self, words[0])(words))

    def sbatch(self, words: Sequence[str]) -> tuple[int, str, str]:
        if "--test-only" in words:
            return 0, "", "sbatch: Job 1 to start at 2026-01-01T00:00:00"
        if self.refused and f"job-name={self.refused}" in Path(words[-1]).read_text():
            return 1, "", "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy"
        self.submitted.append(words)
        job = str(100 + len(self.submitted))
        self.states[job] = "PENDING"
        return 0, f"{job}\n", ""

    def squeue(self, words: Sequence[str]) -> tuple[int, str, str]:
        jobs = next(word for word in words if word.startswith("--jobs=")).removeprefix("--jobs=").split(",")
        known = [job for job in jobs if job in self.states]
        if not known:
            return 1, "", "slurm_load_jobs error: Invalid job id specified"
        return 0, "".join(f"{job}|N/A|{job}|{self.states[job]}\n" for job in known), ""

    def scancel(self, words: Sequence[str]) -> tuple[int, str, str]:
        self.cancelled += words[1:]
        return 0, "", ""

    def sinfo(self, words: Sequence[str]) -> tuple[int, str, str]:
        return 0, "batch*|2-00:00:00\nshort|30:00\nlong|infinite\n", ""

    def sacct(self, words: Sequence[str]) -> tuple[int, str, str]:
        return 1, "", "Slurm accounting storage is disabled"


@pytest.fixture
def slurm(monkeypatch) -> Slurm:
    fake = Slurm()
    monkeypatch.setattr(queue, "_slurm", fake)
    monkeypatch.setattr(check, "shutil", types.SimpleNamespace(which=lambda name: f"/bin/{name}"))
    monkeypatch.setattr(check, "NODE_LOCAL", ())
    return fake


def waits_for(words: Sequence[str]) -> list[str]:
    found = [word for word in words if word.startswith("--dependency=afterok:")]
    assert not found or "--kill-on-invalid-dep=yes" in words
    return found[0].split(":")[1:] if found else []


def test_a_pipeline_is_one_chain(slurm, tmp_path, capsys):
    assert main(["pipeline", *TINY, f"runs_dir={tmp_path}"]) == 0
    told = capsys.readouterr().out
    assert "[1/8] prep: job 101, in " in told
    assert "report: job 109 after " in told
    names = [Path(words[-1]).parent.parent.name.split("-")[0] for words in slurm.submitted]
    jobs = dict(zip(names, range(101, 110), strict=True))
    by_name = dict(zip(names, map(waits_for, slurm.submitted), strict=True))
    assert by_name["prep"] == []
    assert by_name["base"] == [str(jobs["prep"])]
    assert by_name["sft"] == [str(jobs["prep"]), str(jobs["base"])]
    assert by_name["grpo"] == [str(jobs["prep"]), str(jobs["sft"])]
    assert by_name["report"] == [str(job) for job in range(101, 109)]
    grpo = plan(compose([*TINY, f"runs_dir={tmp_path}"]), "grpo")
    (entry,) = queue.records(grpo.path)
    assert (entry["kind"], entry["stage"], entry["cells"]) == ("stage", "grpo", None)
    assert Path(entry["script"]).read_text().startswith("#!/bin/bash\n#SBATCH --job-name=grpo-")
    assert RunDir(grpo.path).config.cluster.name == "slurm"


def test_what_is_on_the_queue_or_finished_is_left_out(slurm, tmp_path):
    options = [*TINY, f"runs_dir={tmp_path}"]
    prep = plan(compose(options), "prep")
    prep.open().finish({"sets": {}})
    assert main(["sft", *options]) == 0
    assert [waits_for(words) for words in slurm.submitted] == [[], ["101"]]
    slurm.states["102"] = "RUNNING"
    assert main(["grpo", *options]) == 0
    assert [waits_for(words) for words in slurm.submitted[2:]] == [["102"]]
    slurm.states |= {"102": "FAILED", "103": "CANCELLED"}
    assert main(["grpo", *options]) == 0
    assert [waits_for(words) for words in slurm.submitted[3:]] == [["101"], ["104"]]


def test_a_refused_job_takes_the_others_off_the_queue(slurm, tmp_path, capsys):
    slurm.refused = "grpo"
    assert main(["pipeline", *TINY, f"runs_dir={tmp_path}"]) == 2
    assert "Job violates accounting/QOS policy" in capsys.readouterr().err
    assert slurm.cancelled == ["101", "102", "103", "104", "105"][: len(slurm.submitted)]
    assert len(slurm.submitted) >= 3


def test_a_dependency_is_a_job_that_slurm_knows_and_that_may_succeed(slurm, tmp_path):
    script = tmp_path / "job.sh"
    script.touch()
    with pytest.raises(UserError, match="is to wait for job 9, which Slurm does not know"):
        queue.sbatch(script, ["9"])
    slurm.states |= {"9": "FAILED", "10": "COMPLETED"}
    with pytest.raises(UserError, match="job 9, which has ended as FAILED"):
        queue.sbatch(script, ["10", "9"])
    assert queue.sbatch(script, ["10", "9"], kind="afterany") == "101"
    assert slurm.submitted[-1][-3:-1] == ("--dependency=afterany:10:9", "--kill-on-invalid-dep=yes")


def test_only_named_variables_that_are_set_are_passed_on(slurm, tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "MY_KEY", "UNNAMED"):
        monkeypatch.setenv(name, "value")
    for name in ("HF_HOME", "HF_TOKEN", "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    options = [*TINY, f"runs_dir={tmp_path}", "eval.endpoint.api_key_env=MY_KEY"]
    assert variables(plan(compose(options), "eval").config) == ["WANDB_API_KEY", "MY_KEY"]
    views = compose([*options, "data.views_miniature.api_key_env=UNNAMED"])
    assert variables(plan(views, "prep").config) == ["WANDB_API_KEY", "UNNAMED"]
    assert main(["prep", *options]) == 0
    assert "--export=WANDB_API_KEY" in slurm.submitted[0]


def test_the_state_of_an_array_is_that_of_its_tasks(monkeypatch):
    lines = {
        "running": "5|0|6|COMPLETED\n5|1|7|RUNNING\n5|2|5|PENDING\n",
        "over": "5|0|6|FAILED\n5|1|5|COMPLETED\n",
    }
    for name, state in (("running", "RUNNING"), ("over", "FAILED")):
        answer = subprocess.CompletedProcess((), 0, lines[name], "")
        monkeypatch.setattr(queue, "_slurm", lambda *words, answer=answer: answer)
        assert queue.states(["5"]) == {"5": state}
    assert queue.task_states("5") == {0: "FAILED", 1: "COMPLETED"}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("90", 5400), ("1:30", 90), ("1:30:00", 5400), ("2-12", 216_000), ("1-00:30", 88_200),
        ("1-00:00:01", 86_401), ("a day", None), ("1h", None),
    ],
)  # fmt: skip
def test_a_time_limit_is_read_as_slurm_reads_it(time, expected):
    assert seconds(time) == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["cluster.time=1h"], "cluster.time=1h is no time of Slurm"),
        (["cluster.time=5"], "cluster.signal=600 seconds before its end"),
        (["cluster.setup=['export WANDB_API_KEY=abc']"], "seems to hold a secret"),
        (["cluster.environment=['A=b']"], "takes names of variables, and A..."),
        (["cluster.container=pyxis"], "cluster.container=pyxis wants cluster.image="),
        (["cluster.image=x.sif"], "cluster.image=x.sif is not used"),
        (["cluster.container=apptainer", "cluster.image=x.sif"], "cluster.image=x.sif does not exist"),
        (["runs_dir=/dev/shm/runs"], "lies in /dev/shm, which every node has for itself"),
        (["model.path=nobody/nothing", "model.build=null"], "is not in the cache"),
    ],
)  # fmt: skip
def test_what_would_stop_a_job_is_found_before_it_is_queued(options, told, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.chdir("/")
    config = compose([*TINY, *options])
    found = findings(config, [plan(config, "sft")])
    assert len(found) == 1
    assert told in found[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["cluster.time=3-0"], ["the default partition gives a job 2-00:00:00, and jobs of 3-0"]),
        (["cluster.partition=long", "cluster.time=9-0"], []),
        (["cluster.cpu_jobs.partition=short"], ["partition short gives a job 30:00, and jobs of 04:00:00"]),
        (["cluster.partition=unknown"], []),  # that it is unknown, sbatch says
    ],
)
def test_a_job_that_would_wait_for_ever_is_not_submitted(slurm, options, told, tmp_path):
    config = compose([*TINY, f"runs_dir={tmp_path}", *options])
    found = findings(config, [plan(config, name) for name in ("prep", "sft")])
    assert len(found) == len(told)
    assert all(text in sentence for text, sentence in zip(told, found, strict=True))


def test_a_secret_that_is_read_from_elsewhere_is_none(slurm, tmp_path):
    lines = "cluster.setup=['export HF_TOKEN=$(cat ~/token)','module load cuda']"
    config = compose([*TINY, lines, f"runs_dir={tmp_path}"])
    assert findings(config, [plan(config, "sft")]) == []


def test_without_slurm_the_way_out_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(check, "NODE_LOCAL", ())
    assert main(["sft", *TINY, f"runs_dir={tmp_path}"]) == 2
    assert "there is no sbatch on this machine" in capsys.readouterr().err
