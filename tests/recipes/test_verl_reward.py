"""The reward manager: what is noted of an answer, whoever pays."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

import recipes.torch_setup  # noqa: F401  before transformers
from data_prep.atomic import read_jsonl
from recipes.verl_reward import RecordingRewardManager
from rewards import compute_score

TEXT = "A road. <answer> B </answer>"
ROW = {"id": "row0", "task": "g2s", "category": "facade", "answer_type": "choice"}


class Tokenizer:
    """One token a text; 0 ends it."""

    eos_token_id = 0

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return TEXT if skip_special_tokens else f"{TEXT}<end>"


def item(gold: str, ids: list[int], asked: dict[str, Any]) -> SimpleNamespace:
    """A rollout of `ids` on a prompt of one token, as verl hands it over."""
    fields = {
        "extra_info": {**ROW, "options": {"A": "seen", "B": "not seen"}, **asked},
        "data_source": "cvsbench/fov/g2s",
        "reward_model": {"ground_truth": gold},
        "global_steps": 3, "index": np.int64(7), "session_id": 1,
    }  # fmt: skip
    mask = torch.ones(1 + len(ids), dtype=torch.long)
    return SimpleNamespace(
        non_tensor_batch=fields, batch={"responses": torch.tensor(ids), "attention_mask": mask}
    )


def scored(folder, pays, gold="B", ids=(5, 0), asked=None, **options):
    """What verl gets, and the line that is noted, for an answer that `pays` scores."""
    config = OmegaConf.create(
        {
            "trainer": {"answers_dir": str(folder)},
            "data": {"max_response_length": 2},
            "reward": {"custom_reward_function": {"reward_kwargs": options}},
        }
    )
    manager = RecordingRewardManager(config, Tokenizer(), pays)
    given = asyncio.run(manager.run_single([item(gold, list(ids), asked or {})]))
    (noted,) = [record for path in folder.glob("*.jsonl") for record in read_jsonl(path)]
    return given, noted


def test_our_reward_is_noted_with_the_row(tmp_path):
    given, noted = scored(tmp_path, compute_score)
    assert given["reward_score"] == 1.0
    assert noted == {
        "step": 3, "index": 7, "session": 1, **ROW, "gold": "B", "completion": TEXT, "tokens": 2,
        "truncated": False, "score": 1.0, "accuracy": 1.0, "format": 1.0, "parsed": "B", "reason": "",
        "out_of_range": 0,
    }  # fmt: skip
    assert given["reward_extra_info"].keys() == {
        "score", "accuracy", "format", "parsed", "reason", "out_of_range",
    }  # fmt: skip


@pytest.mark.parametrize("pays", [lambda **asked: 0.25, lambda **asked: {"score": 0.25, "accuracy": 1.0}])
def test_another_reward_pays_and_ours_says_what_is_right(tmp_path, pays):
    given, noted = scored(tmp_path, pays, gold="A")
    assert (given["reward_score"], noted["score"]) == (0.25, 0.25)
    assert (noted["accuracy"], noted["format"], noted["parsed"]) == (0.0, 1.0, "B")


def test_the_options_of_the_run_decide_what_is_right(tmp_path):
    layout = {"response_format": "imagination_cot"}
    assert scored(tmp_path / "answer", compute_score, asked=layout)[1]["format"] == 1.0
    assert scored(tmp_path / "full", compute_score, asked=layout, format_mode="full")[1]["format"] == 0.0


def test_a_text_without_its_end_is_truncated(tmp_path):
    assert scored(tmp_path, compute_score, ids=(5, 6))[1]["truncated"]


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_refused_by_row(tmp_path, score):
    with pytest.raises(ValueError, match=r"answer to row0 is (nan|inf), which is no finite number"):
        scored(tmp_path, lambda **asked: score)
