"""Checks `sft.overrides`, the keys of TRL's SFTConfig that a user gives, against the installed classes.

Their fields are read from the packages' source files: importing them would load torch. Refused are keys that
no class has, keys whose value belongs to a key of ours, keys that these runs rely on, and those that TRL or
transformers would take and never look at.
"""

import ast
import difflib
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from data_prep.errors import UserError
from recipes.user_overrides import parse, refuse

WHERE = "sft.overrides"
# Files of a package with the class whose fields they declare; later ones override earlier ones.
CLASSES = (
    ("transformers", "training_args.py", "TrainingArguments"),
    ("trl", "trainer/base_config.py", "_BaseConfig"),
    ("trl", "trainer/sft_config.py", "SFTConfig"),
)
ENUMS = (("transformers", "training_args.py"), ("transformers", "trainer_utils.py"))

OURS = {
    "learning_rate": "sft.lr and model.lr_scale.sft",
    "num_train_epochs": "sft.epochs",
    "max_steps": "sft.max_steps",
    "per_device_train_batch_size": "model.sft_micro_batch_size",
    "gradient_accumulation_steps": "sft.batch_size",
    "lr_scheduler_type": "sft.scheduler",
    "warmup_steps": "sft.warmup_steps",
    "weight_decay": "sft.weight_decay",
    "adam_beta2": "sft.adam_beta2",
    "max_grad_norm": "sft.max_grad_norm",
    "seed": "seed",
    "bf16": "model.dtype",
    "fp16": "model.dtype",
    "use_cpu": "model.device",
    "gradient_checkpointing": "model.gradient_checkpointing",
    "save_steps": "sft.save_every",
    "deepspeed": "sft.shard",
    "fsdp": "sft.shard",
    "fsdp_config": "sft.shard",
    "report_to": "logger",
}
NO_PUSH = "nothing is pushed while it trains; launch export does that"
HELD_OUT = "the stage itself measures sft.validation_rows every sft.save_every steps"
RELIED_ON = {
    "output_dir": "checkpoints are resumed from there",
    "resume_from_checkpoint": "the last whole checkpoint is found by the stage",
    "save_strategy": "the stage resumes from its checkpoints; set sft.save_every",
    "save_only_model": "a checkpoint without its optimizer cannot be resumed from",
    "save_total_limit": "set sft.keep_checkpoints",
    **dict.fromkeys(
        (
            "eval_strategy", "eval_steps", "eval_delay", "eval_on_start", "eval_accumulation_steps",
            "eval_do_concat_batches", "eval_use_gather_object", "eval_packing", "per_device_eval_batch_size",
            "prediction_loss_only", "bf16_full_eval", "fp16_full_eval", "include_for_metrics",
            "batch_eval_metrics", "metric_for_best_model", "greater_is_better", "load_best_model_at_end",
        ),
        HELD_OUT,
    ),
    "completion_only_loss": "the prompt carries no loss",
    "assistant_only_loss": "the prompt carries no loss, and TRL refuses it for pictures",
    "max_length": "a prompt that is cut inside a picture is no prompt; set model.max_prompt_tokens",
    "packing": "TRL refuses it for pictures",
    "padding_free": "TRL refuses it for pictures",
    "chat_template_path": "GRPO and evaluation take the checkpoint's own template",
    "eos_token": "GRPO and evaluation stop at the checkpoint's own tokens",
    "pad_token": "GRPO and evaluation pad with the checkpoint's own token",
    "remove_unused_columns": "the pictures are a column that the model's signature lacks",
    "ddp_find_unused_parameters": "every parameter has a gradient",
    "logging_steps": "metrics.jsonl has every step",
    "logging_strategy": "metrics.jsonl has every step",
    "disable_tqdm": "the stage shows its own progress",
    "push_to_hub": NO_PUSH,
    "hub_token": NO_PUSH,
    "auto_find_batch_size": "the batch would no longer be sft.batch_size; lower model.sft_micro_batch_size",
}  # fmt: skip
LOADED = "the model and its processor are loaded before TRL sees them"
NO_TEXT_PREPARATION = "TRL prepares no text where rows have pictures"
NO_REPORT = "the trainer reports to nobody; logger=wandb copies metrics.jsonl"
IGNORED = {
    "model_init_kwargs": LOADED,
    "trust_remote_code": LOADED,
    "dataset_text_field": NO_TEXT_PREPARATION,
    "dataset_num_proc": NO_TEXT_PREPARATION,
    "dataset_kwargs": NO_TEXT_PREPARATION,
    "shuffle_dataset": NO_TEXT_PREPARATION,
    "packing_strategy": "rows with pictures are not packed",
    "truncation_mode": "no row is ever cut",
    **dict.fromkeys(
        ("run_name", "project", "logging_dir", "trackio_space_id", "trackio_bucket_id",
         "trackio_static_space_id"),
        NO_REPORT,
    ),
    **dict.fromkeys(
        ("hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push", "hub_revision"), NO_PUSH
    ),
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), "only scripts of transformers read it"),
    "local_rank": "the launcher sets the environment variable LOCAL_RANK",
}  # fmt: skip
RENAMED = {
    "warmup_ratio": "sft.warmup_steps",
    "max_seq_length": "model.max_prompt_tokens; no row is ever cut",
    "per_gpu_train_batch_size": "model.sft_micro_batch_size",
    "group_by_length": "train_sampling_strategy=group_by_length",
    "no_cuda": "model.device=cpu",
    "torch_dtype": "model.dtype",
    "evaluation_strategy": "sft.validation_rows and sft.save_every",
    "overwrite_output_dir": "nothing: a run directory is resumed, never overwritten",
    "save_safetensors": "nothing: weights are always written as safetensors",
    "half_precision_backend": "model.dtype",
    "fp16_backend": "model.dtype",
    "include_tokens_per_second": "include_num_input_tokens_seen",
    "tokenizer": "nothing: the checkpoint's own is taken",
    "dispatch_batches": "accelerator_config={dispatch_batches:true}",
    "split_batches": "accelerator_config={split_batches:true}",
    "use_mps_device": "nothing: torch's device is found",
}


