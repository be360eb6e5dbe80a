"""The scripts of Slurm jobs: what they ask for and hold, and what they do, run by bash without a Slurm."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from launch.cli import main
from launch.compose import compose
from launch.pipeline import stages_of
from launch.slurm.render import REPORT, needs, report_script, stage_script
from recipes.stages import Stage, plan

PAPER = ("recipe=imagination_cot", "data.root=/data", "teacher.path=/teacher.jsonl", "cluster=slurm")
TINY = ("recipe=imagination_cot", "scale=tiny", "cluster=slurm")
CONTAINERS = (
    (),
    ("cluster.container=pyxis", "cluster.image=docker://our/image"),
    ("cluster.container=apptainer", "cluster.image=our.sif", "cluster.mounts=[/data:/data]"),
)


def staged(name: str, *options: str) -> Stage:
    return plan(compose(options), name)


def script(name: str, *options: str, cwd: Path = Path("/work dir")) -> str:
    return stage_script(staged(name, *options), cwd)


def asked(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]


@pytest.mark.parametrize("options", [(*s, *c) for s, c in product((PAPER, TINY), CONTAINERS)])
@pytest.mark.parametrize("nodes", [1, 3])
def test_every_script_is_bash(options, nodes, tmp_path):
    given = [*options, f"cluster.nodes={nodes}", f'runs_dir="{tmp_path}/it\'s here"']
    config = compose(given)
    stages = stages_of("pipeline", config)
    assert len(stages) >= 7
    texts = [stage_script(stage, tmp_path) for stage in stages]
    texts.append(report_script(tmp_path / "report", plan(config, "eval").config, tmp_path))
    for text in texts:
        checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        assert "{{" not in text
        assert "TERM" not in [
            word for line in text.splitlines() if line.startswith("trap") for word in line.split()
        ]


def test_a_job_asks_for_what_its_stage_uses():
    options = (*PAPER, "cluster.nodes=4", "cluster.partition=a100", "cluster.cpu_jobs.partition=cpu")
    grpo = asked(script("grpo", *options))
    for line in ("--nodes=4", "--gpus-per-node=8", "--cpus-per-task=16", "--time=24:00:00", "--requeue"):
        assert line in grpo
    for line in ("--partition=a100", "--signal=B:USR1@600", "--open-mode=append", '--chdir="/work dir"'):
        assert line in grpo
    prep = asked(script("prep", *options))
    assert {"--nodes=1", "--partition=cpu", "--cpus-per-task=8", "--time=04:00:00"} <= set(prep)
    assert not [line for line in prep + grpo if "account" in line or "mem=" in line]
    evaluation = needs("eval", staged("eval", *options).config)
    assert (evaluation.nodes, evaluation.gpus, evaluation.cpus) == (1, 1, 2)
    elsewhere = staged("eval", *options, "eval.engine=openai", "eval.endpoint.base_url=http://there/v1")
    assert needs("eval", elsewhere.config).gpus == 0
    tiny = needs("grpo", staged("grpo", *TINY, "cluster.nodes=2").config)
    assert (tiny.nodes, tiny.gpus) == (2, 0)
    assert needs(REPORT, staged("eval", *options).config).partition == "cpu"


def test_sft_starts_a_process_a_device():
    assert "torch.distributed.run --nnodes=2 " in script("sft", *TINY, "cluster.nodes=2")
    assert "torch.distributed.run" not in script("sft", *TINY)
    many = script("sft", *PAPER, "cluster.nodes=4")
    assert '--num_processes 32 --num_machines 4 --machine_rank "$SLURM_NODEID"' in many
    assert "--zero_stage 2 --gradient_accumulation_steps 1 " in many
    assert "--deepspeed_multinode_launcher standard" in many
    assert "multinode_launcher" not in script("sft", *PAPER)


def test_a_container_wraps_the_stage_and_nothing_else():
    pyxis, apptainer = (script("grpo", *PAPER, *options) for options in CONTAINERS[1:])
    inside = [line for line in pyxis.splitlines() if "--container-image docker://our/image" in line]
    assert len(inside) == 3  # Ray's step, the wait for it, the trainer
    assert "export PYTHON=python3" in pyxis
    assert "export PYTHONPATH" not in pyxis
    inside = [line for line in apptainer.splitlines() if "apptainer exec --nv --bind " in line]
    assert len(inside) == 3
    assert all("/data:/data" in line for line in inside)


def test_no_script_and_no_dry_run_holds_a_secret(monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "planted-key")
    monkeypatch.setenv("HF_TOKEN", "planted-token")
    assert main(["pipeline", *TINY, "logger=wandb", "dry_run=true"]) == 0
    shown = capsys.readouterr().out
    assert "planted" not in shown
    assert "by name: HF_TOKEN, WANDB_API_KEY)" in shown
    assert shown.count("#!/bin/bash") == 9
    assert "export WANDB_MODE=offline" in shown


def test_a_cluster_of_the_users_own_is_a_file(tmp_path):
    (tmp_path / "cluster").mkdir()
    own = "defaults: [slurm]\npartition: a100\nnccl:\n  NCCL_SOCKET_IFNAME: ib0\n"
    (tmp_path / "cluster" / "ours.yaml").write_text(own)
    config = compose(["recipe=imagination_cot", "scale=tiny", "cluster=ours"], tmp_path)
    text = stage_script(plan(config, "grpo"), tmp_path)
    assert "--partition=a100" in asked(text)
    assert "export NCCL_SOCKET_IFNAME=ib0" in text
    assert "export NCCL_DEBUG=WARN" in text


@dataclass
class Sandbox:
    """A stage's script, with commands in front of PATH that stand for Slurm's and for Python."""

    folder: Path
    stage: Stage

    @property
    def run(self) -> Path:
        return self.stage.path

    def put(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def start(self, body: str, change: tuple[str, str] = ("", "")) -> "subprocess.Popen[str]":
        """Start the script; `body` is what the stage does."""
        self.put("python", body)
        path = self.run / "slurm" / "job.sh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stage_script(self.stage, self.folder).replace(*change))
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": "node1", "OUT": str(self.folder), "HOME": str(self.folder),
        }  # fmt: skip
        return subprocess.Popen(
            ["bash", str(path)], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def status(self, body: str, change: tuple[str, str] = ("", "")) -> int:
        return self.start(body, change).wait(60)

    @property
    def said(self) -> str:
        return (self.run / "attempts/latest/stdout.txt").read_text()

    @property
    def requeued(self) -> bool:
        return (self.folder / "requeued").exists()


def sandbox(folder: Path, *options: str) -> Sandbox:
    given = (
        *TINY, f"runs_dir={folder}/runs", f"cluster.python={folder}/bin/python", "cluster.signal=4", *options,
    )  # fmt: skip
    box = Sandbox(folder, staged("sft", *given))
    box.put("sleep", "exec /bin/sleep 0.05")
    box.put("scontrol", '[ $1 = requeue ] && echo $2 >"$OUT/requeued"; cat "$OUT/job" 2>/dev/null; true')
    box.put("srun", "shift $(($# - 1)); exec $1" if options == () else 'touch "$OUT/asked"; exit 1')
    (folder / "job").write_text("JobId=7 JobState=RUNNING PreemptTime=None\n")
    return box


@pytest.fixture
def box(tmp_path) -> Sandbox:
    return sandbox(tmp_path)


FINISH = 'touch "$RUN/manifest.json"'
UNTIL_ASKED = 'touch "$OUT/up"; until [ -e "$RUN/slurm/stop" ]; do sleep 1; done'


def up(box: Sandbox) -> None:
    deadline = time.monotonic() + 20
    while not (box.folder / "up").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (FINISH, 0, "done"),
        ("exit 3", 3, "failed with status 3"),
        ("exit 0", 1, "failed with status 1"),  # without a manifest nothing is done
        (f"{FINISH}; exit 4", 4, "failed with status 4"),
    ],
)
def test_the_status_is_the_stages(box, body, status, word):
    assert box.status(body) == status
    assert word in box.said
    assert not box.requeued


def test_a_finished_stage_is_not_run_again(box):
    assert box.status(FINISH) == 0
    assert box.status('touch "$OUT/again"') == 0
    assert not (box.folder / "again").exists()
    assert sorted(path.name for path in (box.run / "attempts").iterdir()) == [
        "attempt_1",
        "attempt_2",
        "latest",
    ]


@pytest.mark.parametrize("body", [f"{UNTIL_ASKED}; exit 75", 'touch "$OUT/up"; exec /bin/sleep 30'])
def test_told_to_stop_it_saves_or_is_ended_and_is_queued_again(box, body):
    process = box.start(body)
    up(box)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 75
    assert box.requeued
    assert "told to stop" in box.said


def test_told_to_stop_while_it_finishes_it_is_done(box):
    process = box.start(f"{UNTIL_ASKED}; {FINISH}")
    up(box)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 0
    assert not box.requeued


def test_a_cancelled_job_is_not_queued_again(box):
    process = box.start('touch "$OUT/up"; exec /bin/sleep 5')
    up(box)
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    assert not box.requeued


@pytest.mark.parametrize(
    ("job", "requeued"),
    [
        ("JobState=RUNNING PreemptTime=2026-01-01T00:00:00", True),
        ("JobState=RUNNING PreemptTime=None", False),
        ("JobState=CANCELLED PreemptTime=2026-01-01T00:00:00", False),
    ],
)
def test_what_a_preemption_killed_is_queued_again(box, job, requeued):
    (box.folder / "job").write_text(job)
    assert box.status("exit 1") == (75 if requeued else 1)
    assert box.requeued == requeued


def test_a_node_that_does_not_answer_is_waited_for(tmp_path):
    box = sandbox(tmp_path, "cluster.nodes=2")
    assert box.status("exit 1") == 75
    assert "a node of the job does not answer" in box.said


def test_restarts_that_get_nowhere_end(box):
    checkpoint = 'mkdir -p "$RUN/checkpoints/checkpoint-5"; exit 3'
    assert box.status(checkpoint) == 3
    # The first restart finds the new step; the three after it find no more.
    assert [box.status("exit 3") for _ in range(4)] == [3] * 4
    assert box.status("exit 3") == 1
    assert "restarted 4 times without getting further than step 5" in box.said
    assert "sft.save_every" in box.said


def test_a_directory_in_use_is_left_alone(box):
    process = box.start(f"{UNTIL_ASKED}; exit 75")
    up(box)
    second = box.start(FINISH, ("--timeout 180", "--timeout 0.1"))
    assert second.wait(60) == 1
    assert "is in use by job 7 on" in second.communicate()[0]
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 75
