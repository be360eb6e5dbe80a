"""Our configuration in verl's words, held against verl's own configuration tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from launch.compose import compose, group_choices
from recipes import verl_overrides
from recipes.verl_schema import compose_verl

ROWS = 640


def configuration(*overrides: str) -> DictConfig:
    return compose(["recipe=imagination_cot", "data.root=/data", "teacher.path=/teacher.jsonl", *overrides])


def generated(config: DictConfig, rows: int = ROWS) -> list[str]:
    prep, out = Path("/runs/prep"), Path("/runs/grpo/verl")
    return verl_overrides.overrides(config, prep, "/runs/sft/checkpoint", out, rows)


@pytest.mark.parametrize("recipe", group_choices()["recipe"])
@pytest.mark.parametrize("scale", ["paper", "tiny"])
def test_every_recipe_composes_with_verls_tree(recipe, scale):
    verl = compose_verl(generated(configuration(f"recipe={recipe}", f"scale={scale}")))
    assert verl.actor_rollout_ref.model.path == "/runs/sft/checkpoint"
    assert verl.reward.custom_reward_function.name == "compute_score"
    assert Path(verl.reward.custom_reward_function.path).is_file()


def test_the_papers_values():
    """CVSBench 0.B.4 to 0.B.6."""
    verl = compose_verl(generated(configuration()))
    actor, rollout = verl.actor_rollout_ref.actor, verl.actor_rollout_ref.rollout
    found = {
        "estimator": verl.algorithm.adv_estimator, "kl in reward": verl.algorithm.use_kl_in_reward,
        "kl in loss": actor.use_kl_loss, "kl": actor.kl_loss_coef, "kl type": actor.kl_loss_type,
        "lr": actor.optim.lr, "batch": verl.data.train_batch_size, "mini": actor.ppo_mini_batch_size,
        "micro": actor.ppo_micro_batch_size_per_gpu, "group": rollout.n, "temperature": rollout.temperature,
        "engine": rollout.name, "gpus": verl.trainer.n_gpus_per_node,
        "lambda": verl.reward.custom_reward_function.reward_kwargs.format_weight,
    }  # fmt: skip
    assert found == {
        "estimator": "grpo", "kl in reward": False, "kl in loss": True, "kl": 0.01, "kl type": "low_var_kl",
        "lr": 1e-6, "batch": 64, "mini": 16, "micro": 1, "group": 4, "temperature": 0.7,
        "engine": "vllm", "gpus": 8, "lambda": 0.1,
    }  # fmt: skip


def test_the_reward_is_paid_as_configured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = configuration("reward.gate_format=true", "reward.tolerance=0.05", "reward.path=mine.py")
    function = compose_verl(generated(given)).reward.custom_reward_function
    assert function.path == str(tmp_path / "mine.py")  # verl runs in another folder
    assert dict(function.reward_kwargs) == {
        "format_weight": 0.1, "format_mode": "answer", "gate_format": True, "tolerance": 0.05,
        "iou_threshold": None,
    }  # fmt: skip


def test_the_cpu_computes_in_float32_through_our_platform():
    config = configuration("scale=tiny")
    verl = compose_verl(generated(config))
    for role in (verl.actor_rollout_ref.actor, verl.actor_rollout_ref.ref):
        assert role.fsdp_config.dtype == "float32"
        assert set(role.fsdp_config.mixed_precision.values()) == {"fp32"}
        assert role.strategy == "fsdp2"
    assert verl.actor_rollout_ref.rollout.name == "hf_cpu"
    environment = verl_overrides.environment(config, Path("verl"))
    assert environment["VERL_PLATFORM"] == "cpu"
    assert environment["VERL_USE_EXTERNAL_MODULES"] == "recipes.verl_cpu"
    assert Path(environment["VERL_FILE_LOGGER_PATH"]).is_absolute()
    assert "VERL_PLATFORM" not in verl_overrides.environment(configuration(), Path("verl"))


def test_the_learning_rate_is_scaled_by_the_model():
    config = configuration("scale=tiny", "grpo.lr=2e-6", "model.lr_scale.grpo=50")
    assert compose_verl(generated(config)).actor_rollout_ref.actor.optim.lr == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("given", "rows", "steps", "epochs"),
    [
        (["grpo.epochs=1"], 4392, 68, 1),
        (["grpo.epochs=2"], 640, 20, 2),
        (["grpo.max_steps=25"], 640, 25, 3),
        (["grpo.max_steps=3"], 640, 3, 1),
    ],
)
def test_steps_and_epochs(given, rows, steps, epochs):
    verl = compose_verl(generated(configuration(*given), rows))
    assert (verl.trainer.total_training_steps, verl.trainer.total_epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("actor_rollout_ref.actor.freeze_vision_tower=true", ["ignores", "model.freeze_vision"]),
        ("custom_reward_function.path=/x.py", ["ignores", "reward.custom_reward_function"]),
        ("reward_model.reward_manager=dapo", ["ignores", "reward.reward_manager"]),
        ("sandbox_fusion.url=http://x", ["ignores", "reward.sandbox_fusion"]),
        ("actor_rollout_ref.actor.optim.lr=1e-5", ["grpo.lr"]),
        ("actor_rollout_ref.rollout.n=8", ["grpo.group_size"]),
        ("++data.seed=3", ["seed"]),
        ("data.train_files=/x.parquet", ["prepared set"]),
        ("data.filter_overlong_prompts=true", ["stops the run"]),
        ("trainer.test_freq=5", ["grpo.validation_rows"]),
        ("reward.custom_reward_function.reward_kwargs.format_weight=0.5", ["reward.*"]),
        ("actor_rollout_ref.actor.clip_ratoi=0.3", ["did you mean actor_rollout_ref.actor.clip_ratio?"]),
        ("+data.clip_ratio=0.3", ["has no key data.clip_ratio"]),
        ("+clip_ratio=0.3", ["has no key clip_ratio"]),
        ("actor_rollout_ref.actor.clip_ratio", ["key=value"]),
        ("actor_rollout_ref.actor.clip_ratio=[1", ["key=value"]),
    ],
)  # fmt: skip
def test_overrides_that_cannot_be_taken(given, words):
    config = configuration()
    config.grpo.overrides = [given]
    with pytest.raises(UserError) as caught:
        generated(config)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "actor_rollout_ref.actor.clip_ratio_high=0.28",
        "actor_rollout_ref.actor.shuffle=true",
        "actor_rollout_ref.rollout.max_num_batched_tokens=16384",
        "+actor_rollout_ref.rollout.engine_kwargs.vllm.disable_mm_preprocessor_cache=true",
        "algorithm.norm_adv_by_std_in_grpo=false",
    ],
)
def test_overrides_that_are_passed_on_last(given):
    config = configuration()
    config.grpo.overrides = [given]
    assert generated(config)[-1] == given


@pytest.mark.parametrize(
    ("given", "rows", "words"),
    [
        (["model.family=internvl"], ROWS, ["internvl", "launch sft"]),
        ([], 63, ["63 rows", "grpo.batch_size=64"]),
        (["grpo.mini_batch_size=1"], ROWS, ["4 samples", "8 devices"]),
        (["model.grpo_micro_batch_size=3"], ROWS, ["64 samples", "model.grpo_micro_batch_size"]),
    ],
)
def test_configurations_that_cannot_be_trained(given, rows, words):
    with pytest.raises(UserError) as caught:
        generated(configuration(*given), rows)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_adapters_are_merged_for_the_rollout_and_spare_the_vision_tower():
    verl = compose_verl(generated(configuration("grpo.lora.rank=8")))
    model = verl.actor_rollout_ref.model
    assert (model.lora_rank, model.lora.merge) == (8, True)
    assert set(model.target_modules) == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip
    assert re.fullmatch(model.exclude_modules, "model.visual.blocks.0.mlp.up_proj")
    assert not re.fullmatch(model.exclude_modules, "model.language_model.layers.0.mlp.up_proj")
    own = configuration("grpo.lora.rank=8", "model.lora_targets=[q_proj]", "model.lora_exclude=null")
    model = compose_verl(generated(own)).actor_rollout_ref.model
    assert (list(model.target_modules), model.exclude_modules) == (["q_proj"], None)


@pytest.mark.parametrize("trusted", [False, True])
def test_code_of_a_checkpoint_is_trusted_where_it_is_asked_for_alone(trusted):
    options = ("model.trust_remote_code=true",) if trusted else ()
    verl = compose_verl(generated(configuration(*options)))
    assert verl.actor_rollout_ref.model.trust_remote_code is trusted
    assert verl.data.trust_remote_code is trusted


@pytest.mark.parametrize(("scale", "other"), [("paper", None), ("tiny", "recipes.verl_cpu.server")])
def test_a_frozen_vision_tower_is_an_engine_of_ours(scale, other):
    def library(*options: str) -> str | None:
        verl = compose_verl(generated(configuration(f"scale={scale}", *options)))
        assert not verl.actor_rollout_ref.actor.freeze_vision_tower  # verl reads it nowhere
        return verl.actor_rollout_ref.model.external_lib

    assert library() == other
    assert library("model.freeze_vision=true") == "recipes.verl_frozen"


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, 1e-6, "/a/b.parquet", "with space", "a=b,c{d}", "it's", "back\\slash", "end\\",
        "\\'", "true", "1e5",
        [1, "a b"], {"k": "v"},
    ],
)  # fmt: skip
def test_values_survive_hydras_grammar(value):
    composed = compose_verl([f"+data.probe={verl_overrides.render(value)}"]).data.probe
    assert (OmegaConf.to_container(composed) if OmegaConf.is_config(composed) else composed) == value


def test_the_command_runs_verls_own_trainer():
    command = verl_overrides.command(generated(configuration()))
    assert command[:3] == [sys.executable, "-m", "verl.trainer.main_ppo"]
    assert "algorithm.adv_estimator=grpo" in command


def test_a_dry_run_needs_neither_torch_nor_verl():
    heavy = "{'torch', 'verl', 'ray', 'transformers', 'pandas', 'datasets'}"
    code = f"import sys, recipes.verl_overrides, recipes.rollouts; print(sorted({heavy} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
