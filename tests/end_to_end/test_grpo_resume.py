"""verl's real trainer, killed after its first checkpoint and taken up again by the same command."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from data_prep.atomic import read_jsonl
from launch.compose import compose
from recipes.run_dir import RunDir
from recipes.stages import plan
from recipes.verl_checkpoints import is_whole

pytestmark = pytest.mark.slow

PROMPTS, ANSWERS, STEPS = 4, 2, 2
CONFIG = (
    "recipe=imagination_cot", "scale=tiny", "data.synthetic.train_groups=24", "data.synthetic.test_groups=4",
    "model.build.pretraining.steps=0", "model.build.pretraining.pictures=8", "model.build.vocabulary=400",
    f"grpo.batch_size={PROMPTS}", "grpo.mini_batch_size=2", f"grpo.group_size={ANSWERS}",
    f"grpo.max_steps={STEPS}", "grpo.save_every=1", "model.max_response_tokens=24", "grpo.lr=1e-4",
    "grpo.probe.rows=2", "grpo.probe.max_flat_share=1",  # an untrained model is right in nothing
)  # fmt: skip
WAIT = 300.0  # seconds


def prepared(runs: Path) -> RunDir:
    """A GRPO stage whose start checkpoint is an untrained model."""
    from recipes import base_model, prep

    config = compose([*CONFIG, f"runs_dir={runs}"])
    prep.run(plan(config, "prep").open())
    base = plan(config, "base")
    base_model.run(base.open())
    stage = plan(config, "grpo")
    stage.inputs["sft"].open()
    shutil.copytree(base.path / "checkpoint", stage.inputs["sft"].path / "checkpoint")
    return stage.open()


def start(run: RunDir, output: Path) -> subprocess.Popen:
    """The stage in a process group of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with open(output, "a") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "recipes", "grpo", str(run.path)],
            env=environment, cwd=Path(__file__).parents[2], stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip


def sessions_of(run: RunDir) -> set[int]:
    """The sessions of verl's trainers that work in the run directory; what they start stays in theirs."""
    trainers = [
        p for p in psutil.process_iter(["cmdline"]) if "verl.trainer.main_ppo" in (p.info["cmdline"] or [])
    ]
    return {os.getsid(p.pid) for p in trainers if any(str(run.path) in word for word in p.info["cmdline"])}


def members(sessions: set[int]) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) in sessions and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def wait_for(condition, what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT:.0f} s for {what}"
        time.sleep(0.05)


def test_a_killed_run_goes_on_from_its_checkpoint(tmp_path):
    run = prepared(tmp_path / "runs")
    output = tmp_path / "output.txt"

    process = start(run, output)
    checkpoint = run.path / "verl/checkpoints/global_step_1"
    wait_for(lambda: process.poll() is not None or is_whole(checkpoint), "the first checkpoint")
    assert process.poll() is None, output.read_text() + (run.path / "verl.log").read_text()[-3000:]
    sessions = sessions_of(run)
    assert len(members(sessions)) > 5
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not sessions_of(run), "verl to end with the process that started it")
    assert not run.finished
    assert not (run.path / "verl/checkpoints/global_step_2").exists()

    process = start(run, output)
    assert process.wait(WAIT) == 0, output.read_text() + (run.path / "verl.log").read_text()[-3000:]
    assert "starting verl from step 1" in output.read_text()
    assert f"Resuming from {checkpoint}" in (run.path / "verl.log").read_text()

    assert [record["step"] for record in read_jsonl(run.path / "metrics.jsonl")] == [0, 1, 2]
    assert output.read_text().count("probing the start checkpoint") == 1
    rollouts = list(read_jsonl(run.path / "rollouts.jsonl"))
    assert Counter(record["step"] for record in rollouts) == {1: PROMPTS * ANSWERS, 2: PROMPTS * ANSWERS}
    known = {record["id"] for record in read_jsonl(run.inputs["prep"].path / "rows/rl.jsonl")}
    per_id = Counter((record["step"], record["id"]) for record in rollouts)
    assert {row_id for _, row_id in per_id} <= known
    assert set(per_id.values()) == {ANSWERS}
    assert (run.manifest["steps"], run.manifest["answers"]) == (STEPS, STEPS * PROMPTS * ANSWERS)
    check_merged(run)
    assert not (run.path / "verl/process.json").exists()
    assert not members(sessions)


def check_merged(run: RunDir) -> None:
    """The kept checkpoint loads with its processor, and is not the start model."""
    import torch

    from recipes.backbone import load_model, load_processor

    start = load_model(str(run.inputs["sft"].path / "checkpoint"), run.config.model)
    kept = load_model(str(run.path / "checkpoint"), run.config.model)
    assert hasattr(load_processor(str(run.path / "checkpoint"), run.config.model), "image_processor")
    before, after = start.state_dict(), kept.state_dict()
    assert before.keys() == after.keys()
    moved = max(float((after[name].float() - before[name].float()).abs().max()) for name in before)
    # More than the rounding to bfloat16 of verl's merger.
    rounded = max(float((t.bfloat16().float() - t.float()).abs().max()) for t in before.values())
    assert moved > 2 * rounded
    assert all(torch.isfinite(tensor).all() for tensor in after.values())
