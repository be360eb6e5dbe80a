"""Which values a key may take: what the configuration alone can tell."""

import re
from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.cvsbench.layout import TASKS
from data_prep.monosr.auxiliary_words import VARIANTS
from data_prep.monosr.sources import SOURCES, SPLITS
from data_prep.prompts import INSTRUCTIONS
from data_prep.secrets import has_password
from data_prep.tokens import PATCH_SIZE
from data_prep.views.settings import KINDS
from launch.compose import is_unset, nearest
from launch.estimate.speed import peaks
from recipes.engines import ENGINES
from recipes.monitor_readings import MONITORS

CHOICES: dict[str, tuple[str, ...]] = {
    "logger": ("none", "wandb"),
    "cluster.container": ("none", "pyxis", "apptainer"),
    "cluster.gpu_type": tuple(peaks()),
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
    "model.family": tuple(PATCH_SIZE),
    "model.dtype": ("float32", "bfloat16", "float16"),
    "model.build.pretraining.world": ("cvsbench", "monosr"),
    "model.attention": ("auto", "sdpa", "eager", "flash_attention_2"),
    "sft.scheduler": ("cosine", "linear", "constant", "constant_with_warmup"),
    "sft.take": ("last", "best"),
    "grpo.take": ("last", "best"),
    "sft.shard": ("none", "zero2", "zero3", "fsdp"),
    "eval.engine": ENGINES,
    "grpo.monitors.stop_on": tuple(MONITORS),
    "grpo.kl_type": ("low_var_kl", "kl", "abs", "mse", "full"),
}  # fmt: skip
AT_LEAST: dict[str, float] = {
    **dict.fromkeys(
        (
            "cluster.gpus", "cluster.nodes", "cluster.cpus", "cluster.cpu_jobs.cpus", "cluster.signal",
            "cluster.max_cells", "cluster.start_timeout",
            "sft.epochs", "sft.max_steps", "sft.batch_size", "sft.save_every",
            "grpo.epochs", "grpo.max_steps", "grpo.batch_size", "grpo.mini_batch_size", "grpo.save_every",
            "grpo.keep_checkpoints", "sft.keep_checkpoints", "grpo.tensor_parallel", "grpo.monitors.window",
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
    "cluster.gpu_price": 0,
    **dict.fromkeys(("grpo.warmup_steps", "grpo.probe.rows", "sft.lora.rank", "grpo.lora.rank"), 0),
    **dict.fromkeys(("sft.validation_rows", "grpo.validation_rows"), 0),
    "cluster.max_restarts": 0,
    **dict.fromkeys(("data.observability.min_area", "data.observability.min_size"), 0),
    **dict.fromkeys(("generation.blind.times", "generation.arrows.axis_margin"), 0),
    **dict.fromkeys(("eval.temperature", "eval.rotate_options", "teacher.retries", "teacher.max_cost"), 0),
    **dict.fromkeys(("data.views_miniature.retries", "data.views_miniature.max_cost", "report.port"), 0),
    **dict.fromkeys(("data.wording.retries", "data.wording.max_cost"), 0),
    "generation.balance": 1,
}  # fmt: skip
ABOVE_ZERO = (
    "cluster.gpu_memory",
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
ADDRESSES = ("teacher.base_url", "eval.endpoint.base_url", "data.views_miniature.base_url")
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
    for stage in ("sft", "grpo"):
        if stage in sections and config[stage].take == "best" and not config[stage].validation_rows:
            yield (
                f"{stage}.take=best has nothing to choose by: set {stage}.validation_rows= (256, say), or "
                f"{stage}.take=last."
            )
    if "model" in sections:
        yield from _lora(config)
        yield from _base(config)
    for key in ADDRESSES:
        if (value := _value(config, key, sections)) is not None and has_password(str(value)):
            yield f"{key} holds a password, which would be kept in config.yaml: give the key by ..._env=NAME."
    for name in ("sft", "grpo"):
        for text in config[name].overrides if name in sections else []:
            if any(word in str(text).lower() for word in SECRET_WORDS):
                yield (
                    f"{name}.overrides seems to hold a secret, which would reach the disk: "
                    "use the environment."
                )


def _lora(config: DictConfig) -> Iterator[str]:
    if not config.model.lora_targets and (config.sft.lora.rank or config.grpo.lora.rank):
        yield "model.lora_targets is empty, so lora.rank trains nothing: name modules, as [q_proj,v_proj]."
    if config.model.lora_exclude is not None:
        try:
            re.compile(config.model.lora_exclude)
        except re.error as error:
            yield f"model.lora_exclude={config.model.lora_exclude} is no regular expression ({error})."


def _base(config: DictConfig) -> Iterator[str]:
    made = None if config.model.build is None else config.model.build.pretraining
    if made is not None and made.world == "cvsbench" and made.side is not None:
        yield (
            f"model.build.pretraining.side={made.side} does nothing here: pictures of world=cvsbench have "
            "a size of their own. Leave it out, or set model.build.pretraining.world=monosr."
        )


def _value(config: DictConfig, key: str, sections: set[str]) -> Any:
    if key.split(".")[0] not in sections or is_unset(config, key):
        return None
    value = OmegaConf.select(config, key)
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
