"""Clean pictures: every file decoded once, upright, RGB, without metadata, in a store named by content.

Trainers and rollout engines disagree on orientation tags and on transparent pixels, and crash on odd modes
in the middle of a run. After this module there is one picture left to agree on.
"""

import hashlib
import io
import os
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from data_prep.atomic import JsonlLog, read_jsonl
from data_prep.errors import UserError
from data_prep.processes import cores, end_with_parent
from data_prep.tokens import MAX_ASPECT

FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
MAX_FILE_BYTES = 256 * 2**20
MAX_PIXELS = 64_000_000
MIN_SIDE = 2
PNG_LEVEL = 4

_QUARTER_TURNS = (5, 6, 7, 8)  # orientation tags that swap width and height
# What Pillow's decoders raise on files that are cut, broken or hostile.
_DECODE_ERRORS = (OSError, SyntaxError, ValueError, EOFError, IndexError, OverflowError, struct.error)
_POOL_FROM = 200  # fewer pictures than this are cleaned sooner than workers start
_CHUNK = 64
_MAX_PROCESSES = 32


class PictureError(ValueError):
    """A picture that cannot be used; the message says why."""


@dataclass(frozen=True)
class Picture:
    """A clean picture of the store. `path` is relative to the store; `width` and `height` are pixels."""

    path: str
    sha256: str
    width: int
    height: int


def clean(content: bytes) -> tuple[bytes, str, int, int]:
    """Clean one encoded picture.

    Orientation tags are applied, transparency is laid on white, 16-bit grey is scaled to 8 bits, colour
    profiles are dropped (no model reads them), of several frames the first is taken. A clean JPEG or PNG
    comes back byte for byte, everything else as PNG.

    Returns:
        encoded bytes, extension ("jpg" or "png"), width and height in pixels.

    Raises:
        PictureError: no picture, cut short, over `MAX_PIXELS`, or of a shape that no model takes.
    """
    rgb, extension = decode(content)
    if extension:
        return content, extension, *rgb.size
    encoded = io.BytesIO()
    rgb.save(encoded, format="PNG", compress_level=PNG_LEVEL)
    return encoded.getvalue(), "png", *rgb.size


