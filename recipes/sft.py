"""Supervised fine-tuning with TRL under accelerate: completion-only loss, full weights or LoRA.

    python -m recipes sft RUN_DIR                              one process
    accelerate launch ... -m recipes sft RUN_DIR               several GPUs (DeepSpeed ZeRO or FSDP)

    checkpoints/checkpoint-N   to resume from: the newest few, and the best by validation
    adapter/                   of a LoRA, as it was trained
    checkpoint/                the model: merged weights, processor, generation configuration, model card

`launch sft` writes the run directory and picks the command. Left out on purpose: packing (it would mix
scenes of one picture budget) and truncation (a prompt cut inside a picture is no prompt).
"""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import math
import os
import shutil
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from trl import SFTConfig

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.prompts import PromptSpec, build_messages, prompt_of_set
from data_prep.rows import Example, Row
from recipes import backbone, checkpoints, length_budget, sft_arguments, stop
from recipes.backbone import load_model, load_processor
from recipes.held_out import held_out_groups
from recipes.model_card import card
from recipes.model_folder import ModelFolder
from recipes.row_lengths import CHARACTERS
from recipes.run_dir import RunDir
from recipes.step_counts import sft_steps, sft_whole
from recipes.sft_trainer import checkpoint_of, stopped, train
from recipes.stages import checkpoint_path

# What no configuration may change: the prompt carries no loss and is never cut, every step is logged by us.
FIXED_ARGUMENTS: dict[str, Any] = {
    "completion_only_loss": True,
    "max_length": None,
    "logging_steps": 1,
    "report_to": "none",
    "disable_tqdm": True,
}


def run(run: RunDir) -> int:
    """Train on the SFT half from the base model; continue from the last whole checkpoint if there is one.

    Returns 0, or `stop.STOPPED` when its job asked it to end before the last step.

    Raises:
        UserError: no rows, or prompts that are longer than `model.max_prompt_tokens`.
    """
    config = run.config
    prep = run.inputs["prep"]
    prompt = prompt_of_set(prep.config)
    rows = [Row.from_json(record) for record in read_jsonl(prep.path / "rows" / "sft.jsonl")]
    if not rows:
        raise UserError(f"{prep.path}/rows/sft.jsonl has no rows; look at {prep.path}/manifest.json.")
    base = checkpoint_path(run, "base")
    processor = load_processor(base, config.model)
    tokens = length_budget.check("SFT", rows, prompt, processor, config.model, run.path)
    rl_rows = map(Row.from_json, read_jsonl(prep.path / "rows" / "rl.jsonl"))
    length_budget.forewarn(rl_rows, prompt, processor, config.model)
    aside = held_out_groups(
        [row.group for row in rows], config.sft.validation_rows, config.seed, "sft.validation_rows"
    )
    kept = [row for row in rows if row.group not in aside]
    images = prep.path / "images"
    model = load_model(base, config.model)
    if config.model.freeze_vision:
        backbone.freeze_vision(model)
    trainer = train(
        run,
        "SFT",
        model,
        processor,
        [example(row, prompt, images) for row in kept],
        training_arguments(config, run.path / "checkpoints", len(kept)),
        lora(config),
        sft_whole(config, len(kept)),
        [example(row, prompt, images) for row in rows if row.group in aside],
        config.sft.keep_checkpoints,
        [tokens[row.id] + len(row.reasoning or "") / CHARACTERS for row in kept],
    )
    if stopped(trainer):
        return stop.STOPPED
    if trainer.is_world_process_zero():
        source = checkpoint_of(trainer, config.sft.take)
        facts = {"rows": len(kept), "steps": trainer.state.global_step, "prompt": prompt.hash, "base": base}
        facts |= {"parameters": trainer.counts}
        if aside:
            facts |= {"validation_rows": len(rows) - len(kept), "taken": source.name}
        save(run, source, base, processor, facts)
        run.finish(facts | {"chat_template": ModelFolder(run.path / "checkpoint").template_hash})
    return 0


