"""Every recipe at every scale composes; scale=tiny shrinks the run and changes nothing else."""

import ast
from dataclasses import asdict
from itertools import product
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError

from data_prep.errors import UserError
from data_prep.monosr.filter import Thresholds
from launch.catalogue import read_head, recipes
from launch.compose import compose, for_recipe, group_choices, is_unset, leaf_keys
from recipes.stages import plan

CHOICES = group_choices()
ROOT = Path(__file__).parents[2]
PAPER = ("data.root=/data", "teacher.path=/teacher.jsonl")


def test_the_tree_holds_what_is_documented():
    assert CHOICES["recipe"] == [
        "imagination_cot", "imagination_cot_gated", "imagination_cot_shuffled", "monosr", "monosr_grpo",
        "structured_cot",
    ]  # fmt: skip
    assert CHOICES["scale"] == ["paper", "tiny"]


@pytest.mark.parametrize(("recipe", "scale"), list(product(CHOICES["recipe"], CHOICES["scale"])))
def test_every_recipe_composes_at_every_scale(recipe, scale):
    options = PAPER if scale == "paper" else ()
    config = compose([f"recipe={recipe}", f"scale={scale}", *options])
    assert (config.recipe_name, config.scale_name) == (recipe, scale)
    assert [key for key in leaf_keys(config) if is_unset(config, key)] == []
    chain = [stage.name for stage in plan(config, "eval").with_inputs()]
    assert chain == ["prep", *(["base"] if scale == "tiny" else []), "sft", "grpo", "eval"]
    with pytest.raises(ConfigAttributeError):
        config.sft.lrr = 1.0


@pytest.mark.parametrize("recipe", CHOICES["recipe"])
def test_scale_tiny_changes_only_model_data_and_steps(recipe):
    paper, tiny = (compose([f"recipe={recipe}", f"scale={scale}"]) for scale in ("paper", "tiny"))
    before, after = (
        {key: None if is_unset(c, key) else OmegaConf.select(c, key) for key in leaf_keys(c)}
        for c in (paper, tiny)
    )
    changed = {key for key in {*before, *after} if before.get(key, "absent") != after.get(key, "absent")}
    rest = {key for key in changed if not key.startswith(("model.", "data.", "teacher."))}
    steps = {"sft.max_steps", "grpo.max_steps", *({"sft.warmup_steps"} & rest)}
    assert rest == {"scale_name", *steps}
    read_from_a_file = {"teacher.kind"} if paper.teacher.kind == "file" else set()
    assert {"model.path", "data.synthetic"} | read_from_a_file <= changed


def test_scale_tiny_fits_the_recipes_family():
    """scale=tiny takes another release for MonoSR, and a model of the same size, pre-trained otherwise."""
    families = {
        recipe: compose([f"recipe={recipe}", "scale=tiny"]) for recipe in ("imagination_cot", "monosr")
    }
    assert {name: config.data.benchmark for name, config in families.items()} == {
        "imagination_cot": "cvsbench", "monosr": "monosr",
    }  # fmt: skip
    one, other = families.values()
    assert (one.model.build.pretraining.world, other.model.build.pretraining.world) == ("cvsbench", "monosr")
    for key in ("max_prompt_tokens", "sft_micro_batch_size", "grpo_micro_batch_size", "lr_scale"):
        one.model[key] = other.model[key]
    for key in ("single_digits", "rope_theta", "pretraining"):
        one.model.build[key] = other.model.build[key]
    assert (one.model, one.grpo, one.scale_name) == (other.model, other.grpo, other.scale_name)
    assert for_recipe(["recipe=monosr_grpo", "scale=tiny", "sft.lr=1"]) == [
        "recipe=monosr_grpo", "scale=tiny/monosr", "sft.lr=1",
    ]  # fmt: skip
    for words in (
        ["recipe=monosr", "scale=paper"],
        ["recipe=imagination_cot", "scale=tiny"],
        ["recipe=monosr"],
    ):
        assert for_recipe(words) == words


def test_monosrs_values():
    """MonoSR, section 3.1: the limits that the paper prints."""
    limits = compose(["recipe=monosr"]).data.observability
    assert {key: limits[key] for key in PRINTED} == PRINTED
    assert limits == asdict(Thresholds())


PRINTED = {
    "max_truncation": 0.4, "max_occlusion": 0.6, "min_area": 400, "max_size": 20, "max_discrepancy": 0.3,
    "min_objects": 3, "max_objects": 40, "object_centric": 1,
}  # fmt: skip


