"""A model's measures and, from them alone, how many parameters it has.

The measures come from a checkpoint's `config.json`, from `published.json` (the published configurations of
the models that recipes name), or from `model.build`. Counts equal those of transformers' classes exactly,
which the tests compare. Nothing here imports torch or transformers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from data_prep.errors import UserError

CHANNELS = 3
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FAMILIES = ("qwen3_vl", "qwen2_5_vl", "internvl")
PUBLISHED = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class Text:
    """The language model. `heads` and `kv_heads` are of `head_dim` numbers each."""

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    tied: bool
    qkv_bias: bool
    output_bias: bool
    qk_norm: bool

    @property
    def q(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def linear(self) -> dict[str, tuple[int, int]]:
        """A layer's linear layers: numbers in and out."""
        hidden, mlp = self.hidden, self.mlp
        sizes = (
            (hidden, self.q), (hidden, self.kv), (hidden, self.kv), (self.q, hidden),
            (hidden, mlp), (hidden, mlp), (mlp, hidden),
        )  # fmt: skip
        return dict(zip(LINEAR, sizes, strict=True))

    @property
    def embedding(self) -> int:
        return self.vocab * self.hidden

    @property
    def layer(self) -> int:
        """Parameters of one layer."""
        bias = (self.q + 2 * self.kv) * self.qkv_bias + self.hidden * self.output_bias
        attention = 2 * self.hidden * (self.q + self.kv) + bias
        return attention + 2 * self.head_dim * self.qk_norm + 3 * self.hidden * self.mlp + 2 * self.hidden

    @property
    def parameters(self) -> int:
        heads = self.embedding * (1 if self.tied else 2)
        return heads + self.layers * self.layer + self.hidden

    @property
    def tensors(self) -> int:
        """Parameter tensors: AdamW keeps one number of its own for each."""
        layer = 9 + 3 * self.qkv_bias + self.output_bias + 2 * self.qk_norm
        return layer * self.layers + 2 + (not self.tied)


@dataclass(frozen=True)
class Vision:
    """The vision tower and what projects it into the language model.

    `patch` is in pixels a side, `merge` in patches a side of a token, `out` the language model's width;
    `positions` is the length of the learned table (0: none), `deepstack` the number of extra mergers.
    """

    family: str
    depth: int
    hidden: int
    heads: int
    mlp: int
    patch: int
    temporal: int
    merge: int
    out: int
    positions: int
    deepstack: int
    qkv_bias: bool
    qk_norm: bool

    @property
    def merged(self) -> int:
        """Numbers of all patches of a token together."""
        return self.hidden * self.merge**2

    @property
    def pixels(self) -> int:
        """Numbers of a patch as the processor gives it."""
        return CHANNELS * self.temporal * self.patch**2

    @property
    def block(self) -> int:
        """Parameters of one block."""
        hidden = self.hidden
        attention = 4 * hidden**2 + hidden + 3 * hidden * self.qkv_bias
        if self.family == "qwen2_5_vl":  # gated, and normalised without a bias
            return attention + 3 * hidden * self.mlp + 2 * self.mlp + hidden + 2 * hidden
        plain = attention + 2 * hidden * self.mlp + self.mlp + hidden + 4 * hidden
        return plain + (2 * hidden + 2 * hidden * self.qk_norm if self.family == "internvl" else 0)

    @property
    def parameters(self) -> int:
        table = self.positions * self.hidden
        patches = self.pixels * self.hidden
        if self.family == "internvl":  # a class token; the projector ends in the language model's width
            embedding = patches + self.hidden + table + self.hidden
            projector = 2 * self.merged + self.merged * self.out + self.out + self.out**2 + self.out
            return embedding + self.depth * self.block + projector
        merger = self.merged**2 + self.merged + self.merged * self.out + self.out
        if self.family == "qwen2_5_vl":
            return patches + self.depth * self.block + self.hidden + merger
        extra = self.deepstack * (2 * self.merged + merger)
        return patches + self.hidden + table + self.depth * self.block + 2 * self.hidden + merger + extra

    @property
    def tensors(self) -> int:
        if self.family == "qwen2_5_vl":
            return 1 + 12 * self.depth + 5
        if self.family == "internvl":
            return 4 + self.depth * (15 + 3 * self.qkv_bias + 2 * self.qk_norm) + 6
        return 3 + 12 * self.depth + 6 * (1 + self.deepstack)