def decode(content: bytes) -> tuple[Image.Image, str | None]:
    """The picture that `clean` would store, upright and RGB, and the extension where `content` is it already.

    Raises:
        PictureError: as `clean` does.
    """
    if not content:
        raise PictureError("the file is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.filterwarnings("ignore", category=UserWarning)
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                _check_size(*image.size)
                image.load()
                if image.mode == "RGB" and (extension := _clean_already(image, content)):
                    return image, extension
                return _to_rgb(ImageOps.exif_transpose(image)), None
    except PictureError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(f"too many pixels: {error}") from error
    except UnidentifiedImageError as error:
        raise PictureError(f"no picture in one of the formats {', '.join(FORMATS)}") from error
    except _DECODE_ERRORS as error:
        raise PictureError(f"cannot be decoded: {error}") from error


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height that a picture will have once it is clean; its pixels are not decoded.

    Raises:
        PictureError: no picture, or it cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                width, height = image.size
                turned = image.getexif().get(ExifTags.Base.Orientation) in _QUARTER_TURNS
    except (Image.DecompressionBombError, *_DECODE_ERRORS) as error:
        raise PictureError(f"{path.name} cannot be read: {error}") from error
    return (height, width) if turned else (width, height)


def clean_all(
    root: Path,
    names: Sequence[str],
    store: Path,
    log: Path,
    on_progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Picture | PictureError]:
    """Clean the files `names` below `root` into `store`, with as many processes as there are cores.

    What an earlier, interrupted call did (listed in `log`, JSON lines) is verified by hash and not done
    again; failures are tried again. The same names give the same store and the same log, however often
    interrupted.

    Args:
        names: distinct paths relative to `root`; the caller vouches that they stay inside it.
        on_progress: called with the number of pictures done.

    Returns:
        for every name its picture, or the error that says why there is none.

    Raises:
        UserError: a worker process died.
    """
    for left in store.glob("*/.*.part"):
        left.unlink()
    results: dict[str, Picture | PictureError] = {}
    with JsonlLog(log) as done:
        known = {record["source"]: record for record in read_jsonl(log)}
        tasks = [(name, known.get(name)) for name in names]
        for chunk in in_order(partial(_clean_chunk, root, store), tasks):
            if fresh := [r for r in chunk if "error" not in r and r != known.get(r["source"])]:
                done.append(*fresh)
            results |= {record["source"]: _result(record) for record in chunk}
            on_progress(len(results))
    return results


def _result(record: dict[str, Any]) -> Picture | PictureError:
    if "error" in record:
        return PictureError(record["error"])
    return Picture(record["path"], record["sha256"], record["width"], record["height"])


def in_order(work: Callable[[list[Any]], list[Any]], tasks: list[Any]) -> Iterator[list[Any]]:
    """`work` of every chunk of tasks, in order, in worker processes where that pays.

    Raises:
        UserError: a worker process died.
    """
    chunks = [tasks[start : start + _CHUNK] for start in range(0, len(tasks), _CHUNK)]
    processes = min(cores(), len(chunks), _MAX_PROCESSES)
    if processes < 2 or len(tasks) < _POOL_FROM:
        yield from map(work, chunks)
        return
    # spawn: a forked copy of a process with threads may hang.
    with ProcessPoolExecutor(processes, get_context("spawn"), end_with_parent) as pool:
        try:
            yield from pool.map(work, chunks)
        except BrokenProcessPool as error:
            raise UserError(
                "A process that decodes pictures was killed, most likely for want of memory. "
                "Free some and give the same command: what is done is kept."
            ) from error


def _clean_chunk(
    root: Path, store: Path, tasks: list[tuple[str, dict[str, Any] | None]]
) -> list[dict[str, Any]]:
    return [_clean_file(root, store, name, known) for name, known in tasks]


def _clean_file(root: Path, store: Path, name: str, known: dict[str, Any] | None) -> dict[str, Any]:
    """The log's record of one file: its picture, or `error`."""
    try:
        content = read_file(root / name)
        source = hashlib.sha256(content).hexdigest()
        if known and known["source_sha256"] == source and _stored(store / known["path"], known["sha256"]):
            return known
        encoded, extension, width, height = clean(content)
    except PictureError as error:
        return {"source": name, "error": str(error)}
    sha256 = hashlib.sha256(encoded).hexdigest()
    path = f"{sha256[:2]}/{sha256}.{extension}"
    if not _stored(store / path, sha256):
        _store(store / path, encoded)
    stored = {"path": path, "sha256": sha256, "width": width, "height": height}
    return {"source": name, "source_sha256": source, **stored}


def read_file(path: Path) -> bytes:
    """The file's content; PictureError where it cannot be read or is larger than a picture may be."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise PictureError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise PictureError(f"cannot be read: {error.strerror}") from error


def _stored(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def _store(path: Path, content: bytes) -> None:
    """Atomic for readers and for other workers; durability comes from checking the hash when resuming."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.write_bytes(content)
    temporary.replace(path)


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise PictureError(f"{width} x {height} pixels are more than the {MAX_PIXELS:,} allowed")
    if min(width, height) < MIN_SIDE:
        raise PictureError(f"{width} x {height} pixels are too few")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise PictureError(f"{width} x {height} pixels: one side is more than {MAX_ASPECT} times the other")


def _to_rgb(image: Image.Image) -> Image.Image:
    """An RGB copy without metadata."""
    if image.mode.startswith("I"):
        image = _to_eight_bits(image)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    rgb = image.convert("RGB")
    rgb.info.clear()
    return rgb


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """16-bit grey scaled so that white stays white; Pillow's own conversion cuts at 255 instead."""
    if "transparency" in image.info:
        raise PictureError("16-bit grey with a transparent value is not supported")
    values = np.asarray(image).astype(np.int64)
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _clean_already(image: Image.Image, content: bytes) -> str | None:
    """The extension under which an RGB picture's own bytes may be stored; None where they hold more."""
    if image.format == "JPEG":
        plain = all(
            (marker == "APP0" and len(data) == 14 and data.startswith(b"JFIF"))
            or (marker == "APP14" and data.startswith(b"Adobe"))
            for marker, data in image.applist
        )
        return "jpg" if plain and "comment" not in image.info and content.endswith(b"\xff\xd9") else None
    if image.format == "PNG" and not image.has_transparency_data:
        return "png" if _plain_png(content) else None
    return None


def _plain_png(content: bytes) -> bool:
    """Whether a PNG is 8-bit RGB and holds no chunk beside its pixels, nor anything after them."""
    position, chunks = 8, set()
    while position + 12 <= len(content):
        length = int.from_bytes(content[position : position + 4])
        chunks.add(content[position + 4 : position + 8])
        position += 12 + length
    eight_bit_rgb = content[24:26] == b"\x08\x02"
    return eight_bit_rgb and position == len(content) and chunks == {b"IHDR", b"IDAT", b"IEND"}
