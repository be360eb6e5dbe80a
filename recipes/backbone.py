"""Load a vision-language model and its processor the same way for SFT, rollouts and evaluation."""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from transformers import AutoModelForImageTextToText, AutoProcessor

from data_prep.errors import UserError
from data_prep.tokens import PATCH_SIZE, token_side

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
PIXELS_PER_TOKEN = {family: token_side(family) ** 2 for family in PATCH_SIZE}


def attention(model: DictConfig) -> str:
    """The attention implementation: `auto` takes flash-attention where it is installed, else sdpa."""
    if model.attention != "auto":
        return model.attention
    return "flash_attention_2" if model.device == "cuda" and find_spec("flash_attn") else "sdpa"


def load_model(path: str, model: DictConfig) -> torch.nn.Module:
    """The model at `path` (folder or hub id) in the configured dtype, on the CPU, in evaluation mode."""
    if not Path(path).exists() and path.startswith(("/", ".")):
        raise UserError(f"there is no checkpoint at {path}.")
    return AutoModelForImageTextToText.from_pretrained(
        path, dtype=DTYPES[model.dtype], attn_implementation=attention(model)
    ).eval()


def load_processor(path: str, model: DictConfig) -> Any:
    """The processor at `path`, with the image budget of the configuration, padding on the left.

    Raises:
        UserError: the folder yields a bare tokenizer, which would drop the pictures without a word.
    """
    processor = AutoProcessor.from_pretrained(path)
    if not hasattr(processor, "image_processor"):
        raise UserError(
            f"{path} holds a tokenizer but no processor for pictures; save the processor there too."
        )
    # "longest_edge" is the name of the budget in pixels of the whole picture, not of an edge.
    processor.image_processor.size.longest_edge = model.max_image_tokens * PIXELS_PER_TOKEN[model.family]
    processor.tokenizer.padding_side = "left"
    return processor
