"""Which values a key may take, and the arithmetic of batches: what the configuration alone can tell."""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.cvsbench.layout import TASKS
from data_prep.monosr.auxiliary_words import VARIANTS
from data_prep.monosr.sources import SOURCES, SPLITS
from data_prep.prompts import INSTRUCTIONS
from data_prep.views.settings import KINDS
from launch.compose import is_unset, nearest
from launch.local import used_gpus
from recipes.engines import ENGINES
from recipes.monitor_readings import MONITORS

CHOICES: dict[str, tuple[str, ...]] = {
    "logger": ("none", "wandb"),
    "data.subsets": ("cvusa", "fov"),
    "data.sources": tuple(SOURCES),
    "data.train_splits": SPLITS,
    "data.test_splits": SPLITS,
    "data.views": ("none", *KINDS),
    "data.aux": tuple(VARIANTS),
    "data.views_depth.device": ("auto", "cpu", "cuda"),
    "data.views_miniature.api": ("edit", "generate", "gemini"),
    "data.tasks": (*TASKS, *(f"{task}/{part}" for task, own in TASKS.items() for part in own.parts if part)),
    "generation.subsets": ("cvusa", "fov"),
    "generation.tasks": ("g2s", "s2g", "gs_grounding", "gs_view"),
    "teacher.kind": ("file", "oracle", "openai", "answer", "none"),
    "prompt.format": ("imagination_cot", "structured_cot", "answer_only"),
    "eval.prompt": tuple(INSTRUCTIONS),
    "model.device": ("cpu", "cuda"),
    "model.dtype": ("float32", "bfloat16", "float16"),
    "model.attention": ("auto", "sdpa", "eager", "flash_attention_2"),
    "sft.scheduler": ("cosine", "linear", "constant", "constant_with_warmup"),
    "sft.shard": ("none", "zero2", "zero3", "fsdp"),
    "eval.engine": ENGINES,
    "grpo.monitors.stop_on": tuple(MONITORS),
    "grpo.kl_type": ("low_var_kl", "kl", "abs", "mse", "full"),
}  # fmt: skip
AT_LEAST: dict[str, float] = {
    **dict.fromkeys(
        (
            "cluster.gpus", "sft.epochs", "sft.max_steps", "sft.batch_size", "sft.save_every",
            "grpo.epochs", "grpo.max_steps", "grpo.batch_size", "grpo.mini_batch_size", "grpo.save_every",
            "grpo.keep_checkpoints", "grpo.tensor_parallel", "grpo.monitors.window",
            "eval.max_new_tokens", "eval.max_rows",
            "model.max_image_tokens", "model.max_prompt_tokens", "model.max_response_tokens",
            "model.sft_micro_batch_size", "model.grpo_micro_batch_size", "model.eval_batch_size",
            "teacher.concurrency", "teacher.tries", "teacher.max_requests",
            "eval.endpoint.concurrency", "eval.endpoint.tries",
            "vllm.port", "vllm.max_images", "vllm.tensor_parallel",
            "data.views_depth.micro_batch_size", "data.views_miniature.concurrency",
            "data.views_miniature.tries", "data.views_miniature.max_requests", "report.picture_side",
            "data.wording.concurrency", "data.wording.tries", "data.wording.max_requests",
        ),
        1,
    ),
    **dict.fromkeys(("sft.lr", "sft.warmup_steps", "sft.weight_decay", "grpo.lr", "grpo.kl_coef"), 0),
    **dict.fromkeys(("grpo.warmup_steps", "grpo.probe.rows", "sft.lora.rank", "grpo.lora.rank"), 0),
    **dict.fromkeys(("data.observability.min_area", "data.observability.min_size"), 0),
    **dict.fromkeys(("generation.blind.times", "generation.arrows.axis_margin"), 0),
    **dict.fromkeys(("eval.temperature", "eval.rotate_options", "teacher.retries", "teacher.max_cost"), 0),
    **dict.fromkeys(("data.views_miniature.retries", "data.views_miniature.max_cost", "report.port"), 0),
    **dict.fromkeys(("data.wording.retries", "data.wording.max_cost"), 0),
    "generation.balance": 1,
}  # fmt: skip
ABOVE_ZERO = (
    "grpo.temperature", "sft.max_grad_norm", "grpo.max_grad_norm", "grpo.rollout_memory",
    "teacher.timeout", "teacher.max_overlap", "eval.endpoint.timeout", "vllm.memory", "vllm.start_timeout",
    "data.views_miniature.timeout", "data.wording.timeout",
    "generation.blind.share", "generation.arrows.length", "generation.arrows.flat_share",
)  # fmt: skip
SHARES = (
    "grpo.probe.max_flat_share", "grpo.rollout_memory", "sft.lora.dropout", "vllm.memory",
    "teacher.max_overlap",
    "data.observability.max_truncation", "data.observability.max_occlusion",
    "data.observability.max_discrepancy", "data.wording.share",
    "generation.test_share", "generation.blind.share", "generation.arrows.length",
    "generation.arrows.separation", "generation.arrows.flat_share",
)  # fmt: skip
SECRET_WORDS = ("token=", "secret", "password", "api_key", "apikey")