def test_the_papers_values():
    """CVSBench 4.1 and 0.B."""
    config = compose(["recipe=imagination_cot"])
    expected = {
        "model.path": "Qwen/Qwen3-VL-4B-Instruct",
        "sft.lr": 3e-5,
        "grpo.lr": 1e-6,
        "grpo.group_size": 4,
        "grpo.kl_coef": 0.01,
        "grpo.kl_type": "low_var_kl",
        "grpo.batch_size": 64,
        "grpo.mini_batch_size": 16,
        "model.grpo_micro_batch_size": 1,
        "grpo.temperature": 0.7,
        "reward.format_weight": 0.1,
        "eval.temperature": 0.01,
        "eval.max_new_tokens": 512,
        "cluster.gpus": 8,
    }
    assert {key: OmegaConf.select(config, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("recipe", "option"),
    [
        ("imagination_cot_gated", "reward.gate_format=true"),
        ("imagination_cot_shuffled", "data.shuffle_options=true"),
    ],
)
def test_a_recipe_to_compare_differs_in_one_key(recipe, option):
    """So that the same option on the base recipe finds the stages that are made already."""
    compared = compose([f"recipe={recipe}", "scale=tiny"])
    base = compose(["recipe=imagination_cot", "scale=tiny", option])
    assert compared.recipe_name == recipe
    compared.recipe_name = base.recipe_name
    assert compared == base
    assert compose(["recipe=imagination_cot", "scale=tiny"]) != base


@pytest.mark.parametrize("name", CHOICES["recipe"])
def test_a_recipe_file_says_what_it_is(name):
    head = recipes()[name]
    assert f"recipe={name}" in head.command
    program, command, *words = head.command.split()
    assert (program, command) in {("launch", "pipeline"), ("launch", "sft"), ("launch", "grpo")}
    assert compose(words).recipe_name == name


def test_a_recipe_file_without_a_head_is_refused(tmp_path):
    path = tmp_path / "bare.yaml"
    path.write_text("# What: something\nrecipe_name: bare\n")
    with pytest.raises(UserError, match="# Command:, # Paper:, # Hardware:, # Hours:"):
        read_head(path)


def test_a_tree_of_the_users_own_is_searched(tmp_path):
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package _global_\nrecipe_name: mine\nsft:\n  epochs: 5\n")
    config = compose(["recipe=mine", "scale=tiny"], tmp_path)
    assert (config.recipe_name, config.sft.epochs, config.model.device) == ("mine", 5, "cpu")
    with pytest.raises(UserError, match="there is no recipe 'mine'"):
        compose(["recipe=mine"])


@pytest.mark.parametrize("cluster", CHOICES["cluster"])
def test_no_key_is_dead(cluster):
    """A key that nothing reads would promise what it does not do."""
    composed = [
        compose([f"recipe={recipe}", "scale=tiny", f"cluster={cluster}"])
        for recipe in ("imagination_cot", "monosr")
    ]
    used: set[str] = set()
    for room in ("launch", "recipes", "data_prep", "rewards"):
        for path in (ROOT / room).rglob("*.py"):
            used |= _names(ast.parse(path.read_text(encoding="utf-8")))
    # The variables of `cluster.nccl`, and what stands under options, are handed on as they are.
    whole = (".nccl.", ".options.")
    keys = [key for config in composed for key in leaf_keys(config) if not any(w in key for w in whole)]
    assert len(keys) > 60
    assert [key for key in keys if key.split(".")[-1] not in used] == []


def _names(tree: ast.AST) -> set[str]:
    """Attributes, subscripts, keyword and parameter names: the ways in which code reads a key."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                names.add(name)
    return names


def test_a_changed_key_moves_the_stages_that_read_it_and_no_other():
    def folders(*options: str) -> dict[str, str]:
        config = compose(["recipe=imagination_cot", "scale=tiny", *options])
        return {stage.name: stage.hash for stage in plan(config, "eval").with_inputs()}

    before = folders()
    cases = {
        "sft.lr=1e-5": {"sft", "grpo", "eval"},
        "eval.max_new_tokens=64": {"eval"},
        "eval.engine=openai": {"eval"},
        "eval.endpoint.model=other": {"eval"},
        "eval.endpoint.base_url=http://elsewhere/v1": set(),
        "eval.endpoint.concurrency=8": set(),
        "eval.serve=true": set(),
        "eval.allow_failures=true": set(),
        "vllm.port=8001": set(),
        "grpo.kl_coef=0.1": {"grpo", "eval"},
        "data.synthetic.seed=8": {"prep", "base", "sft", "grpo", "eval"},
        "sft.save_every=7": set(),
        "model.eval_batch_size=7": set(),
        "logger=wandb": set(),
        "data.shuffle_options=true": {"prep", "base", "sft", "grpo", "eval"},
        "reward.tolerance=0.05": {"grpo", "eval"},
        "grpo.probe.max_flat_share=1": set(),
        "grpo.monitors.stop_on=[letter_collapse]": set(),
        "grpo.monitors.not_finite=inf": set(),
        "cluster.gpus=2": set(),
        "cluster=slurm": set(),
        "sft.lora.dropout=0": set(),  # the file has 0.0
    }
    for option, moved in cases.items():
        after = folders(option)
        assert {name for name in before if before[name] != after[name]} == moved, option


def test_a_changed_key_of_monosr_moves_its_prep():
    def prep(*options: str) -> str:
        return plan(compose(["recipe=monosr", "scale=tiny", *options]), "prep").hash

    moved = [
        "data.observability.min_area=300", "data.questions.pixels=30", "data.sources=[KITTI]", "data.aux=si",
        "data.rl_half=true", "data.test_splits=[val]", "data.max_train_questions=9",
        "data.synthetic.side=200", "seed=1",
    ]  # fmt: skip
    assert len({prep(), *(prep(option) for option in moved)}) == 1 + len(moved)
    assert prep("sft.lr=1") == prep()
