"""Broken configurations, each caught before the start by one sentence that says what to change.

Every case starts from a configuration in which nothing stands in the way, and breaks it in one place. `seen`
says where such a thing was met: the address of a user's report, or `own`.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest
from healthy import EMBEDDING, HEAD, Healthy, pretend, write_model, write_weights

from launch.compose import compose, group_choices
from launch.pipeline import stages_of
from launch.preflight import findings
from recipes.verl_overrides import FAMILIES

GITHUB = "https://github.com"
VERL, TRL = f"{GITHUB}/verl-project/verl", f"{GITHUB}/huggingface/trl"
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@dataclass(frozen=True)
class Case:
    """What is broken, and the words that the sentence must hold.

    `given` are overrides; `ready` are the stages that are finished before; `harm` changes the finished world.
    """

    seen: str
    command: str
    says: tuple[str, ...]
    given: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    harm: Callable[[Healthy], object] | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    offline: bool = False


def verl(text: str) -> tuple[str]:
    return (f'grpo.overrides=["{text}"]',)


def trl(text: str) -> tuple[str]:
    return (f'sft.overrides=["{text}"]',)


def sharded(world: Healthy) -> None:
    """Weights in two files, of which the second is gone."""
    folder = world.model
    (folder / "model.safetensors").unlink()
    write_weights(folder / SHARDS[0], **{EMBEDDING: bytes(64)})
    index = {"weight_map": {EMBEDDING: SHARDS[0], "model.norm.weight": SHARDS[1]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))
PREPARED, TRAINED = ("prep",), ("prep", "sft")
CASES = {
    # Keys that verl takes, and that change nothing or are called otherwise.
    "frozen tower": Case(
        f"{VERL}/issues/2526", "grpo", ("ignores it", "model.freeze_vision=true"),
        verl(f"{ACTOR}.freeze_vision_tower=true"),
    ),
    "megatron's freeze": Case(
        f"{VERL}/pull/6320", "grpo", ("lora.freeze_vision_model", "model.freeze_vision"),
        verl(f"{MODEL}.lora.freeze_vision_model=true"),
    ),
    "megatron's dropout": Case(
        f"{VERL}/issues/3922", "grpo", ("lora.dropout", "ignores it"), verl(f"{MODEL}.lora.dropout=0.1")
    ),
    "limit of NCCL": Case("own", "grpo", ("nccl_timeout", "NCCL"), verl("actor_rollout_ref.nccl_timeout=9")),
    "balanced batches": Case("own", "grpo", ("balances every batch",), verl("trainer.balance_batch=false")),
    "over-sampling": Case("own", "grpo", ("over_sample_rate",), verl(f"{ROLLOUT}.over_sample_rate=0.1")),
    "clip of the actor": Case("own", "grpo", ("grpo.max_grad_norm",), verl(f"{ACTOR}.grad_clip=0.5")),
    "columns of a row": Case(
        f"{VERL}/issues/6599", "grpo", ("return_multi_modal_inputs", "ignores it"),
        verl("data.return_multi_modal_inputs=false"),
    ),
    "reward at the top": Case(
        f"{VERL}/issues/2279", "grpo", ("reward.custom_reward_function",),
        verl("custom_reward_function.path=mine.py"),
    ),
    "reward manager at the top": Case(
        "own", "grpo", ("reward.reward_manager",), verl("reward_model.reward_manager=dapo")
    ),
    "critic": Case("own", "grpo", ("critic.optim.lr", "no critic"), verl("critic.optim.lr=1e-5")),
    "discount": Case("own", "grpo", ("algorithm.gamma", "whole answers"), verl("algorithm.gamma=0.99")),
    "divergence in the reward": Case(
        f"{TRL}/issues/3857", "grpo", ("grpo.kl_coef",), verl("algorithm.kl_ctrl.kl_coef=0.01")
    ),
    "limit of dynamic sampling": Case(
        "own", "grpo", ("max_inflight_gen_batches",), verl("algorithm.filter_groups.max_num_gen_batches=4")
    ),
    "old micro-batch": Case(
        "own", "grpo", ("no longer goes by that name", "model.grpo_micro_batch_size"),
        verl(f"{ACTOR}.ppo_micro_batch_size=8"),
    ),
    "old micro-batch of the rollout": Case(
        "own", "grpo", ("log_prob_micro_batch_size_per_gpu",), verl(f"{ROLLOUT}.log_prob_micro_batch_size=8")
    ),
    "old schedule": Case("own", "grpo", ("lr_scheduler_type",), verl(f"{ACTOR}.optim.warmup_style=cosine")),
    "synchronous rollout": Case("own", "grpo", ("asynchronously",), verl(f"{ROLLOUT}.mode=sync")),
    "misspelt key of verl": Case(
        "own", "grpo", ("did you mean", f"{ACTOR}.clip_ratio?"), verl(f"{ACTOR}.clip_ratoi=0.3")
    ),
    "a second home": Case("own", "grpo", ("grpo.group_size",), verl(f"{ROLLOUT}.n=8")),
    "filter of long prompts": Case(
        f"{VERL}/issues/6145", "grpo", ("stops the run instead of vanishing",),
        verl("data.filter_overlong_prompts=true"),
    ),
    "steps without the actor": Case("own", "grpo", ("stand still",), verl("trainer.critic_warmup=5")),
    # Keys of TRL, transformers and DeepSpeed.
    "rate twice": Case("own", "sft", ("sft.lr",), trl("learning_rate=1e-5")),
    "cut rows": Case(
        f"{GITHUB}/hiyouga/LLaMA-Factory/issues/10241", "sft", ("model.max_prompt_tokens",),
        trl("max_length=1024"),
    ),
    "old length": Case("own", "sft", ("max_seq_length", "no longer"), trl("max_seq_length=1024")),
    "old warm-up": Case("own", "sft", ("warmup_ratio", "sft.warmup_steps"), trl("warmup_ratio=0.1")),
    "old type": Case(
        f"{GITHUB}/om-ai-lab/VLM-R1/issues/327", "sft", ("model.dtype",), trl("torch_dtype=bfloat16")
    ),
    "options of a loaded model": Case(
        "own", "sft", ("would be ignored", "loaded before"), trl("model_init_kwargs={use_cache:false}")
    ),
    "processes for texts": Case("own", "sft", ("would be ignored",), trl("dataset_num_proc=8")),
    "another template for SFT": Case(
        f"{GITHUB}/om-ai-lab/VLM-R1/issues/173", "sft", ("checkpoint's own template",),
        trl("chat_template_path=mine.jinja"),
    ),
    "packing": Case(f"{VERL}/pull/3653", "sft", ("TRL refuses it for pictures",), trl("packing=true")),
    "DeepSpeed's file": Case("own", "sft", ("sft.shard",), trl("deepspeed=ds.json")),
    "misspelt key of TRL": Case("own", "sft", ("did you mean adam_epsilon?",), trl("adam_epsilom=1e-8")),
    "unknown optimizer": Case("own", "sft", ("optim takes one of",), trl("optim=adamx")),
    "value of another type": Case("own", "sft", ("adam_epsilon takes float",), trl("adam_epsilon=small")),
    "optimizer without its package": Case(
        "own", "sft", ("optim=adamw_bnb_8bit", "bitsandbytes"), trl("optim=adamw_bnb_8bit")
    ),
    "a secret": Case("own", "sft", ("seems to hold a secret", "environment"), trl("hub_token=hf_abc")),
    # Batches.
    "no group": Case(f"{VERL}-recipe/pull/125", "grpo", ("every advantage is zero",), ("grpo.group_size=1",)),
    "updates of a step": Case("own", "grpo", ("grpo.mini_batch_size=16",), ("grpo.batch_size=60",)),
    "answers over GPUs": Case(
        "own", "grpo", ("grpo.mini_batch_size=1", "multiple of 8"),
        ("grpo.mini_batch_size=1", "grpo.batch_size=64"),
    ),
    "micro-batch": Case(
        "own", "grpo", ("take one of 1, 2",), ("model.grpo_micro_batch_size=3",)
    ),
    "tensor parallel": Case(
        "own", "grpo", ("cluster.gpus=8", "grpo.tensor_parallel=3"), ("grpo.tensor_parallel=3",)
    ),
    "heads of the model": Case(
        "own", "grpo", ("5 attention heads", "grpo.tensor_parallel=2"), ("grpo.tensor_parallel=2",),
        harm=lambda world: write_model(world.model, text_config={"num_attention_heads": 5}),
    ),
    "batch of SFT": Case("own", "sft", ("make it a multiple of 16",), ("sft.batch_size=60",)),
    "fewer rows than a step": Case(
        "own", "grpo", ("130 rows to train on", "grpo.batch_size=256"),
        ("grpo.batch_size=256",), PREPARED,
    ),
    "more held out than left": Case(
        "own", "grpo", ("grpo.validation_rows=100", "more than half"), ("grpo.validation_rows=100",), PREPARED
    ),
    # Rows, pictures and lengths.
    "prompt above the budget": Case(
        f"{VERL}/issues/3469", "sft", ("70 of 70 SFT prompts", "model.max_prompt_tokens=200", "raise it to"),
        ("model.max_prompt_tokens=200",), PREPARED,
    ),
    "picture above the budget": Case(
        f"{GITHUB}/hiyouga/EasyR1/issues/175", "grpo", ("RL prompts", "lower model.max_image_tokens"),
        ("model.max_image_tokens=16384",), PREPARED, lambda world: world.prepare(size=(4000, 3000)),
    ),
    "reasoning above GRPO's answers": Case(
        f"{GITHUB}/huggingface/open-r1/issues/363", "grpo", ("max_response_tokens=512", "raise it to 601"),
        (), PREPARED, lambda world: world.prepare(words=600),
    ),
    "rows that vanished": Case(
        f"{GITHUB}/Roblox/FAI-RL/pull/81", "grpo", ("lacks rows/rl.jsonl", "manifest.json"), (), PREPARED,
        lambda world: (world.prep / "rows/rl.jsonl").unlink(),
    ),
    "picture gone": Case(
        f"{VERL}/issues/2847", "sft", ("1 of 1 pictures", "00/0.png"), (), PREPARED,
        lambda world: (world.prep / "images/00/0.png").unlink(),
    ),
    "empty picture": Case(
        f"{GITHUB}/QwenLM/Qwen3-VL/issues/1234", "sft", ("or empty: 00/0.png",), (), PREPARED,
        lambda world: (world.prep / "images/00/0.png").write_bytes(b""),
    ),
    "more pictures than vLLM takes": Case(
        f"{GITHUB}/vllm-project/vllm/issues/9739", "eval", ("vllm.max_images=1", "raise it to 2"),
        ("eval.checkpoint=base", "eval.engine=openai", "eval.serve=true", "vllm.max_images=1"), PREPARED,
        lambda world: world.prepare(pictures=2),
    ),
    # Models and checkpoints.
    "no model there": Case("own", "sft", ("nowhere does not exist",), ("model.path=/nowhere",)),
    "no configuration": Case(
        "own", "sft", ("has no config.json", "model.path="), (),
        harm=lambda world: (world.model / "config.json").unlink(),
    ),
    "weights cut short": Case(
        "own", "sft", ("it is not whole", "copy it whole"), (),
        harm=lambda world: cut(world.model / "model.safetensors"),
    ),
    "no weights": Case(
        "own", "sft", ("no whole safetensors file",), (),
        harm=lambda world: (world.model / "model.safetensors").write_bytes(b"version https://git-lfs"),
    ),
    "shard gone": Case("own", "sft", (f"lacks {SHARDS[1]}",), (), harm=sharded),
    "head lost": Case(
        f"{VERL}/issues/3110", "sft", ("tie_word_embeddings is false", "at random"), (),
        harm=lambda world: write_model(world.model, tie_word_embeddings=False),
    ),
    "head thrown away": Case(
        f"{VERL}/issues/3159", "sft", ("tie_word_embeddings is true", "throw the trained output head"), (),
        harm=lambda world: write_weights(
            world.model / "model.safetensors", **{EMBEDDING: bytes(64), HEAD: bytes([1] * 64)}
        ),
    ),
    "quantized": Case(
        "own", "sft", ("quantized weights (U8)", "bfloat16"), (),
        harm=lambda world: write_weights(world.model / "model.safetensors", "U8", **{EMBEDDING: bytes(64)}),
    ),
    "another family": Case(
        f"{GITHUB}/QwenLM/Qwen3-VL/issues/1052", "sft", ("is a qwen2_5_vl", "model.family=qwen3_vl"), (),
        harm=lambda world: write_model(world.model, model_type="qwen2_5_vl"),
    ),
    "unknown family": Case("own", "sft", ("model.family=llava is unknown",), ("model.family=llava",)),
    "no template": Case(
        "own", "sft", ("has no chat template", "chat_template.jinja"), (),
        harm=lambda world: (world.model / "chat_template.jinja").unlink(),
    ),
    "another template than SFT's": Case(
        f"{GITHUB}/Osilly/Vision-R1/issues/12", "grpo", ("not the one that SFT used", "chat_template.jinja"),
        (), TRAINED, lambda world: (world.checkpoint("sft") / "chat_template.jinja").write_text("{{ 1 }}"),
    ),
    "start checkpoint cut short": Case(
        "own", "grpo", ("the sft checkpoint", "it is not whole", "manifest.json"), (), TRAINED,
        lambda world: cut(world.checkpoint("sft") / "model.safetensors"),
    ),
    "start checkpoint gone": Case(
        "own", "grpo", ("the sft checkpoint", "has no config.json", "manifest.json"), (), TRAINED,
        lambda world: shutil.rmtree(world.checkpoint("sft")),
    ),
    "checkpoint that is none": Case(
        "own", "eval", ("eval.checkpoint=", "has no config.json"), ("eval.checkpoint=.",), PREPARED
    ),
    "longer than the model reads": Case(
        "own", "sft", ("reads 4096 tokens at most", "model.max_prompt_tokens"),
        ("model.max_prompt_tokens=8192",),
    ),
    "offline": Case(
        "own", "sft", ("model.path=no/such-model", "HF_HUB_OFFLINE", "hf download"),
        ("model.path=no/such-model",), offline=True,
    ),
    # Packages and devices.
    "no flash-attention": Case(
        f"{VERL}/issues/6662", "sft", ("flash-attn is not installed", "model.attention=auto"),
        ("model.attention=flash_attention_2",),
    ),
    "flash-attention in float32": Case(
        f"{GITHUB}/huggingface/transformers/issues/36100", "sft", ("model.dtype=float32",),
        ("model.attention=flash_attention_2", "model.dtype=float32"), packages={"flash-attn": "2.8"},
    ),
    "another verl": Case("own", "grpo", ("verl[vllm]==0.9.1",), packages={"verl": "0.8.0"}),
    "no vLLM": Case("own", "grpo", ("GRPO on GPUs needs vllm",), packages={"vllm": None}),
    "no DeepSpeed": Case("own", "sft", ("sft.shard=zero2 needs deepspeed",), packages={"deepspeed": None}),
    "no W&B": Case("own", "sft", ("logger=wandb needs wandb",), ("logger=wandb",), packages={"wandb": None}),
    "more GPUs than there are": Case(
        "own", "sft", ("cluster.gpus=16", "this machine shows 8"), ("cluster.gpus=16", "sft.batch_size=64"),
    ),
    "time of a job": Case(
        f"{GITHUB}/ashleve/lightning-hydra-template/issues/146", "sft", ("cluster.time=soon", "1-00:00:00"),
        ("cluster=slurm", "cluster.time=soon"),
    ),
    "image that is not used": Case(
        "own", "sft", ("add cluster.container=pyxis",), ("cluster=slurm", "cluster.image=my.sif")
    ),
    # Data, reward, evaluation.
    "no release": Case("own", "prep", ("data.root=nowhere does not exist",), ("data.root=nowhere",)),
    "no reasoning": Case("own", "prep", ("teacher.path=nowhere",), ("teacher.path=nowhere",)),
    "no teacher": Case("own", "sft", ("leaves the SFT rows without reasoning",), ("teacher=none",)),
    "share of the format": Case(
        f"{GITHUB}/huggingface/open-r1/issues/255", "grpo", ("reward.format_weight", "[0, 1]"),
        ("reward.format_weight=1.5",),
    ),
    "reward that is no file": Case("own", "grpo", ("reward.path=nowhere.py",), ("reward.path=nowhere.py",)),
    "nothing to choose by": Case("own", "sft", ("sft.validation_rows",), ("sft.take=best",)),
    "server without a name": Case(
        "own", "eval", ("eval.endpoint.model=",), ("eval.checkpoint=endpoint", "eval.engine=openai")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_broken_configuration_is_caught(name, tmp_path, monkeypatch):
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch, **case.packages)
    world = Healthy(tmp_path)
    for stage in case.ready:
        world.prepare() if stage == "prep" else world.finish(stage)
    if case.harm is not None:
        case.harm(world)
    if case.offline:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = world.findings(case.command, *case.given)
    caught = [line for line in found if all(words in line for words in case.says)]
    assert len(caught) == 1, found
    assert caught[0].endswith((".", "?"))


def test_the_table_is_long_and_draws_on_users_reports():
    assert len(CASES) >= 40
    assert sum(case.seen != "own" for case in CASES.values()) >= 20


@pytest.mark.parametrize("ready", [(), PREPARED, TRAINED], ids=["fresh", "prepared", "trained"])
def test_nothing_stands_in_the_way_of_what_every_case_starts_from(ready, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch)
    world = Healthy(tmp_path)
    for stage in ready:
        world.prepare() if stage == "prep" else world.finish(stage)
    assert world.findings("pipeline") == []


def test_a_recipe_without_rows_for_grpo_says_which_has_them(tmp_path, monkeypatch):
    pretend(monkeypatch)
    config = compose(["recipe=monosr", "scale=tiny", f"runs_dir={tmp_path}"])
    (told,) = findings(config, stages_of("grpo", config))
    assert "take recipe=monosr_grpo" in told
    other = compose(["recipe=monosr_grpo", "scale=tiny", f"runs_dir={tmp_path}"])
    assert findings(other, stages_of("grpo", other)) == []


CHOICES = group_choices()
# Every recipe as it is meant; every model at every scale.
SHIPPED = [
    *product(CHOICES["recipe"], CHOICES["scale"], [None]),
    *product(CHOICES["recipe"][:1], CHOICES["scale"], CHOICES["model"]),
]


@pytest.mark.parametrize(("recipe", "scale", "model"), SHIPPED)
def test_no_shipped_recipe_gives_a_false_alarm(recipe, scale, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pretend(monkeypatch)
    world = Healthy(tmp_path)
    world.recipe = recipe
    # The model file names its model, and a small scale draws its release.
    own = ("model.path", "data.root", "teacher.path") if scale == "tiny" else ("model.path",)
    chosen = [f"scale={scale}", *([f"model={model}"] if model else [])]
    given = [word for word in world.given if not word.startswith(own)]
    config = compose([*given, *chosen])
    # verl does not train every model, and not every recipe goes on to GRPO.
    command = "pipeline" if config.model.family in FAMILIES and recipe != "monosr" else "sft"
    assert findings(config, stages_of(command, config)) == []


def test_all_that_is_shipped_is_looked_at():
    assert len(SHIPPED) >= 12
