"""Checkpoint folders that are whole or absent."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


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


def whole_checkpoints(folder: Path, pattern: str, last_file: str) -> list[Path]:
    """Checkpoints `<name>-<step>` or `<name>_<step>` in order of their step, those cut short left out.

    `last_file` is what the trainer writes last; a folder without it was interrupted.
    """
    found = [path for path in folder.glob(pattern) if (path / last_file).is_file()]
    return sorted(found, key=lambda path: int("".join(filter(str.isdigit, path.name)) or 0))
