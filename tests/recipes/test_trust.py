"""Code and pickles that a checkpoint brings along do not run unless they are asked for."""

import ast
import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import recipes.torch_setup  # noqa: F401  before transformers
from data_prep.errors import UserError
from recipes import serve
from recipes.stages import plan
from recipes.trust import refuse_remote_code, remote_code

ROOT = Path(__file__).parents[2]
ROOMS = ("configs", "data_prep", "launch", "recipes", "rewards")


@pytest.fixture
def with_code(tiny, tmp_path):
    """A checkpoint whose configuration names a class in a Python file beside it, which leaves a trace."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(plan(tiny(), "base").path / "checkpoint", folder)
    trace = tmp_path / "ran"
    (folder / "modeling.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    for name, auto in (
        ("config.json", {"AutoConfig": "modeling.Mine", "AutoModelForImageTextToText": "modeling.Mine"}),
        ("processor_config.json", {"AutoProcessor": "modeling.Mine"}),
    ):
        path = folder / name
        stored = json.loads(path.read_text()) | {"auto_map": auto, "model_type": "mine"}
        path.write_text(json.dumps(stored))
    return folder, trace


def test_code_of_a_checkpoint_does_not_run(with_code, tiny):
    from recipes.backbone import load_model, load_processor

    folder, trace = with_code
    config = tiny().model
    with pytest.raises(UserError, match=r"model\.trust_remote_code=true allows it"):
        load_model(str(folder), config)
    load_processor(str(folder), config)  # transformers has a class of its own for it
    assert not trace.exists()
    # The same files run where they are trusted: the refusal is not for another reason.
    trusting = OmegaConf.merge(config, {"trust_remote_code": True})
    with pytest.raises(AttributeError, match="Mine"):
        load_model(str(folder), trusting)
    assert trace.exists()


def test_grpo_refuses_a_start_that_brings_code(with_code, tiny):
    """verl's reward workers would run it."""
    folder, _ = with_code
    assert remote_code(str(folder)) == ["config.json", "processor_config.json"]
    with pytest.raises(UserError, match=r"named in config\.json, processor_config\.json"):
        refuse_remote_code(str(folder), tiny().model)
    refuse_remote_code(str(folder), tiny("model.trust_remote_code=true").model)
    refuse_remote_code(str(plan(tiny(), "base").path / "checkpoint"), tiny().model)


def test_vllm_is_told_only_where_it_is_asked_for(tiny):
    assert "--trust-remote-code" not in serve.command(tiny(), "checkpoint")
    assert "--trust-remote-code" in serve.command(tiny("model.trust_remote_code=true"), "checkpoint")


def test_nothing_in_the_source_trusts_code_or_pickles_by_itself():
    """Every load says what it trusts; none says true."""
    loads = 0
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            for name in ("trust_remote_code", "allow_pickle"):
                value = given.get(name)
                assert not (isinstance(value, ast.Constant) and value.value), f"{path}:{node.lineno}"
            called = ast.unparse(node.func)
            if called.endswith("from_pretrained") and "Peft" not in called:
                loads += 1
                assert "trust_remote_code" in given, f"{path}:{node.lineno} does not say what it trusts"
            assert called not in ("torch.load", "pickle.load", "pickle.loads"), f"{path}:{node.lineno}"
    assert loads >= 3


def test_every_model_of_the_tree_is_untrusted():
    for path in (ROOT / "configs").rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert "trust_remote_code: true" not in text, path


def test_a_pickled_checkpoint_is_read_as_tensors_alone(tiny, tmp_path):
    """transformers' own fallback for weights that are no safetensors; a pickle that would run is refused."""
    import os
    import pickle

    import torch

    from recipes.backbone import load_model

    class Runs:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    folder = tmp_path / "checkpoint"
    shutil.copytree(plan(tiny(), "base").path / "checkpoint", folder)
    (folder / "complete.json").unlink()
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Runs()}, folder / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError):
        load_model(str(folder), tiny().model)
    assert not (tmp_path / "ran").exists()
