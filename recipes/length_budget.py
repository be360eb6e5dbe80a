"""Prompts that are longer than the model's budget are named before training. None is ever cut."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import write_jsonl
from data_prep.errors import UserError
from data_prep.prompts import PromptSpec, build_messages
from data_prep.rows import Row
from data_prep.tokens import ImageBudget, TileBudget, prompt_tokens

NAMED = 5  # ids that an error message names
WAY_OUT = "Raise model.max_prompt_tokens or lower model.max_image_tokens."


def refusal(what: str, rows: int, limit: int, faults: dict[str, str], listed: str = "") -> UserError:
    """The error for rows that cannot be trained on.

    Args:
        what: the set, as in "RL".
        faults: row id to its length or fault.
        listed: a sentence that says where all of them are listed.
    """
    return UserError(
        f"{len(faults)} of {rows} {what} rows cannot be trained on with "
        f"model.max_prompt_tokens={limit}: {named(faults)}. {listed}{WAY_OUT}"
    )


def named(faults: dict[str, str]) -> str:
    """The first few rows, each with its length or fault."""
    return "; ".join(f"{row_id} ({reason})" for row_id, reason in list(faults.items())[:NAMED])


def in_words(lengths: dict[str, int]) -> dict[str, str]:
    """Row id to its length in words."""
    return {row_id: f"{tokens} tokens" for row_id, tokens in lengths.items()}


def image_budget(processor: Any) -> ImageBudget | TileBudget:
    """The arithmetic of a loaded processor's pictures."""
    image = processor.image_processor
    if hasattr(image, "max_patches"):
        return TileBudget(image.size.height, image.max_patches, processor.image_seq_length)
    return ImageBudget(image.patch_size, image.size.shortest_edge, image.size.longest_edge, image.merge_size)


def lengths(rows: Iterable[Row], prompt: PromptSpec, processor: Any) -> Iterable[tuple[Row, int]]:
    """Every row with the tokens of its prompt, as SFT and evaluation give it to the model."""
    budget = image_budget(processor)

    def count_text(text: str) -> int:
        return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"])

    for row in rows:
        messages = build_messages(row, prompt)
        text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        sizes = [(image.width, image.height) for image in row.images]
        yield row, prompt_tokens(text, sizes, budget, count_text)


def too_long(rows: Iterable[Row], prompt: PromptSpec, processor: Any, limit: int) -> dict[str, int]:
    """Row id to tokens, of the rows whose prompt has more than `limit` tokens."""
    return _above({row.id: tokens for row, tokens in lengths(rows, prompt, processor)}, limit)


def _above(tokens: dict[str, int], limit: int) -> dict[str, int]:
    return {row_id: count for row_id, count in tokens.items() if count > limit}


def forewarn(rows: Iterable[Row], prompt: PromptSpec, processor: Any, model: DictConfig) -> None:
    """Say before SFT which RL rows GRPO will refuse, so that hours of training do not end there."""
    if os.environ.get("RANK", "0") != "0":
        return
    limit = model.max_prompt_tokens
    faults = too_long(rows, prompt, processor, limit)
    if faults:
        print(
            f"RL: {len(faults)} rows are longer than model.max_prompt_tokens={limit}, and launch grpo will "
            f"refuse them: {named(in_words(faults))}. {WAY_OUT}",
            flush=True,
        )


def check(
    what: str, rows: Sequence[Row], prompt: PromptSpec, processor: Any, model: DictConfig, folder: Path
) -> dict[str, int]:
    """Row id to the tokens of its prompt, when every one fits; say how many pictures are scaled down.

    Raises:
        UserError: some do not; `folder/too_long.jsonl` lists them all with their lengths.
    """
    limit = model.max_prompt_tokens
    tokens = {row.id: count for row, count in lengths(rows, prompt, processor)}
    faults = _above(tokens, limit)
    target = folder / "too_long.jsonl"
    if faults:
        write_jsonl(target, ({"id": i, "tokens": n, "limit": limit} for i, n in faults.items()))
        raise refusal(what, len(rows), limit, in_words(faults), f"All are listed in {target}. ")
    target.unlink(missing_ok=True)
    budget = image_budget(processor)
    shown = {image.path: (image.width, image.height) for row in rows for image in row.images}
    shrunk = sum(budget.shrinks(*size) for size in shown.values())
    if shrunk and os.environ.get("RANK", "0") == "0":
        print(
            f"{what}: {shrunk} of {len(shown)} pictures are scaled down to "
            f"model.max_image_tokens={model.max_image_tokens}",
            flush=True,
        )
    return tokens