@dataclass(frozen=True)
class Geometry:
    """A vision-language model."""

    name: str
    text: Text
    vision: Vision

    @property
    def parameters(self) -> int:
        return self.text.parameters + self.vision.parameters

    @property
    def tensors(self) -> int:
        return self.text.tensors + self.vision.tensors

    def lora(self, rank: int, targets: Sequence[str] = LINEAR) -> int:
        """Parameters of an adapter on the language model's linear layers `targets`."""
        linear = self.text.linear
        return rank * self.text.layers * sum(sum(linear[name]) for name in targets)


def from_config(config: Mapping[str, Any], name: str = "") -> Geometry:
    """The geometry that a checkpoint's `config.json` describes.

    Raises:
        UserError: the family is none of `FAMILIES`.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UserError(f"model_type={family} has no estimate; known are {', '.join(FAMILIES)}.")
    text = {**config, **config["text_config"]} if "text_config" in config else config
    return Geometry(name, _text(config, text, family), _vision(config["vision_config"], text, family))


def _text(config: Mapping[str, Any], text: Mapping[str, Any], family: str) -> Text:
    heads = text["num_attention_heads"]
    kind = text["model_type"] if family == "internvl" else family
    qwen3 = kind in ("qwen3", "qwen3_vl")
    bias = bool(text.get("attention_bias", False))
    return Text(
        vocab=text["vocab_size"],
        hidden=text["hidden_size"],
        layers=text["num_hidden_layers"],
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or (128 if qwen3 else text["hidden_size"] // heads),
        mlp=text["intermediate_size"],
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        qkv_bias=bias if qwen3 else True,
        output_bias=qwen3 and bias,
        qk_norm=qwen3,
    )


def _vision(vision: Mapping[str, Any], text: Mapping[str, Any], family: str) -> Vision:
    internvl = family == "internvl"
    patch = _side(vision["patch_size"])
    positions = vision.get("num_position_embeddings", 2304) if family == "qwen3_vl" else 0
    if internvl:
        positions = (_side(vision["image_size"]) // patch) ** 2 + 1
    return Vision(
        family=family,
        depth=vision["num_hidden_layers" if internvl else "depth"],
        hidden=vision["hidden_size"],
        heads=vision["num_attention_heads" if internvl else "num_heads"],
        mlp=vision["intermediate_size"],
        patch=patch,
        temporal=1 if internvl else _side(vision.get("temporal_patch_size", 2)),
        merge=2 if internvl else vision.get("spatial_merge_size", 2),
        out=text["hidden_size"] if internvl else vision["out_hidden_size"],
        positions=positions,
        deepstack=len(vision.get("deepstack_visual_indexes", ())) if family == "qwen3_vl" else 0,
        qkv_bias=bool(vision.get("attention_bias", False)) if internvl else True,
        qk_norm=bool(vision.get("use_qk_norm", False)),
    )


def _side(size: Any) -> int:
    return size if isinstance(size, int) else size[0]


@lru_cache(maxsize=1)
def published() -> dict[str, Geometry]:
    """The geometries of `published.json`, by the model's name without its publisher."""
    models = json.loads(PUBLISHED.read_text(encoding="utf-8"))["models"]
    return {name: from_config(entry["config"], name) for name, entry in models.items()}


def find(path: str) -> Geometry | None:
    """The geometry of `model.path`: of a folder by its config.json, of a hub id by its name; None: unknown.

    Raises:
        UserError: the folder's config.json cannot be read, or is of a family without an estimate.
    """
    description = Path(path) / "config.json"
    if description.is_file():
        try:
            return from_config(json.loads(description.read_text(encoding="utf-8")), Path(path).name)
        except (json.JSONDecodeError, KeyError) as error:
            raise UserError(f"{description} describes no model ({type(error).__name__}: {error}).") from error
    name = path.rstrip("/").rpartition("/")[2].lower()
    return next((known for key, known in published().items() if name.startswith(key.lower())), None)


def of_build(build: Mapping[str, Any], name: str) -> Geometry:
    """The geometry of a model that `recipes.base_model` will build, but for the tokens that its texts add."""
    hidden, heads = build["hidden_size"], build["heads"]
    text = Text(
        build["vocabulary"], hidden, build["layers"], heads, max(1, heads // 2), hidden // heads, 3 * hidden,
        tied=True, qkv_bias=False, output_bias=False, qk_norm=True,
    )  # fmt: skip
    vision = Vision(
        "qwen3_vl", build["vision_layers"], hidden, 4, 2 * hidden, 16, 2, 2, hidden, 256, 1,
        qkv_bias=True, qk_norm=False,
    )  # fmt: skip
    return Geometry(name, text, vision)
