"""Supervised fine-tuning with TRL under accelerate: completion-only loss, full weights or LoRA.

    python -m recipes sft RUN_DIR                              one process
    accelerate launch ... -m recipes sft RUN_DIR               several GPUs (DeepSpeed ZeRO or FSDP)

`launch sft` writes the run directory and picks the command. Left out on purpose: packing (it would mix
scenes of one picture budget) and truncation (a prompt cut inside a picture is no prompt).
"""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Image, List, Value
from omegaconf import DictConfig
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import SFTConfig, SFTTrainer

from data_prep.atomic import JsonlLog, read_jsonl
from data_prep.errors import UserError
from data_prep.prompts import PromptSpec, build_messages, prompt_of_set
from data_prep.rows import Example, Row
from recipes import length_budget, stop
from recipes.backbone import load_model, load_processor
from recipes.checkpoints import save_model, saving
from recipes.progress import StepProgress
from recipes.run_dir import RunDir
from recipes.run_progress import whole_steps
from recipes.sft_stop import SaveAndStop
from recipes.stages import checkpoint_path
from recipes.tracking import metrics_log

# Linear layers of the language model; a LoRA on the vision tower is ignored by rollout engines.
LORA_TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
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
    length_budget.check("SFT", rows, prompt, processor, config.model, run.path)
    rl_rows = map(Row.from_json, read_jsonl(prep.path / "rows" / "rl.jsonl"))
    length_budget.forewarn(rl_rows, prompt, processor, config.model)
    trainer = train(
        run,
        "SFT",
        load_model(base, config.model),
        processor,
        [example(row, prompt, prep.path / "images") for row in rows],
        training_arguments(config, run.path / "checkpoints", len(rows)),
        lora(config.sft.lora),
        whole_steps(config, len(rows)),
    )
    if stopped(trainer):
        return stop.STOPPED
    save(trainer, processor, run.path)
    if trainer.is_world_process_zero():
        run.finish(
            {"rows": len(rows), "steps": trainer.state.global_step, "prompt": prompt.hash, "base": base}
        )
    return 0


def stopped(trainer: SFTTrainer) -> bool:
    """Whether `train` ended before its last step, as its job asked it to."""
    return trainer.state.global_step < trainer.state.max_steps


def train(
    run: RunDir,
    title: str,
    model: Any,
    processor: Any,
    examples: Sequence[Example],
    arguments: SFTConfig,
    adapter: Any = None,
    schedule_steps: int = 0,
) -> SFTTrainer:
    """Train `model` on the completions of `examples`, from `run`'s last whole checkpoint if there is one.

    The learning rate goes down over `schedule_steps` where these are more than the steps that are taken.
    """
    trainer = ScheduledTrainer(
        model=model,
        args=arguments,
        train_dataset=training_set(examples),
        processing_class=processor,
        callbacks=[MetricsCallback(run, title)],
        peft_config=adapter,
    )
    trainer.schedule_steps = schedule_steps
    trainer.remove_callback(PrinterCallback)
    if stop.listens(run.config):
        trainer.add_callback(SaveAndStop(run.path))
    trainer.train(resume_from_checkpoint=latest(Path(arguments.output_dir)))
    return trainer


def example(row: Row, prompt: PromptSpec, images: Path) -> Example:
    """A row of the SFT half as a training example; `images` is the folder its picture paths start from."""
    assert row.reasoning is not None, row.id
    paths = tuple(str(images / image.path) for image in row.images)
    return Example(build_messages(row, prompt), row.reasoning, paths)


def training_set(examples: Sequence[Example]) -> Dataset:
    """`prompt`, `completion` and `images` columns; pictures are decoded when a batch needs them."""
    part = {"type": Value("string"), "text": Value("string")}
    turn = {"role": Value("string"), "content": List(part)}
    features = Features({"prompt": List(turn), "completion": List(turn), "images": List(Image())})
    records = [
        {
            "prompt": [
                {**message, "content": [{"text": None, **p} for p in message["content"]]}
                for message in messages
            ],
            "completion": [{"role": "assistant", "content": [{"type": "text", "text": completion}]}],
            "images": list(images),
        }
        for messages, completion, images in examples
    ]
    return Dataset.from_list(records, features=features)


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
    return SFTConfig(
        output_dir=str(output),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=accumulation,
        max_steps=sft.max_steps or whole_steps(config, rows),
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
        save_total_limit=2,
        dataloader_num_workers=1 if model.device == "cpu" else 4,
        ddp_find_unused_parameters=False,
        **FIXED_ARGUMENTS,
    )


def lora(config: DictConfig) -> Any:
    """The adapter's configuration, or None to train every weight."""
    if config.rank == 0:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=LORA_TARGETS,
        task_type="CAUSAL_LM",
    )


def latest(folder: Path) -> str | None:
    """The newest checkpoint that was written to its end (the trainer's state is written last)."""
    whole = [path for path in folder.glob("checkpoint-*") if (path / "trainer_state.json").is_file()]
    return str(max(whole, key=lambda path: int(path.name.split("-")[1]))) if whole else None


def save(trainer: SFTTrainer, processor: Any, folder: Path) -> None:
    """Write `checkpoint`: merged weights as safetensors, with the processor. Every process takes part."""
    adapter = hasattr(trainer.model, "merge_and_unload")
    if adapter and trainer.is_world_process_zero():
        with saving(folder / "adapter") as temporary:
            trainer.model.save_pretrained(temporary)
    # Sharded weights are gathered from every process, so all of them must ask.
    weights = None if adapter else trainer.accelerator.get_state_dict(trainer.model)
    if trainer.is_world_process_zero():
        model = trainer.accelerator.unwrap_model(trainer.model)
        save_model(folder / "checkpoint", model.merge_and_unload() if adapter else model, processor, weights)


class ScheduledTrainer(SFTTrainer):
    """A run that stops early (`max_steps`) has learned as the whole run has until then."""

    schedule_steps = 0

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        return super().create_scheduler(max(num_training_steps, self.schedule_steps), optimizer)


class MetricsCallback(TrainerCallback):
    """Copies the trainer's log to metrics.jsonl and shows how far it is."""

    def __init__(self, run: RunDir, title: str) -> None:
        self.run, self.title = run, title
        self.log: JsonlLog | None = None
        self.progress: StepProgress | None = None
        self.logged = 0.0  # when the last step was

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.is_world_process_zero:
            self.log = metrics_log(self.run)
            self.progress = StepProgress(self.title, state.max_steps, already=state.global_step).__enter__()
            self.logged = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Any = None,
        **_: Any,
    ) -> None:
        if self.log is None or self.progress is None or not logs or "loss" not in logs:
            return
        numbers = {key: float(value) for key, value in logs.items() if math.isfinite(float(value))}
        numbers["lr"] = numbers.pop("learning_rate", 0.0)
        numbers["seconds"], self.logged = time.monotonic() - self.logged, time.monotonic()
        self.log.append({"step": state.global_step, **numbers})
        self.progress.update(state.global_step, f"loss {numbers.get('loss', math.nan):.3f}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if self.progress is not None and self.log is not None:
            self.progress.__exit__(None, None, None)
            self.log.close()
