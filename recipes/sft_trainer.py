"""TRL's trainer as this package runs it: schedule, log, validation, and checkpoints that are whole."""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Image, List, Value
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import SFTConfig, SFTTrainer

from data_prep.atomic import JsonlLog
from data_prep.rows import Example
from recipes import checkpoints, stop
from recipes.backbone import parameter_counts
from recipes.length_order import LengthOrder
from recipes.progress import StepProgress
from recipes.run_dir import RunDir
from recipes.sft_stop import SaveAndStop
from recipes.tracking import metrics_log

STATE = "trainer_state.json"
LOSS = "eval_loss"  # transformers' name of the validation loss


def train(
    run: RunDir,
    title: str,
    model: Any,
    processor: Any,
    examples: Sequence[Example],
    arguments: SFTConfig,
    adapter: Any = None,
    schedule_steps: int = 0,
    validation: Sequence[Example] = (),
    keep: int = 1,
    lengths: Sequence[float] = (),
) -> "ScheduledTrainer":
    """Train `model` on the completions of `examples`, from `run`'s last whole checkpoint if there is one.

    The last step is always saved; whoever wants the weights takes them from `checkpoint_of`, where they are
    gathered, however training was spread over processes.

    Args:
        schedule_steps: the learning rate goes down over so many steps where these are more than are taken.
        validation: held-out examples, measured at every step that is saved.
        keep: checkpoints that stand at any time, besides the best.
        lengths: of every example, about; then those of an update meet by length (`recipes.length_order`).
    """
    trainer = ScheduledTrainer(
        model=model,
        args=arguments,
        train_dataset=training_set(examples),
        eval_dataset=training_set(validation) if validation else None,
        processing_class=processor,
        callbacks=[MetricsCallback(run, title)],
        peft_config=adapter,
    )
    trainer.schedule_steps, trainer.keep, trainer.lengths = schedule_steps, keep, lengths
    # The classes of vision-language models refuse the number of an update's tokens, but it is trl's loss, not
    # theirs, that divides by it. Without it every micro-batch counts alike, however many tokens it has.
    trainer.model_accepts_loss_kwargs = True
    trainer.counts = parameter_counts(trainer.model)  # before it is cut up over processes
    trainer.remove_callback(PrinterCallback)
    if stop.listens(run.config):
        trainer.add_callback(SaveAndStop(run.path))
    folder = Path(arguments.output_dir)
    first = trainer.is_world_process_zero()
    whole, damaged = checkpoints.sort_out(folders(folder), checkpoints.fault, title, quiet=not first)
    trainer.accelerator.wait_for_everyone()  # everybody has looked
    if first:
        for path in damaged:
            shutil.rmtree(path)
    newest = max(whole, default=0)
    if newest >= arguments.max_steps:
        # transformers would take one step more.
        trainer.state = TrainerState.load_from_json(str(whole[newest] / STATE))
    else:
        trainer.train(resume_from_checkpoint=str(whole[newest]) if whole else None)
    return trainer


def stopped(trainer: "ScheduledTrainer") -> bool:
    """Whether `train` ended before its last step, as its job asked it to."""
    return trainer.state.global_step < trainer.state.max_steps


def folders(folder: Path) -> dict[int, Path]:
    """Step to checkpoint, whole or not."""
    return {int(path.name.split("-")[1]): path for path in folder.glob("checkpoint-*")}


def latest(folder: Path) -> str | None:
    """The newest checkpoint that is whole; damaged ones are told."""
    whole, _ = checkpoints.sort_out(folders(folder), checkpoints.fault, "SFT")
    return str(whole[max(whole)]) if whole else None


def checkpoint_of(trainer: "ScheduledTrainer", take: str = "last") -> Path:
    """The folder of the last checkpoint, or of the best by validation."""
    found = folders(Path(trainer.args.output_dir))
    step = max(found)
    if take == "best":
        best = checkpoints.best_step(trainer.state.log_history, LOSS, highest=False, among=found)
        step = step if best is None else best
    return found[step]


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


class ScheduledTrainer(SFTTrainer):
    """A run that stops early (`max_steps`) has learned as the whole run has until then.

    A checkpoint is sealed when every process has written its part, and old ones go only then.
    """

    schedule_steps = 0
    keep = 1
    lengths: Sequence[float] = ()
    counts: dict[str, int]

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        return super().create_scheduler(max(num_training_steps, self.schedule_steps), optimizer)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        micro_batches = self.args.gradient_accumulation_steps * self.args.world_size
        if not self.lengths or micro_batches == 1 or self.args.train_sampling_strategy != "random":
            return super()._get_train_sampler(train_dataset)
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        return LengthOrder(self.lengths, self.args.train_batch_size * micro_batches, seed)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """None: trl's would name neither data nor recipe; `recipes.model_card` writes one that does."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if not self.is_world_process_zero():
            return
        found = folders(Path(self.args.output_dir))
        checkpoints.seal(found[self.state.global_step])
        best = checkpoints.best_step(self.state.log_history, LOSS, highest=False, among=found)
        for step in checkpoints.superfluous(found, self.keep, best):
            shutil.rmtree(found[step])


class MetricsCallback(TrainerCallback):
    """Copies the trainer's log to metrics.jsonl, a line a step, and shows how far it is."""

    def __init__(self, run: RunDir, title: str) -> None:
        self.run, self.title = run, title
        self.log: JsonlLog | None = None
        self.progress: StepProgress | None = None
        self.logged = 0.0  # when the last step was
        self.waiting: dict[str, Any] | None = None  # the numbers of a step that is still to be validated

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
        if self.log is None or self.progress is None or not logs:
            return
        if LOSS in logs and self.waiting is not None:
            if math.isfinite(float(logs[LOSS])):
                self.waiting["validation_loss"] = float(logs[LOSS])
            self.log.append(self.waiting)
            self.waiting = None
        if "loss" not in logs:
            return
        numbers = {key: float(value) for key, value in logs.items() if math.isfinite(float(value))}
        numbers["lr"] = numbers.pop("learning_rate", 0.0)
        numbers["seconds"], self.logged = time.monotonic() - self.logged, time.monotonic()
        record = {"step": state.global_step, **numbers}
        if control.should_evaluate:
            self.waiting = record
        else:
            self.log.append(record)
        self.progress.update(state.global_step, f"loss {numbers.get('loss', math.nan):.3f}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if self.progress is not None and self.log is not None:
            self.progress.__exit__(None, None, None)
            self.log.close()
