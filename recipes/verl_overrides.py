"""Our configuration in verl 0.9.1's words: the overrides, the environment and the command of a GRPO run.

Nothing here imports verl or torch, so a dry run can print the exact command at once. A value has one home:
verl's key for it is derived here, and `grpo.overrides` may not set it a second time.
"""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from data_prep.tokens import PATCH_SIZE
from recipes import devices, held_out, reward_settings
from recipes.step_counts import grpo_epoch, grpo_steps
from recipes.trust import trusts_code
from recipes.verl_schema import check_user_overrides

ACTOR, REF, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout", "model"))
FROZEN = "recipes.verl_frozen"  # verl's own freeze_vision_tower is declared and read nowhere
PACKAGES = Path(__file__).resolve().parent.parent
FAMILIES = ("qwen3_vl", "qwen2_5_vl")
# Strings that stand for themselves in Hydra's grammar, and words that it reads as another type.
PLAIN = re.compile(r"[A-Za-z/][\w./:@~-]*")
NO_STRINGS = ("true", "false", "null", "inf", "nan")

# Ray counts slots, not cores: every actor of verl takes one, and where they run out it hangs.
CPU_SLOTS = 16
CPU_STORE = 200_000_000  # bytes of Ray's object store

# Keys of verl whose value belongs to a key of ours.
OURS = {
    "algorithm.adv_estimator": "the recipe (GRPO)",
    "data.train_batch_size": "grpo.batch_size",
    "data.max_prompt_length": "model.max_prompt_tokens",
    "data.max_response_length": "model.max_response_tokens",
    "data.seed": "seed",
    f"{ACTOR}.optim.lr": "grpo.lr and model.lr_scale.grpo",
    f"{ACTOR}.optim.lr_warmup_steps": "grpo.warmup_steps",
    f"{ACTOR}.optim.lr_warmup_steps_ratio": "grpo.warmup_steps",
    f"{ACTOR}.optim.total_training_steps": "grpo.max_steps and grpo.epochs",
    f"{ACTOR}.optim.clip_grad": "grpo.max_grad_norm",
    f"{ACTOR}.ppo_mini_batch_size": "grpo.mini_batch_size",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": "model.grpo_micro_batch_size",
    f"{ACTOR}.kl_loss_coef": "grpo.kl_coef",
    f"{ACTOR}.kl_loss_type": "grpo.kl_type",
    f"{MODEL}.enable_gradient_checkpointing": "model.gradient_checkpointing",
    f"{MODEL}.lora_rank": "grpo.lora.rank",
    f"{MODEL}.lora_alpha": "grpo.lora.alpha",
    f"{MODEL}.target_modules": "model.lora_targets",
    f"{MODEL}.exclude_modules": "model.lora_exclude",
    f"{MODEL}.trust_remote_code": "model.trust_remote_code",
    "data.trust_remote_code": "model.trust_remote_code",
    f"{MODEL}.lora.rank": "grpo.lora.rank",
    f"{ROLLOUT}.n": "grpo.group_size",
    f"{ROLLOUT}.temperature": "grpo.temperature",
    f"{ROLLOUT}.tensor_model_parallel_size": "grpo.tensor_parallel",
    f"{ROLLOUT}.gpu_memory_utilization": "grpo.rollout_memory",
    f"{ROLLOUT}.seed": "seed",
    "trainer.nnodes": "cluster.nodes",
    f"{ROLLOUT}.prompt_length": "model.max_prompt_tokens",
    f"{ROLLOUT}.response_length": "model.max_response_tokens",
    "trainer.n_gpus_per_node": "cluster.gpus",
    "trainer.save_freq": "grpo.save_every",
    "trainer.max_actor_ckpt_to_keep": "grpo.keep_checkpoints",
    "trainer.total_training_steps": "grpo.max_steps and grpo.epochs",
    "trainer.total_epochs": "grpo.epochs",
    "trainer.logger": "logger",
}
# Keys that this stage itself relies on, with what relies on them.
RELIED_ON = {
    "data.train_files": "the prepared set is what the run directory says it trains on",
    "data.val_files": "evaluation is a stage of its own; grpo.validation_rows holds rows out",
    "data.custom_cls": "the data set class is what proves that no row is lost",
    "data.filter_overlong_prompts": "a prompt that is too long stops the run instead of vanishing",
    "reward.custom_reward_function": "the reward is ours or reward.path; set reward.* of our configuration",
    "reward.reward_manager": "the reward manager keeps every answer with its row id",
    "reward.reward_model": "the reward is a function; a reward model would stand by unasked",
    "model_engine": "the keys set here are those of FSDP2",
    f"{MODEL}.path": "training starts from the SFT checkpoint",
    f"{MODEL}.external_lib": "it loads the recipe's own parts in verl's workers",
    "trainer.answers_dir": "the answers are read from there",
    "trainer.default_local_dir": "checkpoints are resumed from there",
    "trainer.resume_mode": "the last whole checkpoint is found by this stage",
    "trainer.resume_from_path": "the last whole checkpoint is found by this stage",
    "trainer.test_freq": "held-out rows (grpo.validation_rows) are answered whenever a step is saved",
    "trainer.val_before_train": "evaluation is a stage of its own",
    "trainer.val_only": "evaluation is a stage of its own",
    **dict.fromkeys(
        (
            "data.val_max_samples",
            "data.val_batch_size",
            "data.validation_shuffle",
            "trainer.log_val_generations",
            "trainer.validation_data_dir",
            f"{ROLLOUT}.val_kwargs",
        ),
        "the recipe says how held-out rows are answered (grpo.validation_rows)",
    ),
    "trainer.critic_warmup": "there is no critic, and the actor would stand still in those steps",
    "trainer.use_v1": "the older trainer writes other files",
}


