"""A release that grows in a folder: files whole or absent, and at the end none that was not meant."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

from data_prep.atomic import replacing, write_jsonl
from data_prep.images import clean

_JPEG = {"quality": 95, "subsampling": 0}  # halved colour would blur thin red lines


class ReleaseFolder:
    """Writes below `path`; the same calls leave the same bytes, however often they were cut short."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: set[str] = set()

    def put(self, name: str, content: bytes) -> Path:
        path = self.path / name
        self._names.add(name)
        if not path.is_file() or path.read_bytes() != content:
            with replacing(path) as temporary:
                temporary.write_bytes(content)
        return path

    def draw(self, name: str, picture: Image.Image) -> Path:
        """Write a picture in the format that its name says."""
        return self.put(name, _encoded(picture, name))

    def copy(self, source: Path, name: str) -> Image.Image:
        """Take a picture of the user's over, upright and RGB, byte for byte where it is so already.

        Raises:
            PictureError: it cannot be used.
            OSError: it cannot be read.
        """
        content = source.read_bytes()
        clean_content, *_ = clean(content)
        picture = Image.open(io.BytesIO(clean_content))
        picture.load()
        self.put(name, content if clean_content == content else _encoded(picture, name))
        return picture

    def rows(self, name: str, records: Iterable[dict[str, Any]]) -> int:
        self._names.add(name)
        return write_jsonl(self.path / name, records)

    def clear_rest(self) -> None:
        """Delete what this object did not write: left by an attempt on other pictures, or cut short."""
        for path in self.path.rglob("*"):
            if path.is_file() and str(path.relative_to(self.path)) not in self._names:
                path.unlink()


def _encoded(picture: Image.Image, name: str) -> bytes:
    content = io.BytesIO()
    if name.lower().endswith("png"):
        picture.save(content, "PNG")
    else:
        picture.save(content, "JPEG", **_JPEG)
    return content.getvalue()
