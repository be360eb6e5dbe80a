"""Training steps of randomly initialised models of the real classes, and what torch counts in them."""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import contextlib
import gc
from math import isqrt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from trl.trainer.utils import add_fused_lm_head

from launch.estimate.activations import Batch, Numerics
from launch.estimate.geometry import Geometry, Text, Vision
from launch.estimate.memory import Trained

IMAGE, FIRST_WORD = 5, 10  # token ids
DTYPES = {2: torch.bfloat16, 4: torch.float32}


def small(
    name: str, vocab: int, text: tuple[int, int, int, int], vision: tuple[int, int, int, int]
) -> Geometry:
    """A Qwen3-VL; `text` and `vision` are width, layers, heads and width of the MLP."""
    width, layers, heads, mlp = text
    tower, depth, tower_heads, tower_mlp = vision
    return Geometry(
        name,
        Text(vocab, width, layers, heads, heads // 2, width // heads, mlp, True, False, False, True),
        Vision("qwen3_vl", depth, tower, tower_heads, tower_mlp, 16, 2, 2, width, 256, 1, True, False),
    )


SIZES = {
    model.name: model
    for model in (
        small("1M", 1000, (96, 3, 4, 288), (96, 2, 4, 192)),
        small("10M", 4000, (320, 5, 8, 960), (192, 4, 4, 576)),
        small("30M", 8000, (512, 6, 8, 1536), (320, 5, 8, 1024)),
        small("100M", 16000, (768, 9, 12, 2432), (512, 8, 8, 1536)),
    )
}


def configuration(geometry: Geometry) -> Qwen3VLConfig:
    """The real configuration of a Qwen3-VL of these measures."""
    text, vision = geometry.text, geometry.vision
    third = text.head_dim // 6
    return Qwen3VLConfig(
        text_config={
            "vocab_size": text.vocab, "hidden_size": text.hidden, "intermediate_size": text.mlp,
            "num_hidden_layers": text.layers, "num_attention_heads": text.heads,
            "num_key_value_heads": text.kv_heads, "head_dim": text.head_dim,
            "max_position_embeddings": 8192, "tie_word_embeddings": text.tied,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e6, "mrope_interleaved": True,
                "mrope_section": [text.head_dim // 2 - 2 * third, third, third],
            },
        },
        vision_config={
            "hidden_size": vision.hidden, "depth": vision.depth, "num_heads": vision.heads,
            "intermediate_size": vision.mlp, "patch_size": vision.patch, "out_hidden_size": vision.out,
            "num_position_embeddings": vision.positions,
            "deepstack_visual_indexes": list(range(vision.deepstack)),
        },
        tie_word_embeddings=text.tied,
        image_token_id=IMAGE, video_token_id=6, vision_start_token_id=7, vision_end_token_id=8,
    )  # fmt: skip


def build(geometry: Geometry, numerics: Numerics) -> Qwen3VLForConditionalGeneration:
    """A randomly initialised model in training mode, on the device of `numerics`, with SFT's head."""
    gc.collect()  # a model before it, which its head made a cycle of
    torch.manual_seed(0)
    with torch.device("cuda" if numerics.cuda else "cpu"):
        model = Qwen3VLForConditionalGeneration._from_config(
            configuration(geometry), attn_implementation=numerics.attention, dtype=DTYPES[numerics.size]
        ).train()
    add_fused_lm_head(model, outputs=("log_probs", "entropy", "is_top1"))  # as trl's SFTTrainer does
    return model


def inputs(geometry: Geometry, batch: Batch) -> dict[str, torch.Tensor]:
    """Random ids with one picture a row; the first row is shorter where the batch is padded."""
    vision = geometry.vision
    ids = torch.randint(FIRST_WORD, geometry.text.vocab, (batch.rows, batch.tokens))
    pictures = torch.zeros_like(ids)
    pictures[:, 1 : 1 + batch.image_tokens] = 1
    ids[pictures.bool()] = IMAGE
    attended = torch.ones_like(ids)
    if batch.padded:
        attended[0, -3:] = 0
    patches = batch.image_tokens * vision.merge**2
    # As near to a square as whole tokens allow.
    tokens_high = next(n for n in range(isqrt(batch.image_tokens), 0, -1) if batch.image_tokens % n == 0)
    high = tokens_high * vision.merge
    return {
        "input_ids": ids,
        "attention_mask": attended,
        "mm_token_type_ids": pictures,
        "pixel_values": torch.randn(batch.rows * patches, vision.pixels),
        "image_grid_thw": torch.tensor([[1, high, patches // high]] * batch.rows),
    }


def loss_of(model: Any, rows: dict[str, torch.Tensor], batch: Batch) -> torch.Tensor:
    """SFT's loss, of the answers alone."""
    labels = rows["input_ids"].clone()
    labels[:, : batch.tokens - batch.answer_tokens] = -100
    return model(**rows, labels=labels, fused_lm_head=True).loss


def autocast(numerics: Numerics) -> torch.autocast:
    return torch.autocast("cuda" if numerics.cuda else "cpu", torch.bfloat16, enabled=numerics.size == 2)


def only(model: Any, part: Trained) -> Any:
    """`model` as SFT trains `part` of it."""
    if part.adapter is None:
        model.model.visual.requires_grad_(not part.vision_frozen)
        return model
    config = LoraConfig(
        r=part.adapter.rank,
        lora_dropout=part.adapter.dropout,
        target_modules=rf".*language_model.*\.({'|'.join(part.adapter.targets)})",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def checkpoint(model: Any, adapted: bool) -> None:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if adapted:
        model.enable_input_require_grads()


def kept_by(model: torch.nn.Module, forward: Callable[[], Any]) -> int:
    """Bytes of the storages that `forward` leaves for backward, each once, without weights and buffers."""
    own = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    seen: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            seen[storage.data_ptr()] = storage  # held, so that no later one gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = forward()
    del output
    return sum(storage.nbytes() for storage in seen.values())


@dataclass(frozen=True)
class Held:
    """torch's account of one update at its largest moment, and of what lasts, in bytes.

    `peak` is None of a model with frozen weights, which torch's tracker does not take.
    """

    parameters: int
    gradients: int
    optimizer: int
    peak: int | None


def update(model: Any, geometry: Geometry, batch: Batch, numerics: Numerics) -> Held:
    """One update of SFT's loss with AdamW, after another one that has made its state."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    rows = inputs(geometry, batch)
    whole = all(parameter.requires_grad for parameter in model.parameters())
    tracker = MemTracker()
    gradients = 0
    if whole:
        tracker.track_external(model, optimizer)
    with tracker if whole else contextlib.nullcontext():
        for _ in range(2):
            if whole:
                tracker.reset_mod_stats()
            with autocast(numerics):
                loss = loss_of(model, rows, batch)
            loss.backward()
            gradients = sum(p.grad.untyped_storage().nbytes() for p in trained if p.grad is not None)
            optimizer.step()
            optimizer.zero_grad()
    peak = [int(account["Total"]) for account in tracker.get_tracker_snapshot("peak").values()]
    states = optimizer.state.values()
    return Held(
        parameters=sum(p.untyped_storage().nbytes() for p in {id(p): p for p in model.parameters()}.values()),
        gradients=gradients,
        optimizer=sum(t.untyped_storage().nbytes() for state in states for t in state.values()),
        peak=peak[0] if whole else None,
    )
