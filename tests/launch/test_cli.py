"""What the words of the command line do, how fast, and what they import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch.cli import COMMANDS, main
from launch.compose import group_choices

ROOT = Path(__file__).parents[2]
HEAVY = (
    "torch",
    "ray",
    "verl",
    "vllm",
    "transformers",
    "pandas",
    "datasets",
    "trl",
    "accelerate",
    "tensordict",
)
TINY = ("recipe=imagination_cot", "scale=tiny", "dry_run=true")
PAPER = ("recipe=structured_cot", "dry_run=true")
RECIPES = group_choices()["recipe"]
STAGES = ("prep", "sft", "grpo", "eval")
SERVERS = ("serve", "parity")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)], ids=" ".join)
def test_help_shows_every_command(words, capsys):
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out and what in out for name, what in COMMANDS.items())


def test_list_shows_the_recipes(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert 'rows "Spatial Imagination"' in out
    assert "launch pipeline recipe=structured_cot" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("list",),
        ("doctor",),
        *((command, *TINY) for command in (*STAGES, *SERVERS, "pipeline", "report")),
        *((command, *PAPER) for command in STAGES),
        ("sft", "recipe=imagination"),
        ("sft", "--cfg", "job", "recipe=imagination_cot"),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(words, tmp_path):
    """In a process of its own, because other tests import torch into this one."""
    script = (
        "import sys\nfrom launch.cli import main\nmain(sys.argv[1:])\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*STAGES, "pipeline", "report"])
def test_a_dry_run_shows_everything_and_writes_nothing(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([command, *TINY]) == 0
    out = capsys.readouterr().out
    assert "group_size: 4" in out
    assert "folder   runs/imagination_cot-tiny/prep-" in out
    assert "-m recipes prep runs/imagination_cot-tiny/prep-" in out
    assert "Nothing stands in the way. This was a dry run." in out
    assert list(tmp_path.iterdir()) == []


def test_what_is_typed_often_has_a_short_form(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (
        ("checkpoint=sft", "engine=openai", "views=depth"),
        ("eval.checkpoint=sft", "eval.engine=openai", "data.views=depth"),
    ):
        main(["eval", "recipe=imagination_cot", "data.root=nowhere", *words, "dry_run=true"])
    told = capsys.readouterr()
    short, full = told.out[: len(told.out) // 2], told.out[len(told.out) // 2 :]
    assert short == full
    assert "eval-sft" in short
    assert "views: depth" in short


def test_a_dry_run_of_grpo_shows_verls_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["grpo", *TINY]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "verl.trainer.main_ppo" in line)
    assert "VERL_USE_EXTERNAL_MODULES=recipes.verl_cpu" in line
    for word in ("rollout.n=4", "actor.kl_loss_type=low_var_kl", "data.train_batch_size=64"):
        assert word in line


def test_a_dry_run_of_a_pipeline_shows_the_stages_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", *TINY]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" (to run)")]
    assert [head.removesuffix(" (to run)") for head in heads] == [
        "prep", "base", "eval of base", "sft", "eval of sft",
        "grpo", "eval of grpo", "eval of grpo on blank pictures",
    ]  # fmt: skip


def test_a_dry_run_tells_what_would_stop_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.machine.gpus", list)
    assert main(["sft", *PAPER]) == 0
    out = capsys.readouterr().out
    assert "- data.root is not set" in out
    assert "It could not start here." in out


@pytest.mark.parametrize("command", STAGES)
def test_hydra_shows_the_keys_of_a_command(command, capfd):
    assert main([command, "--help"]) == 0
    out = capfd.readouterr().out
    assert f"launch {command}: " in out
    assert f"recipe: {', '.join(RECIPES)}" in out
    assert "kl_coef: 0.01" in out


def test_hydra_shows_the_composed_configuration(capfd):
    assert main(["sft", "--cfg", "job", "recipe=structured_cot", "sft.lr=1e-4"]) == 0
    out = capfd.readouterr().out
    assert "recipe_name: structured_cot" in out
    assert "lr: 0.0001" in out
    assert main(["sft", "--cfg", "job", "recipe=structured_cot", "sft.lrr=1e-4"]) == 2
    assert "did you mean sft.lr?" in capfd.readouterr().err


def test_a_folder_of_the_users_own_recipes(tmp_path, capfd):
    (tmp_path / "recipe").mkdir()
    (tmp_path / "recipe" / "mine.yaml").write_text("# @package _global_\nrecipe_name: mine\n")
    for words in (["--config-dir", str(tmp_path)], [f"--config-dir={tmp_path}"]):
        assert main(["sft", *words, "--cfg", "job", "recipe=mine"]) == 0
        assert "recipe_name: mine" in capfd.readouterr().out
        assert main(["sft", "recipe=mine", "scale=tiny", "dry_run=true", *words]) == 0
        assert "mine-tiny/sft-" in capfd.readouterr().out
    assert main(["sft", "recipe=mine", "--config-dir"]) == 2
    assert "wants a folder" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("launch ", " ".join(COMMANDS)),
        ("launch p", "prep parity pipeline"),
        ("launch sft recipe=", " ".join(f"recipe={name}" for name in RECIPES)),
        ("launch sft recipe=imagination_cot sft.l", "sft.lora. sft.lr="),
        ("launch sft scale=t", "scale=tiny"),
    ],
)
def test_the_tab_key_completes(line, expected, monkeypatch, capfd):
    monkeypatch.setenv("COMP_LINE", line)
    assert main(["-sc", "query=bash"]) == 0
    assert capfd.readouterr().out.strip() == expected


def test_the_documented_line_installs_completion(capfd):
    assert main(["-sc", "install=bash"]) == 0
    assert "complete -o nospace" in capfd.readouterr().out


def test_doctor_tells_what_the_machine_can_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.doctor.gpus", list)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "GPUs     none" in out
    assert "scale=paper  recipe=structured_cot: no, there is no NVIDIA GPU (the paper: 8 x A100 80 GB)" in out
