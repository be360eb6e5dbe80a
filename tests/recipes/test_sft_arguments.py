"""`sft.overrides` held against the classes that are installed."""

import ast
import dataclasses
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from data_prep.errors import UserError
from recipes import sft_arguments
from recipes.sft_arguments import IGNORED, OURS, RELIED_ON, RENAMED, choices, fields, values

TRAINER = (Path(find_spec("trl").origin).parent / "trainer" / "sft_trainer.py").read_text(encoding="utf-8")


def test_the_fields_are_those_of_the_installed_class():
    from recipes.sft import SFTConfig  # loads torch, trl and transformers in the right order

    assert set(fields()) == {field.name for field in dataclasses.fields(SFTConfig) if field.init}
    names = sys.modules["transformers.training_args"].OptimizerNames
    assert set(choices()["OptimizerNames"]) == {name.value for name in names}


@pytest.mark.parametrize("key", [*OURS, *RELIED_ON, *IGNORED])
def test_a_refused_key_is_one_that_would_be_taken(key):
    assert key in fields()


@pytest.mark.parametrize("key", sorted(set(RENAMED) - {"warmup_ratio"}))
def test_an_old_name_is_gone(key):
    assert key not in fields()


def test_the_old_warm_up_is_deprecated():
    path = Path(find_spec("transformers").origin).parent / "training_args.py"
    assert "warmup_ratio is deprecated" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "key", ["dataset_num_proc", "shuffle_dataset", "packing_strategy", "truncation_mode"]
)
def test_what_prepares_texts_is_read_nowhere_else(key):
    """TRL leaves `_prepare_dataset` out where rows have pictures. What `__init__` asks of these keys is asked
    with `packing` or of `max_length`, which are refused."""
    assert "or self._is_vision_dataset\n        )" in TRAINER
    trainer = next(
        node
        for node in ast.parse(TRAINER).body
        if isinstance(node, ast.ClassDef) and node.name == "SFTTrainer"
    )
    readers = {
        method.name
        for method in trainer.body
        if isinstance(method, ast.FunctionDef)
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and node.attr == key
    }
    assert readers
    assert readers <= {"__init__", "_prepare_dataset"}


def test_options_of_the_model_are_ignored_where_it_is_loaded_already():
    assert "The `model_init_kwargs` will be ignored." in " ".join(TRAINER.replace('"', "").split())


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("adam_epsilon=1e-6", {"adam_epsilon": 1e-6}),
        ("neftune_noise_alpha=5", {"neftune_noise_alpha": 5}),
        ("neftune_noise_alpha=null", {"neftune_noise_alpha": None}),
        ("optim=adafactor", {"optim": "adafactor"}),
        ("train_sampling_strategy=group_by_length", {"train_sampling_strategy": "group_by_length"}),
        ("+full_determinism=true", {"full_determinism": True}),
        ("lr_scheduler_kwargs={min_lr:1e-6}", {"lr_scheduler_kwargs": {"min_lr": 1e-6}}),
    ],
)
def test_what_is_passed_on(given, wanted):
    assert values([given]) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("adam_epsilon", "key=value"),
        ("adam_epsilon=1,2", "key=value"),
        ("~adam_epsilon", "key=value"),
        ("adam_epsilom=1", "did you mean adam_epsilon?"),
        ("dataloader_num_workers=2.5", "dataloader_num_workers takes int"),
        ("dataloader_num_workers=true", "dataloader_num_workers takes int"),
        ("full_determinism=1", "full_determinism takes bool"),
        ("optim=sgdd", "optim takes one of adamw_torch"),
    ],
)
def test_what_cannot_be_taken(given, words):
    with pytest.raises(UserError, match=r"sft\.overrides") as caught:
        values([given])
    assert words in str(caught.value)


def test_the_trainer_gets_them(tiny, tmp_path):
    from recipes import sft

    config = tiny('sft.overrides=["adam_epsilon=1e-5","dataloader_num_workers=3"]')
    arguments = sft.training_arguments(config, tmp_path, 64)
    assert (arguments.adam_epsilon, arguments.dataloader_num_workers) == (1e-5, 3)


def test_no_overrides_leave_the_run_where_it_was(tiny):
    from recipes.run_dir import decisive
    from recipes.stages import plan

    assert "overrides" not in decisive(plan(tiny(), "sft").config)["sft"]
    assert plan(tiny(), "sft").hash != plan(tiny('sft.overrides=["adam_epsilon=1e-5"]'), "sft").hash


def test_without_trl_the_way_out_is_told(monkeypatch):
    monkeypatch.setattr(sft_arguments, "find_spec", lambda _: None)
    sft_arguments.fields.cache_clear()
    with pytest.raises(UserError, match="pip install 'transformers'"):
        sft_arguments.values(["adam_epsilon=1e-5"])
    sft_arguments.fields.cache_clear()
