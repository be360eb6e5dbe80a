"""Code that a checkpoint brings along: found before anything loads it. Needs no torch."""

import json
from pathlib import Path

from omegaconf import DictConfig

from data_prep.errors import UserError

_AUTO_MAP = "auto_map"  # names classes in Python files beside the weights


def trusts_code(model: DictConfig) -> bool:
    """Whether the configuration lets the model's own Python run; a part of one without the key does not."""
    return bool(model.get("trust_remote_code", False))


def remote_code(checkpoint: str) -> list[str]:
    """The files of a checkpoint's folder that name code of its own; none of a hub id, which is not here."""
    return [
        path.name
        for path in sorted(Path(checkpoint).glob("*.json"))
        if path.stat().st_size < 2**24 and _names_code(path)
    ]


def _names_code(path: Path) -> bool:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(stored, dict) and bool(stored.get(_AUTO_MAP))


def refuse_remote_code(checkpoint: str, model: DictConfig) -> None:
    """Return when nothing of `checkpoint` would run, or `model.trust_remote_code` allows it.

    verl 0.9.1's reward workers load the tokenizer with trust_remote_code=True whatever is configured; a
    checkpoint that brings no code has none to run.

    Raises:
        UserError: it brings code, which is not trusted.
    """
    if not trusts_code(model) and (found := remote_code(checkpoint)):
        raise untrusted(checkpoint, f"named in {', '.join(found)}")


def untrusted(checkpoint: str, why: str) -> UserError:
    return UserError(
        f"{checkpoint} brings Python of its own ({why}), which loading it would run. Read it; then "
        "model.trust_remote_code=true allows it for this model."
    )
