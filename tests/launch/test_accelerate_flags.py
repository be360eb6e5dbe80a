"""The flags that `sft.shard` becomes, held against those that the installed accelerate reads."""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from launch.compose import compose
from launch.local import sharding
from launch.values import CHOICES

LAUNCH = Path(find_spec("accelerate").origin).parent / "commands" / "launch.py"
GIVEN = ["recipe=imagination_cot", "data.root=/data", "teacher.path=/teacher.jsonl"]
# Flags of one way to shard that the others would ignore.
OWN = {
    "deepspeed": ("--zero", "--use_deepspeed", "--deepspeed", "--gradient_clipping"),
    "fsdp": ("--fsdp", "--use_fsdp"),
}


@pytest.fixture(scope="module")
def known() -> set[str]:
    words = {
        node.value
        for node in ast.walk(ast.parse(LAUNCH.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("--")
    }
    assert len(words) > 100
    return words


@pytest.mark.parametrize("shard", CHOICES["sft.shard"])
def test_every_flag_is_one_that_accelerate_has(shard, known):
    config = OmegaConf.to_container(compose([*GIVEN, f"sft.shard={shard}"]))
    flags = [word for word in sharding(config) if word.startswith("--")]
    assert flags
    assert set(flags) <= known
    others = [heads for way, heads in OWN.items() if way != ("fsdp" if shard == "fsdp" else "deepspeed")]
    assert not [flag for flag in flags for heads in others if flag.startswith(heads)]
