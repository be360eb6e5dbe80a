"""What the preflight says and stops nothing: updates, lengths, models; and how much disk is asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from healthy import Healthy, pretend, write_model

from launch.cli import main
from launch.preflight import disk_need

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch)
    return Healthy(tmp_path)


def told(world: Healthy, words: str, *given: str, command: str = "grpo") -> str:
    notes = world.notes(command, *given)
    lines = [line for line in notes if words in line]
    assert len(lines) == 1, notes
    return lines[0]


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ((), "64 rows an update = 2 (micro-batch) x 4 (accumulated) x 8 (GPUs)"),
        (("cluster.gpus=1",), "64 rows an update = 2 (micro-batch) x 32 (accumulated) x 1 (GPUs)"),
        (("sft.batch_size=8",), "8 rows an update = 1 (micro-batch) x 1 (accumulated) x 8 (GPUs)"),
    ],
)
def test_the_shape_of_an_update_of_sft(world, given, shape):
    assert shape in told(world, "SFT: ", *given)


def test_sharding_over_one_gpu_is_told_to_do_nothing(world):
    assert "does nothing on one" in told(world, "sft.shard=zero2", "cluster.gpus=1")
    assert not [line for line in world.notes("grpo") if "sft.shard" in line]


def test_updates_are_counted_once_the_rows_are_known(world):
    assert "known once prep is finished" in told(world, "SFT: ")
    assert "known once prep is finished" in told(world, "GRPO: ")
    assert "compared with the model's budgets once prep is finished" in told(world, "Lengths")
    world.prepare()
    assert told(world, "SFT: ").endswith("70 rows make 2 updates an epoch, 4 in all.")
    assert told(world, "SFT: ", "sft.max_steps=3").endswith("of which sft.max_steps makes 3.")
    grpo = told(world, "GRPO: ", "grpo.epochs=3", "grpo.tensor_parallel=2")
    assert "64 prompts x 4 answers = 256, in 4 updates of 64 answers = 1 (micro-batch) x 8" in grpo
    assert "4 rollout engines of 2" in grpo
    assert "130 rows make 2 steps an epoch (2 rows of each are left out), so 6 steps and 24 optimizer" in grpo
    assert "120 rows make 1 steps" in told(world, "GRPO: ", "grpo.validation_rows=10")


def test_updates_are_those_that_the_stages_make(world):
    from recipes import verl_overrides

    world.prepare()
    config, _ = world.planned("grpo", "grpo.epochs=3")
    steps = verl_overrides.total_steps(config, 130)
    assert f"so {steps} steps" in told(world, "GRPO: ", "grpo.epochs=3")


def test_lengths_stand_beside_their_budgets(world):
    world.prepare(words=40)
    assert "longest 41 of 512 tokens" in told(world, "SFT reasoning")
    assert "of 2048 tokens" in told(world, "RL prompts")
    cut = told(world, "eval.max_new_tokens=30", "eval.max_new_tokens=30", command="pipeline")
    assert "41 tokens at p95" in cut


def test_a_few_long_texts_are_named_and_stop_nothing(world):
    world.prepare(words=40)
    path = world.prep / "rows/sft.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first.replace("word", " ".join(["word"] * 20)), *rest]) + "\n")
    assert "1 are longer: cvsbench/fov/g2s/sft.0 (801 tokens)" in told(world, "SFT reasoning")
    assert world.findings("grpo") == []


def test_without_the_tokenizer_lengths_are_estimated_and_refuse_nothing(world):
    world.prepare()
    (world.model / "tokenizer.json").unlink()
    assert "taken for four characters" in told(world, "RL prompts")
    assert world.findings("grpo", "model.max_prompt_tokens=200") == []


def test_weights_of_another_type_and_models_to_fetch_are_told(world):
    assert "holds weights in bfloat16, and they are loaded in model.dtype=float32" in told(
        world, "model.dtype", "model.dtype=float32"
    )
    assert "about 9 GB are fetched from the hub" in told(
        world, "not in this machine's cache", "model.path=no/such"
    )


def test_a_start_tells_them_and_a_broken_one_tells_nothing(world, capsys, monkeypatch):
    monkeypatch.setattr("launch.pipeline.run_stage", lambda *_: 7)
    assert main(["sft", *world.given]) == 7
    assert "note: SFT: 64 rows an update" in capsys.readouterr().out
    assert world.notes("sft", "sft.batch_size=60") == []
    assert main(["sft", *world.given, "dry_run=true"]) == 0
    assert "# Worth knowing\n\n- SFT: 64 rows" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_disk_is_asked_for_by_what_is_kept(world, name):
    def need(*given: str) -> float:
        config, stages = world.planned(name, *given)
        return disk_need(config, stages[-1])

    kept = [need(f"{name}.keep_checkpoints={count}") for count in (1, 2, 3)]
    assert kept[2] - kept[1] == pytest.approx(kept[1] - kept[0])
    assert kept[1] > kept[0]
    assert need(f"{name}.keep_checkpoints=1", f"{name}.validation_rows=9") == pytest.approx(kept[1])
    assert need(f"{name}.lora.rank=8") < need()


def test_the_preflight_of_prepared_rows_imports_nothing_heavy(world):
    world.prepare()
    world.finish("sft")
    heavy = ("torch", "transformers", "verl", "ray", "vllm", "trl", "accelerate", "pandas", "datasets")
    code = (
        "import sys\nfrom launch.cli import main\nstatus = main(sys.argv[1:])\n"
        f"found = [name for name in {heavy!r} if name in sys.modules]\n"
        "sys.exit(f'imported {found}' if found else status)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["grpo", *world.given, "model.device=cpu", "dry_run=true", "grpo.validation_rows=10"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "RL prompts: p50" in done.stdout


def test_a_folder_that_is_fetched_is_looked_at_in_the_cache(world, tmp_path, monkeypatch):
    folder = write_model(tmp_path / "hub/snapshots/1", model_type="qwen2_5_vl")
    monkeypatch.setattr(
        "launch.preflight.models.snapshot", lambda name: folder if name == "a/model" else None
    )
    found = world.findings("sft", "model.path=a/model")
    assert len(found) == 1
    assert "model.path=a/model is a qwen2_5_vl" in found[0]


def test_a_login_node_needs_no_gpu(world, monkeypatch):
    pretend(monkeypatch, gpus=0)
    assert [line for line in world.findings("sft") if "no NVIDIA GPU" in line]
    assert not [line for line in world.findings("sft", "cluster=slurm") if "GPU" in line]
