"""verl's real trainer, killed, its newest checkpoint damaged, and taken up again by the same command.

It trains the language model alone and validates every checkpoint on rows that are held out.
"""

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
from pyarrow import parquet

from data_prep.atomic import read_jsonl
from launch.compose import compose
from recipes.checkpoints import sealed
from recipes.run_dir import RunDir
from recipes.stages import plan
from recipes.verl_checkpoints import fault, is_whole

pytestmark = pytest.mark.slow

PROMPTS, ANSWERS, STEPS, HELD_OUT = 4, 2, 3, 4
CONFIG = (
    "recipe=imagination_cot", "scale=tiny", "data.synthetic.train_groups=24", "data.synthetic.test_groups=4",
    "model.build.pretraining.steps=0", "model.build.pretraining.pictures=8", "model.build.vocabulary=400",
    f"grpo.batch_size={PROMPTS}", "grpo.mini_batch_size=2", f"grpo.group_size={ANSWERS}",
    f"grpo.max_steps={STEPS}", "grpo.save_every=1", "model.max_response_tokens=24", "grpo.lr=1e-4",
    f"grpo.validation_rows={HELD_OUT}", "grpo.take=best", "grpo.keep_checkpoints=1",
    "model.freeze_vision=true",
    "grpo.probe.rows=2", "grpo.probe.max_flat_share=1",  # an untrained model is right in nothing
)  # fmt: skip
WAIT = 300.0  # seconds
PLANTED = {"WANDB_API_KEY": "0f1e2d3c4b5a69788796", "HF_TOKEN": "hf_ABCDEFabcdef0123456789"}


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
    environment = {**os.environ, **PLANTED, "OMP_NUM_THREADS": "1"}
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
    checkpoint, damaged = (run.path / f"verl/checkpoints/global_step_{step}" for step in (1, 2))
    wait_for(lambda: process.poll() is not None or is_whole(damaged), "the second checkpoint")
    assert process.poll() is None, output.read_text() + (run.path / "verl.log").read_text()[-3000:]
    sessions = sessions_of(run)
    assert len(members(sessions)) > 5
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not sessions_of(run), "verl to end with the process that started it")
    assert not run.finished
    assert is_whole(checkpoint)
    shard = damaged / "actor/optim_world_size_1_rank_0.pt"
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    (run.path / "verl/checkpoints/latest_checkpointed_iteration.txt").write_text("")

    process = start(run, output)
    assert process.wait(WAIT) == 0, output.read_text() + (run.path / "verl.log").read_text()[-3000:]
    said = output.read_text()
    assert f"checkpoint {damaged} is damaged (optim_world_size_1_rank_0.pt was cut short)" in said
    assert "falling back to global_step_1" in said
    assert "starting verl from step 1" in said
    assert f"Resuming from {checkpoint}" in (run.path / "verl.log").read_text()

    assert [record["step"] for record in read_jsonl(run.path / "metrics.jsonl")] == [0, 1, 2, 3]
    assert output.read_text().count("probing the start checkpoint") == 1
    rollouts = list(read_jsonl(run.path / "rollouts.jsonl"))
    steps = range(1, STEPS + 1)
    assert Counter(record["step"] for record in rollouts) == dict.fromkeys(steps, PROMPTS * ANSWERS)
    known = {record["id"] for record in read_jsonl(run.inputs["prep"].path / "rows/rl.jsonl")}
    per_id = Counter((record["step"], record["id"]) for record in rollouts)
    assert {row_id for _, row_id in per_id} <= known
    assert set(per_id.values()) == {ANSWERS}
    assert (run.manifest["steps"], run.manifest["answers"]) == (STEPS, STEPS * PROMPTS * ANSWERS)
    for path in (path for path in [output, *run.path.rglob("*")] if path.is_file()):
        assert not any(key.encode() in path.read_bytes() for key in PLANTED.values()), path
    check_validated(run, {row_id for _, row_id in per_id})
    check_merged(run)
    check_frozen_and_trained(run)
    assert not (run.path / "verl/process.json").exists()
    assert not members(sessions)


def check_validated(run: RunDir, trained_on: set[str]) -> None:
    """Held-out rows are of places that are never trained on; the newest and the best checkpoint are kept."""
    group_of = {row["id"]: row["group"] for row in read_jsonl(run.inputs["prep"].path / "rows/rl.jsonl")}
    held_out = parquet.read_table(run.path / "sets/validation.parquet").column("extra_info").to_pylist()
    assert len(held_out) == run.manifest["validation_rows"] >= HELD_OUT
    assert not {info["group"] for info in held_out} & {group_of[row_id] for row_id in trained_on}
    measured = {r["step"]: r["validation_accuracy"] for r in run.metrics() if "validation_accuracy" in r}
    # Step 1 has none where the kill came between its checkpoint and its validation.
    assert {2, 3} <= measured.keys()
    kept = {path.name for path in (run.path / "verl/checkpoints").glob("global_step_*")}
    assert kept == {f"global_step_{step}" for step in (run.manifest["best"], STEPS)}
    assert run.manifest["taken"] == run.manifest["best"] in measured
    assert all(fault(run.path / "verl/checkpoints" / name) is None for name in kept)
    assert all(sealed(run.path / "verl/checkpoints" / name) for name in kept)


def check_frozen_and_trained(run: RunDir) -> None:
    """In verl's own checkpoint, before anything is rounded: the vision tower to the bit, the rest not."""
    import torch

    from recipes.backbone import is_vision, load_model, parameter_counts

    start = load_model(str(run.inputs["sft"].path / "checkpoint"), run.config.model)
    last = run.path / f"verl/checkpoints/global_step_{STEPS}/actor/model_world_size_1_rank_0.pt"
    before, after = start.state_dict(), torch.load(last, weights_only=False)
    whole = {name: getattr(tensor, "_local_tensor", tensor) for name, tensor in after.items()}
    moved = {name for name in before if not torch.equal(before[name], whole[name])}
    assert moved
    assert not any(is_vision(name) for name in moved)
    vision = sum(tensor.numel() for name, tensor in start.named_parameters() if is_vision(name))
    every = parameter_counts(start)["all"]
    assert f"training {every - vision:,} of {every:,} weights" in (run.path / "verl.log").read_text()


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
