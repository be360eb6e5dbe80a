"""Files that are whole or absent, and logs that survive a kill.

A result is written under a temporary name beside its target and renamed, so a reader never sees
half of it. A log (JSON lines) is appended one whole line at a time; a line cut short by a kill is
dropped when the log is opened again.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in `path`'s folder; on success it is renamed to `path`, on error removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_jsonl(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write one JSON object a line and return how many; memory stays flat in their number."""
    count = 0
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as out:
        for record in records:
            out.write(_line(record) + "\n")
            count += 1
    return count


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file that this package wrote."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


class JsonlLog:
    """An append-only JSON-lines file. Opening it drops a last line that a kill cut short."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            content = path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                with replacing(path) as temporary:
                    temporary.write_bytes(whole)
        self._path = path
        self._out = open(path, "a", encoding="utf-8")  # noqa: SIM115  closed by `close`

    def append(self, *records: dict[str, Any]) -> None:
        """Write the records and hand them to the disk before returning."""
        self._out.write("".join(_line(r) + "\n" for r in records))
        self._out.flush()
        os.fsync(self._out.fileno())

    def close(self) -> None:
        self._out.close()

    def __enter__(self) -> "JsonlLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sha256_file(path: Path) -> str:
    with open(path, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, the same for equal values: the order of keys and 2 or 2.0 do not matter."""
    text = json.dumps(_whole(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _whole(value: Any) -> Any:
    """The value with every whole float as an integer: a command line has `2` where a file has `2.0`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(part) for part in value]
    return value