def example(row: Row, prompt: PromptSpec, images: Path) -> Example:
    """A row of the SFT half as a training example; `images` is the folder its picture paths start from."""
    assert row.reasoning is not None, row.id
    paths = tuple(str(images / image.path) for image in row.images)
    return Example(build_messages(row, prompt), row.reasoning, paths)


def training_arguments(config: DictConfig, output: Path, rows: int) -> SFTConfig:
    """TRL's arguments from the `sft` and `model` sections; the batch size is kept whatever the GPUs."""
    sft, model = config.sft, config.model
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    micro = min(model.sft_micro_batch_size, max(1, sft.batch_size // processes))
    accumulation = math.ceil(sft.batch_size / (micro * processes))
    if micro * processes * accumulation != sft.batch_size:
        raise UserError(
            f"sft.batch_size={sft.batch_size} is not {processes} processes times "
            f"model.sft_micro_batch_size={micro} times a whole number; change one of them."
        )
    own = dict(
        output_dir=str(output),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        max_steps=sft_steps(config, rows),
        learning_rate=sft.lr * model.lr_scale.sft,
        lr_scheduler_type=sft.scheduler,
        warmup_steps=sft.warmup_steps,
        weight_decay=sft.weight_decay,
        adam_beta2=sft.adam_beta2,
        max_grad_norm=sft.max_grad_norm,
        seed=config.seed,
        bf16=model.dtype == "bfloat16",
        use_cpu=model.device == "cpu",
        gradient_checkpointing=model.gradient_checkpointing,
        save_steps=sft.save_every,
        eval_strategy="steps" if sft.validation_rows else "no",
        eval_steps=sft.save_every,
        per_device_eval_batch_size=micro,
        dataloader_num_workers=1 if model.device == "cpu" else 4,
        ddp_find_unused_parameters=False,
        **FIXED_ARGUMENTS,
    )
    return SFTConfig(**{**own, **sft_arguments.values(list(sft.overrides))})


def lora(config: DictConfig) -> Any:
    """The adapter's configuration, or None to train every weight.

    By default it is on linear layers of the language model: rollout engines ignore one on the vision tower.
    """
    if config.sft.lora.rank == 0:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=config.sft.lora.rank,
        lora_alpha=config.sft.lora.alpha,
        lora_dropout=config.sft.lora.dropout,
        target_modules=list(config.model.lora_targets),
        exclude_modules=config.model.lora_exclude,
        task_type="CAUSAL_LM",
    )


def merged(source: Path, base: str, model: DictConfig) -> Any:
    """The model of a training checkpoint: its weights, or its adapter merged into those of `base`.

    This is done by one process from what was saved, for saving has gathered the weights that training had
    spread over processes (FSDP, ZeRO-3); merged there, each would have merged a part.

    Raises:
        UserError: the checkpoint is damaged.
    """
    if not (source / "adapter_config.json").exists():
        return load_model(str(source), model)
    if wrong := checkpoints.fault(source):
        raise UserError(f"the adapter {source} is damaged ({wrong}); the same command trains it again.")
    from peft import PeftModel

    adapted = PeftModel.from_pretrained(load_model(base, model), str(source))
    return adapted.merge_and_unload(safe_merge=True)  # refuses what is not finite


def save(run: RunDir, source: Path, base: str, processor: Any, facts: dict[str, Any]) -> None:
    """Write `checkpoint`, and `adapter` of a LoRA, from a training checkpoint; one process does this."""
    if (source / "adapter_config.json").exists():
        with checkpoints.saving(run.path / "adapter") as temporary:
            for path in source.glob("adapter_*"):
                shutil.copy2(path, temporary)
    model = merged(source, base, run.config.model)
    checkpoints.save_model(run.path / "checkpoint", model, processor, card(run, facts))
    if run.config.model.freeze_vision:
        backbone.check_frozen(base, str(run.path / "checkpoint"))
