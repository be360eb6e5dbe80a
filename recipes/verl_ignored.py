"""Keys that verl 0.9.1 takes and that then change nothing in the runs started here, or go by a newer name.

Nothing in the run would tell: the configuration composes, the training is another one than was asked for.
`mentioned` is the evidence. It lists the files of the package in which the key's last name stands, each
looked at and found to be a declaration, another key of that name, or a branch that these runs do not take
(the older trainer, other engines). A test searches the installed package for more.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ignored:
    """Why a key, or every key below it, changes nothing, and what does.

    Attributes:
        instead: what to do, as the end of a sentence.
        mentioned: files of the package, or folders of it, whose mentions of `word` are no reading of the key.
        word: what a reader would have to name; empty for the key's last part.
        unless: a key that, given too, has the other one read.
        besides: keys below this one that are read.
    """

    instead: str
    mentioned: tuple[str, ...] = ()
    word: str = ""
    unless: str = ""
    besides: tuple[str, ...] = ()


ACTOR, REF, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout", "model"))
# The older trainer, and those of other commands.
OLDER = (
    "trainer/ppo/ray_trainer.py",
    "trainer/main_ppo_v0.py",
    "trainer/sft_trainer_ray.py",
    *(f"experimental/{name}/" for name in ("fully_async_policy", "one_step_off_policy", "separation")),
)
ALWAYS_HANDED_ON = "the data set hands on messages and pictures, and nothing else"
NO_CRITIC = "GRPO has no critic"

IGNORED: dict[str, Ignored] = {
    # Declared, and read nowhere.
    f"{ACTOR}.freeze_vision_tower": Ignored("set model.freeze_vision=true", ("workers/config/actor.py",)),
    "actor_rollout_ref.nccl_timeout": Ignored(
        "verl sets no limit of its own; the environment variables of NCCL do", ("workers/config/critic.py",)
    ),
    f"{ROLLOUT}.over_sample_rate": Ignored(
        "a step waits for all its answers; lower model.max_response_tokens", ("workers/config/rollout.py",)
    ),
    f"{ROLLOUT}.multi_stage_wake_up": Ignored(
        "lower grpo.rollout_memory where weights and cache do not fit together",
        ("workers/config/rollout.py",),
    ),
    f"{ROLLOUT}.multi_turn.num_repeat_rollouts": Ignored(
        "grpo.group_size is the number of answers", ("workers/config/rollout.py",)
    ),
    f"{ACTOR}.grad_clip": Ignored("set grpo.max_grad_norm", ("workers/config/",)),
    "data.return_raw_input_ids": Ignored(ALWAYS_HANDED_ON),
    "data.return_raw_chat": Ignored(ALWAYS_HANDED_ON, ("utils/dataset/rl_dataset.py",)),
    "data.return_full_prompt": Ignored(ALWAYS_HANDED_ON, ("utils/dataset/rl_dataset.py",)),
    "data.return_multi_modal_inputs": Ignored(ALWAYS_HANDED_ON, ("utils/dataset/rl_dataset.py",)),
    # Read by the older trainer alone.
    "trainer.balance_batch": Ignored("the trainer balances every batch", OLDER),
    "trainer.esi_redundant_time": Ignored("set cluster and grpo.save_every", OLDER),
    "algorithm.use_pf_ppo": Ignored(
        "the trainer does not reweight samples", (*OLDER, "trainer/config/algorithm.py")
    ),
    "algorithm.pf_ppo": Ignored(
        "the trainer does not reweight samples", (*OLDER, "trainer/config/algorithm.py")
    ),
    "algorithm.filter_groups.max_num_gen_batches": Ignored(
        "set algorithm.filter_groups.max_inflight_gen_batches",
        # The trainer reads it to warn that it is ignored.
        (*OLDER, "trainer/config/algorithm.py", "trainer/ppo/v1/trainer_base.py"),
    ),
    "custom_reward_function": Ignored(
        "the trainer reads reward.custom_reward_function, which the recipe sets",
        ("experimental/reward_loop/reward_loop.py",),
        word="config.custom_reward_function",
    ),
    "reward_model": Ignored(
        "the trainer reads reward.reward_model, reward.reward_manager and reward.num_workers",
        ("experimental/reward_loop/reward_loop.py",),
        word="config.reward_model",
    ),
    "sandbox_fusion": Ignored(
        "the trainer reads reward.sandbox_fusion",
        ("experimental/reward_loop/reward_loop.py",),
        word="config.sandbox_fusion",
    ),
    # Read by other engines than FSDP2 and vLLM.
    f"{MODEL}.lora": Ignored(
        "set grpo.lora, model.lora_targets, model.lora_exclude and model.freeze_vision",
        word="lora.get",
        besides=("merge", "rank", "fully_sharded_loras"),
    ),
    f"{ACTOR}.fsdp_config.turbo_config": Ignored(
        "FSDP2 has no such options",
        ("workers/config/engine.py", "workers/engine/fsdp/fsdp_turbo_impl.py"),
    ),
    # Not read for want of what would read them.
    "data.filter_overlong_prompts_workers": Ignored(
        "a prompt that is too long stops the run, none is filtered", ("utils/dataset/rl_dataset.py",)
    ),
    "trainer.max_critic_ckpt_to_keep": Ignored(
        f"{NO_CRITIC}; grpo.keep_checkpoints is the actor's", (*OLDER, "trainer/ppo/v1/trainer_base.py")
    ),
    "critic": Ignored(
        NO_CRITIC,
        (*OLDER, "trainer/main_ppo.py", "trainer/ppo/utils.py", "trainer/ppo/v1/trainer_base.py"),
        word="need_critic",
    ),
    "algorithm.gamma": Ignored(
        "a group's advantages are made of the rewards of whole answers",
        (*OLDER, "trainer/config/algorithm.py", "trainer/ppo/"),
        unless="algorithm.adv_estimator",
    ),
    "algorithm.lam": Ignored(
        "a group's advantages are made of the rewards of whole answers",
        (*OLDER, "trainer/config/algorithm.py", "trainer/ppo/"),
        unless="algorithm.adv_estimator",
    ),
    "algorithm.kl_ctrl": Ignored(
        "the divergence is in the loss: set grpo.kl_coef",
        (
            *OLDER,
            "trainer/config/algorithm.py",
            "trainer/ppo/v1/trainer_base.py",
            "trainer/ppo/core_algos.py",
        ),
        unless="algorithm.use_kl_in_reward",
    ),
}

# Older names, and keys that are gone: what to write instead.
RENAMED = {
    f"{ACTOR}.ppo_micro_batch_size": "model.grpo_micro_batch_size, which counts samples a GPU",
    f"{ACTOR}.ulysses_sequence_parallel_size": f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size",
    f"{REF}.ulysses_sequence_parallel_size": f"{REF}.fsdp_config.ulysses_sequence_parallel_size",
    f"{REF}.log_prob_micro_batch_size": f"{REF}.log_prob_micro_batch_size_per_gpu",
    f"{ROLLOUT}.log_prob_micro_batch_size": f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    f"{ACTOR}.optim.warmup_style": f"{ACTOR}.optim.lr_scheduler_type",
    f"{ACTOR}.optim.grad_clip": "grpo.max_grad_norm",
    f"{ROLLOUT}.mode": "nothing: answers are always sampled asynchronously",
    "trainer.remove_previous_ckpt_in_save": "grpo.keep_checkpoints=1",
    "trainer.val_generations_to_log_to_wandb": "nothing: every answer is in rollouts.jsonl",
}


def ignored(key: str, given: set[str]) -> str | None:
    """Why `key` changes nothing and what to do instead, or None where it does something.

    `given` are all the keys that are set beside it.
    """
    for head, entry in IGNORED.items():
        below = key.removeprefix(f"{head}.").split(".")[0]
        if key != head and not key.startswith(f"{head}."):
            continue
        if entry.unless in given or below in entry.besides:
            continue
        return entry.instead
    return None