def faults(config: DictConfig, sections: set[str]) -> Iterator[str]:
    """One sentence, with the way out, for every value in `sections` that no stage could work with."""
    for key, allowed in CHOICES.items():
        value = _value(config, key, sections)
        for one in [] if value is None else value if isinstance(value, list) else [value]:
            if one not in allowed:
                yield f"{key}={one} is unknown: {nearest(str(one), allowed)}"
    for key, least in AT_LEAST.items():
        value = _value(config, key, sections)
        if value is not None and value < least:
            yield f"{key}={value} is too small: it must be at least {least:g}."
    for key in ABOVE_ZERO:
        if (value := _value(config, key, sections)) is not None and value <= 0:
            yield f"{key}={value} is too small: it must be above 0."
    for key in SHARES:
        if (value := _value(config, key, sections)) is not None and not 0 <= value <= 1:
            yield f"{key}={value} is no share: it must lie between 0 and 1."
    if (value := _value(config, "eval.rotate_options", sections)) is not None and value > 3:
        yield f"eval.rotate_options={value} is too large: questions have up to four options, so 0 to 3."
    if "data" in sections and isinstance(config.data.get("categories"), str):
        yield f"data.categories takes a list: data.categories=[{config.data.categories}]."
    for text in config.grpo.overrides if "grpo" in sections else []:
        if any(word in str(text).lower() for word in SECRET_WORDS):
            yield "grpo.overrides seems to hold a secret, which would reach the disk: use the environment."


def batch_faults(config: DictConfig, stages: set[str]) -> Iterator[str]:
    """Batches that cannot be divided over the devices as SFT and verl divide them."""
    gpus = max(1, used_gpus(OmegaConf.to_container(config)))  # type: ignore[arg-type]
    over = f" over {gpus} GPUs" if gpus > 1 else ""
    if "sft" in stages:
        batch, micro = config.sft.batch_size, config.model.sft_micro_batch_size
        if batch % (gpus * min(micro, max(1, batch // gpus))):
            yield (
                f"sft.batch_size={batch} does not divide{over} by model.sft_micro_batch_size={micro}: "
                f"make it a multiple of {gpus * micro}, or lower model.sft_micro_batch_size."
            )
    if "grpo" not in stages:
        return
    grpo, micro = config.grpo, config.model.grpo_micro_batch_size
    if grpo.group_size < 2:
        yield (
            f"grpo.group_size={grpo.group_size} leaves nothing to compare an answer with, "
            "so every advantage is zero: take 2 or more (the paper: 4)."
        )
    if grpo.batch_size % grpo.mini_batch_size:
        yield (
            f"grpo.batch_size={grpo.batch_size} is no multiple of "
            f"grpo.mini_batch_size={grpo.mini_batch_size}: change one of them."
        )
    samples = grpo.mini_batch_size * grpo.group_size
    if samples % gpus:
        yield (
            f"grpo.mini_batch_size={grpo.mini_batch_size} x grpo.group_size={grpo.group_size} = {samples} "
            f"answers do not divide{over}: make the product a multiple of {gpus}, or change cluster.gpus."
        )
    elif samples // gpus % micro:
        yield (
            f"{samples // gpus} answers an update (grpo.mini_batch_size x grpo.group_size{over}) are no "
            f"multiple of model.grpo_micro_batch_size={micro}: take one of "
            f"{', '.join(str(n) for n in range(1, micro) if samples // gpus % n == 0)}."
        )
    if gpus % grpo.tensor_parallel:
        parallel = grpo.tensor_parallel
        yield f"cluster.gpus={gpus} is no multiple of grpo.tensor_parallel={parallel}: change one of them."


def _value(config: DictConfig, key: str, sections: set[str]) -> Any:
    if key.split(".")[0] not in sections or is_unset(config, key):
        return None
    value = OmegaConf.select(config, key)
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
