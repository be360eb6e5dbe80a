"""Load a vision-language model and its processor the same way for SFT, rollouts and evaluation."""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from safetensors import safe_open
from transformers import AutoModelForImageTextToText, AutoProcessor

from data_prep.errors import UserError
from data_prep.tokens import PATCH_SIZE, TILED, most_tiles, token_side
from recipes import checkpoints
from recipes.trust import trusts_code, untrusted

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
# Parts of a parameter's name that say it is the vision tower's or its projector's, by family.
VISION = ("visual", "vision_tower", "vision_model", "multi_modal_projector")
PIXELS_PER_TOKEN = {family: token_side(family) ** 2 for family in PATCH_SIZE}


def attention(model: DictConfig) -> str:
    """The attention implementation: `auto` takes flash-attention where it is installed, else sdpa."""
    if model.attention != "auto":
        return model.attention
    return "flash_attention_2" if model.device == "cuda" and find_spec("flash_attn") else "sdpa"


def load_model(path: str, model: DictConfig) -> torch.nn.Module:
    """The model at `path` (folder or hub id) in the configured dtype, on the CPU, in evaluation mode.

    Weights come from safetensors, or from pickles that may hold tensors alone (torch's `weights_only`).

    Raises:
        UserError: there is none, its weights are not those that were written, or it brings code of its own
            and `model.trust_remote_code` is not set.
    """
    folder = Path(path)
    if not folder.exists() and path.startswith(("/", ".")):
        raise UserError(f"there is no checkpoint at {path}.")
    if checkpoints.sealed(folder) and (wrong := checkpoints.fault(folder)):
        raise UserError(
            f"the checkpoint {path} is damaged ({wrong}). Take its stage's manifest.json away, and the same "
            "command makes it anew from the checkpoints of its training."
        )
    return _untrusting(
        AutoModelForImageTextToText,
        path,
        model,
        dtype=DTYPES[model.dtype],
        attn_implementation=attention(model),
    ).eval()


def load_processor(path: str, model: DictConfig) -> Any:
    """The processor at `path`, with the image budget of the configuration, padding on the left.

    Raises:
        UserError: the folder yields a bare tokenizer, which would drop the pictures without a word; or it
            brings code of its own and `model.trust_remote_code` is not set.
    """
    processor = _untrusting(AutoProcessor, path, model)
    if not hasattr(processor, "image_processor"):
        raise UserError(
            f"{path} holds a tokenizer but no processor for pictures; save the processor there too."
        )
    if model.family == TILED:
        processor.image_processor.max_patches = most_tiles(model.max_image_tokens)
    else:
        # "longest_edge" is the name of the budget in pixels of the whole picture, not of an edge.
        processor.image_processor.size.longest_edge = model.max_image_tokens * PIXELS_PER_TOKEN[model.family]
    processor.tokenizer.padding_side = "left"
    return processor


def freeze_vision(model: torch.nn.Module) -> int:
    """Take the vision tower, with what projects it into the language model, out of training.

    Returns the number of weights that are frozen.

    Raises:
        UserError: the model has no part of a known name.
    """
    frozen = [tensor for name, tensor in model.named_parameters() if is_vision(name)]
    if not frozen:
        raise UserError(
            f"model.freeze_vision=true finds no {', '.join(VISION)} in {type(model).__name__}: "
            "set it to false."
        )
    for tensor in frozen:
        tensor.requires_grad_(False)
    return sum(tensor.numel() for tensor in frozen)


def is_vision(name: str) -> bool:
    """Whether a parameter of this name belongs to the vision tower or its projector."""
    return any(part in VISION for part in name.split("."))


def parameter_counts(model: torch.nn.Module) -> dict[str, int]:
    """Weights that are trained and all, as {"trained": ..., "all": ...}; a shared weight counts once."""
    sizes = [(tensor.numel(), tensor.requires_grad) for tensor in model.parameters()]
    return {"trained": sum(size for size, trained in sizes if trained), "all": sum(size for size, _ in sizes)}


def check_frozen(start: str, trained: str) -> None:
    """See that a trained checkpoint's vision tower is the start's, to the bit in the type that it is kept in.

    verl's merger keeps bfloat16.

    Args:
        start: folder or hub id; of a hub id, which is not here as a folder, nothing is compared.
        trained: folder.

    Raises:
        RuntimeError: a weight has moved, so freezing did not take effect.
    """
    if not Path(start).is_dir():
        return
    before, after = _vision_weights(Path(start)), _vision_weights(Path(trained))
    if before.keys() != after.keys():
        raise RuntimeError(f"{trained} has other weights in its vision tower than {start}")
    moved = [name for name in before if not _same(before[name], after[name])]
    if moved:
        raise RuntimeError(
            f"model.freeze_vision=true, and yet {len(moved)} weights of the vision tower moved"
        )


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    rounded = torch.equal(after, after.bfloat16().to(after.dtype))
    kind = torch.bfloat16 if rounded else after.dtype
    return torch.equal(before.to(kind), after.to(kind))


def _vision_weights(folder: Path) -> dict[str, torch.Tensor]:
    found = {}
    for path in sorted(folder.glob(checkpoints.WEIGHTS)):
        with safe_open(path, framework="pt") as stored:
            found |= {name: stored.get_tensor(name) for name in stored.keys() if is_vision(name)}  # noqa: SIM118
    return found


def _untrusting(factory: Any, path: str, model: DictConfig, **settings: Any) -> Any:
    """`factory.from_pretrained`, which runs no code of the checkpoint unless the configuration trusts it."""
    try:
        return factory.from_pretrained(path, trust_remote_code=trusts_code(model), **settings)
    except ValueError as error:
        if "trust_remote_code" in str(error) and not trusts_code(model):
            raise untrusted(path, "as transformers finds") from error
        raise
