"""`launch export`: a folder that loads anywhere, the same at the hub, and nothing that is not whole."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hub_stub import Hub
from tiny_words import TINY

from data_prep.atomic import write_json
from data_prep.errors import UserError
from launch.cli import main
from recipes.export import evaluations_of, source_of, to_folder
from recipes.run_dir import RunDir
from recipes.stages import plan

ROOT = Path(__file__).parents[2]
TOKEN = "hub-token-3f9c1d7be2"


@pytest.fixture(scope="module")
def exported(tiny):
    """(command line, run): a finished SFT of no steps worth mentioning, and one finished evaluation of it."""
    from recipes import sft

    options = ("sft.max_steps=1", "sft.batch_size=8", "model.sft_micro_batch_size=8", "sft.weight_decay=0.03")
    config = tiny(*options, "eval.checkpoint=sft")
    stage = plan(config, "sft")
    shutil.rmtree(stage.path, ignore_errors=True)
    run = stage.open()
    (run.path / "environment.txt").write_text("commit: 0123abc\n")
    sft.run(run)
    evaluation = plan(config, "eval").open()
    about = {"prompt": "imagination_cot", "decoding": "greedy"}
    overall = {"n": 900, "accuracy": 0.794, "low": 0.772, "high": 0.817}
    write_json(evaluation.path / "scores.json", {"overall": overall, "provenance": about})
    evaluation.finish({})
    return ["export", *TINY, f"runs_dir={config.runs_dir}", *options, "checkpoint=sft"], run


@pytest.fixture
def copy(exported, tmp_path) -> RunDir:
    """The run in a place of its own, to be damaged."""
    shutil.copytree(exported[1].path, tmp_path / exported[1].path.name)
    return RunDir(tmp_path / exported[1].path.name)


def test_a_folder_loads_through_transformers_alone(exported, tmp_path, capsys):
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor, GenerationConfig

    words, run = exported
    assert main([*words, f"to={tmp_path / 'out' / 'model'}"]) == 0
    folder = tmp_path / "out/model"
    assert str(folder.name) in capsys.readouterr().out
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    trained = AutoModelForImageTextToText.from_pretrained(run.path / "checkpoint", dtype=torch.float32)
    before, after = trained.state_dict(), model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert hasattr(AutoProcessor.from_pretrained(folder), "image_processor")
    assert GenerationConfig.from_pretrained(folder).eos_token_id == model.generation_config.eos_token_id
    assert {path.suffix for path in folder.iterdir()} <= {".safetensors", ".json", ".jinja", ".txt", ".md"}
    card = (folder / "README.md").read_text()
    assert "| 900 | 79.4% | 77.2% to 81.7% | imagination_cot | greedy |" in card
    assert "| commit | 0123abc |" in card
    assert run.path.name in card


def test_a_place_that_is_taken_is_left_alone(exported, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main([*exported[0], f"to={tmp_path}"]) == 2
    assert "is there already: give another to=" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_dry_run_writes_nothing(exported, tmp_path, capsys):
    assert main([*exported[0], f"to={tmp_path / 'model'}", "dry_run=true"]) == 0
    assert "This was a dry run." in capsys.readouterr().out
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "export wants a place"),
        (["to=out", "checkpoint=endpoint"], "export takes the model of a stage"),
        (["to=out", "checkpoint=grpo"], "run launch grpo with the same options first"),
        (["to=hub:me/model", "export.token_env=NO_SUCH_TOKEN"], "NO_SUCH_TOKEN holds no token for the hub"),
    ],
)
def test_what_cannot_be_exported_is_told(exported, options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*exported[0], *options]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_other_commands_do_not_take_to(exported, capsys):
    assert main(["sft", *exported[0][1:], "to=out"]) == 2
    assert "to= says where launch export copies a model" in capsys.readouterr().err


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])


def pickled(folder: Path) -> None:
    (folder / "complete.json").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def with_code(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "auto_map": {"AutoModel": "modeling.Mine"}}))


HARMS = {
    cut: "is damaged (model.safetensors has ",
    pickled: "has no safetensors (pytorch_model.bin)",
    with_code: "names Python of its own in config.json",
    lambda folder: (folder / "generation_config.json").unlink(): "lacks generation_config.json",
    lambda folder: (folder.parent / "manifest.json").unlink(): "is not finished",
}


@pytest.mark.parametrize("harm", HARMS)
def test_nothing_that_is_not_whole_leaves(copy, harm, tmp_path):
    source_of(copy)
    harm(copy.path / "checkpoint")
    with pytest.raises(UserError) as caught:
        to_folder(copy, [], tmp_path / "out")
    assert HARMS[harm] in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_evaluations_of_another_model_are_not_its_results(exported, tiny):
    _, run = exported
    assert [found.config.eval.checkpoint for found in evaluations_of(run)] == ["sft"]
    other = plan(tiny("sft.max_steps=2", "sft.weight_decay=0.04"), "sft")
    assert evaluations_of(RunDir(other.path)) == []


def push(words: list[str], hub: Hub, folder: Path, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    settings = {
        "HF_ENDPOINT": hub.address,
        "MY_HUB": token,
        "HF_HOME": str(folder),
        "HF_HUB_DISABLE_XET": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "launch", *words, "to=hub:me/model", "export.token_env=MY_HUB"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings}, cwd=folder, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip


def test_the_hub_gets_the_same_files_with_the_token_of_the_environment(exported, tmp_path):
    words, run = exported
    with Hub() as hub:
        done = push(words, hub, tmp_path)
    assert done.returncode == 0, done.stderr
    weights = (run.path / "checkpoint/model.safetensors").read_bytes()
    assert hub.files["model.safetensors"] == weights
    assert b"79.4%" in hub.files["README.md"]
    assert {"config.json", "generation_config.json", "tokenizer.json"} <= hub.files.keys()
    assert hub.private is True
    assert TOKEN in hub.tokens
    assert TOKEN not in done.stdout + done.stderr
    assert not (run.path / ".export").exists()
    assert not any(TOKEN.encode() in path.read_bytes() for path in run.path.rglob("*") if path.is_file())


def test_a_hub_that_refuses_is_quoted_without_the_token(exported, tmp_path):
    with Hub(refuse=True) as hub:
        done = push(exported[0], hub, tmp_path)
    assert done.returncode == 2
    assert "the hub did not take me/model with the token in MY_HUB" in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_hub_that_is_not_there_is_told(exported, tmp_path):
    hub = Hub()
    with hub:
        pass
    done = push(exported[0], hub, tmp_path)
    assert done.returncode == 2
    assert "the hub did not take me/model" in done.stderr
    assert "Traceback" not in done.stderr
