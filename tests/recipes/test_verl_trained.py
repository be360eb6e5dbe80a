"""What verl's own actor engine trains, from our configuration."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.run_dir import IDLE
from recipes.stages import plan

ROOT = Path(__file__).parents[2]
WAIT = 120  # seconds


@pytest.fixture
def actor(tiny):
    """`actor(*options)`: what the engine of a GRPO run with these options trains."""

    def built(*options: str) -> dict:
        config = tiny("sft.weight_decay=0.05", "grpo.probe.rows=0", *options)
        stage = plan(config, "grpo")
        shutil.rmtree(stage.path, ignore_errors=True)
        start = stage.inputs["sft"].path / "checkpoint"
        shutil.rmtree(start, ignore_errors=True)
        shutil.copytree(plan(config, "base").path / "checkpoint", start)
        run = stage.open()
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/recipes/verl_actor.py"), str(run.path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=WAIT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return built


def test_a_frozen_vision_tower_gets_no_gradient_and_no_optimizer_state(actor):
    found = actor("model.freeze_vision=true")
    assert found["engine"] == "FrozenVisionEngine"
    assert found["frozen"]
    assert all(".visual." in f".{name}" for name in found["frozen"])
    assert not any(".visual." in f".{name}" for name in found["trained"])
    assert found["optimized"] == sum(found["trained"].values())
    assert set(found["moved"]) <= found["trained"].keys()
    assert len(found["moved"]) > len(found["trained"]) / 2


def test_lora_is_on_the_linear_layers_of_the_language_model_alone(actor):
    found = actor("grpo.lora.rank=4", "grpo.lora.alpha=8")
    assert found["trained"]
    assert all("language_model" in name and "lora_" in name for name in found["trained"])
    assert {name.split(".lora_")[0].split(".")[-1] for name in found["trained"]} == set(
        IDLE["model"]["lora_targets"]
    )
    assert found["optimized"] >= sum(found["trained"].values())
    assert found["moved"]
    assert set(found["moved"]) <= found["trained"].keys()
