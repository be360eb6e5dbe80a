"""What a model's folder holds, read without loading it: configuration, weights' headers, chat template.

A safetensors file begins with the length of its header and the header itself, which gives every tensor's
type, shape and place; so a file that was cut short, a shard that is missing and a head that is not tied are
found in milliseconds, whatever the size of the model.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from data_prep.atomic import digest
from data_prep.errors import UserError

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
EMBEDDING, HEAD = "embed_tokens.weight", "lm_head.weight"
SAMPLE = 2**16  # bytes of two tensors that are compared at a place
PLACES = 16


@dataclass(frozen=True)
class Tensor:
    """A tensor in a file: its type in safetensors' words, its shape, and its bytes from `start` to `end`."""

    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    end: int


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a model in transformers' layout."""

    path: Path

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """`config.json`.

        Raises:
            UserError: there is none, or it is no JSON.
        """
        return _json(self.path / "config.json", "it is no model's folder")

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Every tensor of the weights by its name; empty where the folder has none in safetensors.

        Raises:
            UserError: a file of the weights is missing, cut short, or no safetensors.
        """
        found: dict[str, Tensor] = {}
        if (self.path / INDEX).exists():
            index = _json(self.path / INDEX, "it says which file holds which weights")
            where = index.get("weight_map")
            if not isinstance(where, dict):
                raise UserError(f"{self.path / INDEX} has no weight_map.")
            for name in sorted(set(where.values())):
                found |= _header(self.path / name)
            if lacking := [name for name in where if name not in found]:
                raise UserError(
                    f"{self.path} lacks {len(lacking)} weights that {INDEX} names, {lacking[0]} among them."
                )
        elif (self.path / SINGLE).exists():
            found = _header(self.path / SINGLE)
        return found

    @property
    def dtypes(self) -> dict[str, int]:
        """Type of the weights, in torch's words where it has one, to the number of values of it."""
        counts: dict[str, int] = {}
        for tensor in self.tensors.values():
            values = 1
            for length in tensor.shape:
                values *= length
            name = TYPES.get(tensor.dtype, tensor.dtype)
            counts[name] = counts.get(name, 0) + values
        return counts

    @property
    def tied(self) -> bool:
        """Whether the configuration has the output head share the input embedding."""
        text = self.config.get("text_config") or {}
        return bool(self.config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))

    def head_fault(self) -> str | None:
        """What is wrong with the output head, as a sentence without its end; None where nothing is."""
        heads = [tensor for name, tensor in self.tensors.items() if name.endswith(HEAD)]
        embeddings = [tensor for name, tensor in self.tensors.items() if name.endswith(EMBEDDING)]
        if not self.tensors or not embeddings:
            return None
        if not heads:
            untied = "tie_word_embeddings is false in its config.json, but it holds no lm_head.weight"
            return None if self.tied else f"{untied}: the output head would be made up at random"
        if self.tied and not _alike(heads[0], embeddings[0]):
            return (
                "tie_word_embeddings is true in its config.json, but lm_head.weight differs from the input "
                "embedding: loading would throw the trained output head away"
            )
        return None

    @property
    def chat_template(self) -> str | None:
        """The template that a processor loaded from here would use; None where the folder has none.

        Raises:
            UserError: a file that should hold one is no JSON.
        """
        plain = self.path / "chat_template.jinja"
        if plain.exists():
            return plain.read_text(encoding="utf-8")
        for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
            if not (self.path / name).exists():
                continue
            stored = _json(self.path / name, "it holds the chat template").get("chat_template")
            if isinstance(stored, list):  # several by name
                stored = next((one["template"] for one in stored if one.get("name") == "default"), None)
            if stored:
                return str(stored)
        return None

    @property
    def template_hash(self) -> str | None:
        """Identifies the chat template; None where there is none."""
        template = self.chat_template
        return None if template is None else digest(template)[:12]


def _json(path: Path, why: str) -> dict[str, Any]:
    if not path.is_file():
        raise UserError(f"{path.parent} has no {path.name}: {why}.")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} cannot be read as JSON ({error}).") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no JSON object.")
    return found


def _header(path: Path) -> dict[str, Tensor]:
    """The tensors of one file."""
    if not path.is_file():
        raise UserError(f"{path.parent} lacks {path.name}, one of the files of its weights.")
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else LONGEST_HEADER + 1
        content = file.read(length) if length <= LONGEST_HEADER else b""
    begin = 8 + length
    try:
        header = json.loads(content)
        header.pop("__metadata__", None)
        found = {name: _tensor(path, begin, one) for name, one in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is no whole safetensors file ({size:,} bytes).") from error
    wanted = max((tensor.end for tensor in found.values()), default=begin)
    if size != wanted:
        raise UserError(f"{path} has {size:,} bytes, and its header speaks of {wanted:,}: it is not whole.")
    return found


def _tensor(path: Path, begin: int, entry: dict[str, Any]) -> Tensor:
    first, end = entry["data_offsets"]
    return Tensor(entry["dtype"], tuple(entry["shape"]), path, begin + first, begin + end)


def _alike(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors hold the same, as far as samples from beginning to end tell."""
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    length = first.end - first.start
    with open(first.file, "rb") as one, open(second.file, "rb") as other:
        for place in range(PLACES):
            offset = place * max(0, length - SAMPLE) // (PLACES - 1)
            one.seek(first.start + offset)
            other.seek(second.start + offset)
            size = min(SAMPLE, length - offset)
            if one.read(size) != other.read(size):
                return False
    return True
