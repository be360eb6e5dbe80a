"""Checkpoint folders that are whole or absent, known to be whole, kept in number, and the best of them.

A folder is written under another name and renamed; where a trainer writes it in place, a marker with the size
and hash of every file is put into it last. A folder that disagrees with its marker is damaged, and says so by
name. Needs no torch.
"""

import contextlib
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from data_prep.atomic import sha256_file, write_json

MARKER = "complete.json"
WEIGHTS = "*.safetensors"
WHOLE = 64 * 2**20  # bytes up to which all of a file is hashed
BLOCK, BLOCKS = 2**20, 64  # of a larger file: bytes a block, blocks from its first to its last byte


@contextlib.contextmanager
def saving(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `folder`; on success it takes `folder`'s place, on error it goes."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def save_model(folder: Path, model: Any, processor: Any, card: str | None = None) -> None:
    """Write a model, its generation configuration, its processor and a model card to `folder`, or nothing."""
    with saving(folder) as temporary:
        model.save_pretrained(temporary)
        processor.save_pretrained(temporary)
        finish_model(temporary, card)


def finish_model(folder: Path, card: str | None) -> None:
    """Add the card to a model's folder, and the marker of its weights; other files are the user's to edit."""
    if card is not None:
        (folder / "README.md").write_text(card, encoding="utf-8")
    seal(folder, WEIGHTS)


def seal(folder: Path, pattern: str = "**/*") -> None:
    """Mark `folder` as whole, with the size and hash of every file that matches `pattern`."""
    files = [path for path in sorted(folder.glob(pattern)) if path.is_file() and path.name != MARKER]
    known = {str(path.relative_to(folder)): _fingerprint(path) for path in files}
    write_json(folder / MARKER, {"files": known})


def sealed(folder: Path) -> bool:
    return (folder / MARKER).is_file()


def fault(folder: Path) -> str | None:
    """What is wrong with a sealed folder, in words; None where it is as it was sealed.

    Of a file above `WHOLE` bytes, `BLOCKS` blocks from beginning to end are looked at: enough for a file that
    was cut, emptied or never flushed, and quick for hundreds of gigabytes.
    """
    try:
        known = json.loads((folder / MARKER).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return f"it has no {MARKER}, so its writing was cut short"
    except (ValueError, KeyError, TypeError):
        return f"{MARKER} cannot be read"
    for name, expected in known.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["bytes"]:
            return f"{name} has {path.stat().st_size:,} of {expected['bytes']:,} bytes"
    for name, expected in known.items():
        if _fingerprint(folder / name) != expected:
            return f"the content of {name} is not what was written"
    return None


def _fingerprint(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size <= WHOLE:
        return {"bytes": size, "sha256": sha256_file(path)}
    found = hashlib.sha256()
    with open(path, "rb") as content:
        for block in range(BLOCKS):
            content.seek(block * (size - BLOCK) // (BLOCKS - 1))
            found.update(content.read(BLOCK))
    return {"bytes": size, "sha256_of_blocks": found.hexdigest()}


def sort_out(
    found: Mapping[int, Path], fault: Callable[[Path], str | None], what: str, quiet: bool = False
) -> tuple[dict[int, Path], list[Path]]:
    """The whole checkpoints by step, oldest first, and the damaged ones, which are told on stdout.

    `fault` says what is wrong with a folder, `what` is the stage, as in "SFT".
    """
    whole, damaged = {}, []
    for step, folder in sorted(found.items()):
        if reason := fault(folder):
            damaged.append((step, folder, reason))
        else:
            whole[step] = folder
    for step, folder, reason in [] if quiet else damaged:
        before = max((other for other in whole if other < step), default=None)
        if not whole or step > max(whole):
            instead = "starting anew" if before is None else f"falling back to {whole[before].name}"
            print(f"{what}: checkpoint {folder} is damaged ({reason}); {instead}", flush=True)
        else:
            print(f"{what}: checkpoint {folder} is damaged ({reason}) and is left out", flush=True)
    return whole, [folder for _, folder, _ in damaged]


def superfluous(steps: Iterable[int], keep: int, best: int | None) -> list[int]:
    """The steps whose checkpoints may go: all but the newest `keep` and the best."""
    return [step for step in sorted(steps)[:-keep] if step != best]


def best_step(
    records: Iterable[Mapping[str, Any]], key: str, highest: bool, among: Iterable[int] | None = None
) -> int | None:
    """The step of the first record with the best value of `key`; None where no record has one.

    `records` hold `step`; `among` are the steps that count, all where it is None.
    """
    allowed = None if among is None else set(among)
    values = {
        record["step"]: record[key]
        for record in records
        if key in record and math.isfinite(record[key]) and (allowed is None or record["step"] in allowed)
    }
    if not values:
        return None
    sign = -1 if highest else 1
    return min(values, key=lambda step: (sign * values[step], step))
