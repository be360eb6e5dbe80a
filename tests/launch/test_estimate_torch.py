"""The estimate against torch's own account, on the CPU, of models of 1 to 100 million parameters."""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText

from bench import estimate_gpu
from bench.estimate import activations, measured, states
from bench.estimate_models import SIZES, configuration
from launch.estimate.activations import Adapter, Batch, Numerics
from launch.estimate.geometry import LINEAR, from_config
from launch.estimate.memory import ALL, Trained

FLOAT, BFLOAT = Numerics(4, "sdpa", cuda=False), Numerics(2, "sdpa", cuda=False)
PARTS = (Trained(Adapter(16, 0.1)), Trained(Adapter(8, 0.0, LINEAR[:4])), Trained(vision_frozen=True))
SMALL_TEXT = {
    "vocab_size": 900, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
SMALL = {
    "qwen2_5_vl": {
        "text_config": SMALL_TEXT,
        "vision_config": {
            "depth": 2, "hidden_size": 48, "num_heads": 4, "intermediate_size": 100, "patch_size": 14,
            "out_hidden_size": 64, "fullatt_block_indexes": [1],
        },
    },
    "internvl": {
        "text_config": {**SMALL_TEXT, "model_type": "qwen3", "head_dim": 24},
        "vision_config": {
            "num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 100,
            "image_size": [56, 56], "patch_size": [14, 14], "attention_bias": True, "use_qk_norm": True,
        },
    },
    "qwen3_vl": {
        "text_config": {**SMALL_TEXT, "head_dim": 32, "attention_bias": True},
        "vision_config": {
            "depth": 3, "hidden_size": 48, "num_heads": 4, "intermediate_size": 100, "out_hidden_size": 64,
            "num_position_embeddings": 64, "deepstack_visual_indexes": [0, 2],
        },
    },
}  # fmt: skip


def on_meta(config):
    with torch.device("meta"):
        return AutoModelForImageTextToText.from_config(config)


def counted(model):
    return sum(parameter.numel() for parameter in model.parameters()), len(list(model.parameters()))


@pytest.mark.parametrize("name", list(SIZES))
def test_counts_equal_those_of_the_real_classes(name):
    geometry, config = SIZES[name], configuration(SIZES[name])
    assert counted(on_meta(config)) == (geometry.parameters, geometry.tensors)
    assert 1e6 < geometry.parameters < 2e8
    read = from_config(config.to_dict(), name)
    assert read == geometry


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", list(SMALL))
def test_counts_of_every_family(family, tied):
    config = AutoConfig.for_model(family, **SMALL[family], tie_word_embeddings=tied)
    geometry = from_config(config.to_dict())
    assert counted(on_meta(config)) == (geometry.parameters, geometry.tensors)


@pytest.mark.parametrize("part", [ALL, *PARTS], ids=["all", "lora", "attention", "text"])
def test_parameters_gradients_and_optimizer_are_exact(part):
    found = list(states("1M", part))
    assert sum(one.exact for one in found) == 3
    assert [one.what for one in found if not one.holds] == []


@pytest.mark.parametrize("tokens", [96, 320])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("numerics", [FLOAT, BFLOAT], ids=["float32", "bfloat16"])
def test_activations_are_near_what_torch_keeps(tokens, checkpointing, numerics):
    one = activations("1M", Batch(2, tokens, 1, 64, tokens // 2, False), numerics, checkpointing)
    assert one.holds, one


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_activations_with_a_mask_are_near_what_torch_keeps(attention):
    one = activations("1M", Batch(2, 200, 1, 64, 100, True), Numerics(2, attention, cuda=False), False)
    assert one.holds, one


@pytest.mark.parametrize("part", PARTS, ids=["lora", "attention", "text"])
def test_activations_of_a_part_are_near_what_torch_keeps(part):
    one = activations("1M", Batch(2, 200, 1, 64, 100, False), BFLOAT, False, part)
    assert one.holds, one


@pytest.mark.slow
def test_everything_up_to_a_hundred_million_parameters():
    longest = Batch(2, 512, 1, 64, 256, False)
    large = [activations("100M", longest, BFLOAT, checkpointing) for checkpointing in (False, True)]
    found = [*measured(["1M", "10M"]), *states("100M"), *large]
    assert len(found) > 40
    assert [one for one in found if not one.holds] == []


def test_the_gpu_script_runs_as_far_as_a_cpu_goes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["recipe=imagination_cot", "scale=tiny", "model.sft_micro_batch_size=2"]
    assert estimate_gpu.main(words) == 0
    (line,) = (tmp_path / estimate_gpu.RECORDS).read_text().splitlines()
    record = json.loads(line)
    assert record["estimate"] == pytest.approx(record["peak"], rel=0.2)
    assert "added to" in capsys.readouterr().out


def test_the_gpu_script_says_where_there_is_no_gpu(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert estimate_gpu.main(["recipe=imagination_cot"]) == 2
    assert "nothing is measured" in capsys.readouterr().out
    assert not (tmp_path / estimate_gpu.RECORDS).exists()