def values(given: list[str]) -> dict[str, Any]:
    """The arguments that `given` ("key=value" each) sets.

    Raises:
        UserError: the first one that cannot be taken, with the reason and what to set instead.
    """
    if not given:
        return {}
    known = fields()
    taken = {}
    for text in given:
        override = parse(WHERE, text)
        key = override.key_or_group
        refuse(
            WHERE,
            text,
            key,
            (
                (IGNORED, "it would be ignored: {}"),
                (RENAMED, f"transformers {_version('transformers')} no longer goes by that name: write {{}}"),
                (OURS, "its value is held by {}; set that"),
                (RELIED_ON, "{}"),
            ),
        )
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise UserError(
                f"{WHERE}: TRL {_version('trl')}'s SFTConfig has no key {key}; did you mean {nearest}?"
            )
        taken[key] = override.value()
        if (wanted := _misfit(taken[key], known[key])) is not None:
            raise UserError(f"{WHERE}: {text!r} cannot be taken; {key} takes {wanted}.")
    return taken


@cache
def fields() -> dict[str, str]:
    """Every field of SFTConfig with its annotation as source text.

    Raises:
        UserError: TRL or transformers is not installed.
    """
    found = {}
    for package, file, name in CLASSES:
        tree = _tree(package, file)
        body = next((n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), [])
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = ast.unparse(node.annotation)
    return found


@cache
def choices() -> dict[str, tuple[str, ...]]:
    """Every enumeration of transformers' arguments with its values."""
    found = {}
    for package, file in ENUMS:
        for node in _tree(package, file).body:
            if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
                found[node.name] = tuple(
                    line.value.value
                    for line in node.body
                    if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
                )
    return found


def _misfit(value: Any, annotation: str) -> str | None:
    """What a field of this annotation takes, where `value` is nothing of it."""
    words = {part.strip().split("[")[0] for part in annotation.split("|")}
    enum = next((choices()[word] for word in words if word in choices()), None)
    if enum is not None:
        return None if value in enum else f"one of {', '.join(enum)}"
    kinds = {
        "bool": (bool,),
        "int": (int,),
        "float": (int, float),
        "str": (str,),
        "dict": (dict,),
        "list": (list,),
    }
    allowed = tuple(kind for word in words for kind in kinds.get(word, ()))
    if not allowed or (value is None and "None" in words):
        return None
    if isinstance(value, bool) and bool not in allowed:
        return annotation
    return None if isinstance(value, allowed) else annotation


def _tree(package: str, file: str) -> ast.Module:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UserError(f"SFT needs {package}: pip install '{package}'.")
    return ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))


def _version(package: str) -> str:
    return version(package)
