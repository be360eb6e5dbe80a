"""Checkpoint folders that are whole or absent."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any


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


def save_model(folder: Path, model: Any, processor: Any, state_dict: Any = None) -> None:
    """Write a model with its processor to `folder`, whole or not at all; `state_dict` in place of its own."""
    with saving(folder) as temporary:
        model.save_pretrained(temporary, state_dict=state_dict)
        processor.save_pretrained(temporary)