def total_steps(config: DictConfig, rows: int) -> int:
    """Steps of the whole run: `grpo.max_steps`, or as many whole batches as `grpo.epochs` hold.

    Raises:
        UserError: there are fewer rows than one batch.
    """
    if grpo_epoch(config, rows) == 0:
        raise UserError(
            f"the RL set has {rows} rows, fewer than one batch (grpo.batch_size={config.grpo.batch_size})."
        )
    return grpo_steps(config, rows)


def micro_batch_size(config: DictConfig) -> int:
    """Samples a device at once: `model.grpo_micro_batch_size`, or the share of an update when that is less.

    Raises:
        UserError: an update is not made of whole micro-batches.
    """
    total = devices.count(config)
    samples = config.grpo.mini_batch_size * config.grpo.group_size
    micro = min(config.model.grpo_micro_batch_size, samples // total)
    if micro == 0 or samples % (micro * total):
        raise UserError(
            f"an update of {samples} samples (grpo.mini_batch_size x grpo.group_size) cannot be shared by "
            f"{total} devices by {config.model.grpo_micro_batch_size} (model.grpo_micro_batch_size)."
        )
    return micro


def overrides(config: DictConfig, prep: Path, start_checkpoint: str, out: Path, rows: int) -> list[str]:
    """verl's overrides for training on `prep`'s RL set of `rows` rows from `start_checkpoint`.

    verl writes its checkpoints and answers below `out`.

    Raises:
        UserError: verl has no support for the model; `grpo.overrides` holds a key that verl ignores, does not
            know, or that has a home in our configuration.
    """
    if config.model.family not in FAMILIES:
        raise UserError(
            f"verl 0.9.1 trains {' and '.join(FAMILIES)}, not model.family={config.model.family}. "
            "The model can still be fine-tuned (launch sft) and evaluated (launch eval)."
        )
    cpu = config.model.device == "cpu"
    groups = [
        _algorithm(config),
        _data(config, prep, rows, out),
        _model(config, start_checkpoint),
        _actor_and_reference(config),
        _rollout(config),
        _reward(config),
        _trainer(config, out, total_steps(config, rows), rows),
        _cpu(config) if cpu else _gpu(config),
    ]
    settings = {key: value for group in groups for key, value in group.items()}
    generated = [f"{key}={render(value)}" for key, value in settings.items()]
    users = list(config.grpo.overrides)
    check_user_overrides(users, OURS, RELIED_ON, generated)
    return [*generated, *users]


def _algorithm(config: DictConfig) -> dict[str, Any]:
    """Group-normalised advantages; divergence from the start model is in the loss, never in the reward."""
    return {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": True,
        "algorithm.use_kl_in_reward": False,
    }


def _data(config: DictConfig, prep: Path, rows: int, out: Path) -> dict[str, Any]:
    """The RL set through our data set class, which measures every prompt and refuses to drop one.

    verl builds a validation set whether or not it validates: the held-out rows, or one row of the same file.
    """
    train, validation = (str(path.resolve()) for path in held_out.sets(config, prep, out))
    return {
        "data.train_files": train,
        "data.val_files": validation,
        **({"data.val_max_samples": 1} if train == validation else {"+data.held_out_file": validation}),
        "data.custom_cls.path": "pkg://recipes.verl_dataset",
        "data.custom_cls.name": "StrictDataset",
        "+data.expected_rows": rows,
        "data.train_batch_size": config.grpo.batch_size,
        "data.max_prompt_length": config.model.max_prompt_tokens,
        "data.max_response_length": config.model.max_response_tokens,
        "data.image_key": "images",
        "data.image_patch_size": PATCH_SIZE[config.model.family],
        "data.filter_overlong_prompts": False,
        "data.truncation": "error",
        "data.trust_remote_code": trusts_code(config.model),
        "data.seed": config.seed,
    }


def _model(config: DictConfig, start_checkpoint: str) -> dict[str, Any]:
    attention = config.model.attention
    if attention == "auto":
        flash = config.model.device == "cuda" and find_spec("flash_attn") is not None
        attention = "flash_attention_2" if flash else "sdpa"
    settings = {
        f"{MODEL}.path": start_checkpoint,
        f"{MODEL}.trust_remote_code": trusts_code(config.model),
        f"+{MODEL}.override_config.attn_implementation": attention,
        # Sequences are packed without padding only where the attention keeps them apart.
        f"{MODEL}.use_remove_padding": attention == "flash_attention_2",
        f"{MODEL}.enable_gradient_checkpointing": config.model.gradient_checkpointing,
        f"{MODEL}.lora_rank": config.grpo.lora.rank,
        f"{MODEL}.lora_alpha": config.grpo.lora.alpha,
    }
    if config.grpo.lora.rank:
        # The rollout takes whole weights: vLLM ignores adapters of the vision tower without a word.
        settings |= {
            f"{MODEL}.lora.merge": True,
            f"{MODEL}.target_modules": list(config.model.lora_targets),
            f"{MODEL}.exclude_modules": config.model.lora_exclude,
        }
    if config.model.freeze_vision:
        settings[f"{MODEL}.external_lib"] = FROZEN
    return settings


def _actor_and_reference(config: DictConfig) -> dict[str, Any]:
    """Updates of `mini_batch_size` prompts; the reference is the frozen start model.

    verl counts warm-up in steps, each of several updates.
    """
    grpo, micro = config.grpo, micro_batch_size(config)
    return {
        f"{ACTOR}.strategy": "fsdp2",
        f"{ACTOR}.optim.lr": grpo.lr * config.model.lr_scale.grpo,
        f"{ACTOR}.optim.lr_warmup_steps": grpo.warmup_steps,
        f"{ACTOR}.optim.clip_grad": grpo.max_grad_norm,
        f"{ACTOR}.ppo_mini_batch_size": grpo.mini_batch_size,
        f"{ACTOR}.shuffle": True,  # ours: an update mixes answers of all the step's prompts
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": micro,
        f"{ACTOR}.data_loader_seed": config.seed,
        f"{ACTOR}.use_kl_loss": True,
        f"{ACTOR}.kl_loss_coef": grpo.kl_coef,
        f"{ACTOR}.kl_loss_type": grpo.kl_type,
        f"{ACTOR}.entropy_coeff": 0,
        f"{ACTOR}.fsdp_config.seed": config.seed,
        f"{REF}.strategy": "fsdp2",
        f"{REF}.log_prob_micro_batch_size_per_gpu": micro,
    }


def _rollout(config: DictConfig) -> dict[str, Any]:
    """`group_size` answers a prompt; their log-probabilities show how far rollout and actor are apart."""
    return {
        f"{ROLLOUT}.n": config.grpo.group_size,
        f"{ROLLOUT}.temperature": config.grpo.temperature,
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": micro_batch_size(config),
        f"{ROLLOUT}.calculate_log_probs": True,
        f"{ROLLOUT}.seed": config.seed,
    }


def _reward(config: DictConfig) -> dict[str, Any]:
    """Our reward or the user's, called by a reward manager that also notes every answer under its row id."""
    function = "reward.custom_reward_function"
    options = reward_settings.options(config.reward)
    return {
        f"{function}.path": str(reward_settings.function_file(config.reward)),
        f"{function}.name": reward_settings.FUNCTION,
        **{f"+{function}.reward_kwargs.{key}": value for key, value in options.items()},
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "RecordingRewardManager",
        "reward.reward_manager.module.path": "pkg://recipes.verl_reward",
    }


def _trainer(config: DictConfig, out: Path, steps: int, rows: int) -> dict[str, Any]:
    """Where verl writes, when it saves and when it stops; it always saves after the last step."""
    return {
        "trainer.nnodes": devices.nodes(config.cluster),
        "trainer.total_training_steps": steps,
        "trainer.total_epochs": -(-steps // grpo_epoch(config, rows)),
        "trainer.save_freq": config.grpo.save_every,
        # The stage takes old ones away itself: verl would take the best one too.
        "trainer.max_actor_ckpt_to_keep": None,
        "trainer.test_freq": config.grpo.save_every if config.grpo.validation_rows else -1,
        "trainer.val_before_train": False,
        "trainer.logger": ["console", "file"],
        "trainer.default_local_dir": str(out.resolve() / "checkpoints"),
        "+trainer.answers_dir": str(out.resolve() / "answers"),
    }


def _gpu(config: DictConfig) -> dict[str, Any]:
    """vLLM rollouts, bfloat16 compute on float32 master weights, the reference parked on the host."""
    return {
        "trainer.device": "cuda",
        "trainer.n_gpus_per_node": config.cluster.gpus,
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.tensor_model_parallel_size": config.grpo.tensor_parallel,
        f"{ROLLOUT}.gpu_memory_utilization": config.grpo.rollout_memory,
        f"{REF}.fsdp_config.param_offload": True,
    }


def _cpu(config: DictConfig) -> dict[str, Any]:
    """One process a role, float32 throughout, and our rollout (`recipes.verl_cpu`)."""
    fp32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    settings = {
        "trainer.device": "cpu",
        "trainer.n_gpus_per_node": 1,
        f"{ROLLOUT}.name": "hf_cpu",
        # Imported by the processes that build the model, which are those that look up the rollout.
        f"{MODEL}.external_lib": FROZEN if config.model.freeze_vision else "recipes.verl_cpu.server",
        f"{ROLLOUT}.tensor_model_parallel_size": 1,
        f"{ROLLOUT}.free_cache_engine": False,
        f"+{ROLLOUT}.agent.agent_loop_manager_class": "recipes.verl_cpu.agent_loop.StepAgentLoopManager",
        "reward.num_workers": 1,
        "data.dataloader_num_workers": 0,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        f"{ACTOR}.use_torch_compile": False,
    }
    if config.cluster.name == "local":  # else the job has started Ray, with these (recipes.ray_cluster)
        settings |= {
            "ray_kwargs.ray_init.num_cpus": CPU_SLOTS,
            "+ray_kwargs.ray_init.num_gpus": 1,
            "+ray_kwargs.ray_init.include_dashboard": False,
            "+ray_kwargs.ray_init.object_store_memory": CPU_STORE,
        }
    for role in (ACTOR, REF):
        settings |= {
            f"{role}.fsdp_config.use_torch_compile": False,
            f"{role}.fsdp_config.dtype": "float32",
            # dtype alone leaves autocast to bfloat16 on.
            f"+{role}.fsdp_config.mixed_precision": fp32,
            f"{role}.fsdp_config.reshard_after_forward": False,
        }
    return settings


def command(verl_overrides: list[str]) -> list[str]:
    """The command line that runs verl's trainer; Hydra writes no files of its own."""
    quiet = ["hydra.run.dir=.", "hydra.output_subdir=null", "hydra/job_logging=disabled"]
    return [sys.executable, "-m", "verl.trainer.main_ppo", *quiet, *verl_overrides]


def environment(config: DictConfig, out: Path) -> dict[str, str]:
    """What verl's processes need in their environment besides ours."""
    settings = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")])),
        "VERL_FILE_LOGGER_PATH": str(out.resolve() / "metrics.jsonl"),
        "VERL_USE_EXTERNAL_MODULES": "recipes.verl_compat",
        "RAY_USAGE_STATS_ENABLED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",
    }
    if config.cluster.name == "local":
        settings["RAY_AUTH_MODE"] = "disabled"  # this machine alone; on a cluster the job has a token
    if config.model.device == "cpu":
        settings |= {
            "VERL_USE_EXTERNAL_MODULES": "recipes.verl_cpu",
            "VERL_PLATFORM": "cpu",
            # verl registers its FSDP engines for cuda and npu only; they run on any torch device.
            "VERL_ENGINE_DEVICE": "cuda",
            "TORCH_COMPILE_DISABLE": "1",
            # Ray would give every process one thread; training and rollout take turns, so each may have all.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(os.cpu_count() or 1)),
        }
    return settings


def render(value: Any) -> str:
    """A value in Hydra's override grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{render(item)}" for key, item in value.items()) + "}"
    if OmegaConf.is_list(value) or isinstance(value, list):
        return "[" + ",".join(render(item) for item in value) + "]"
    if isinstance(value, str) and (not PLAIN.fullmatch(value) or value.lower() in NO_STRINGS):
        # Backslashes are plain but before a quote, the closing one included.
        escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), value)
        return f"'{escaped}'"
    return str(value)
