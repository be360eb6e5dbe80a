"""What an audit keeps of a picture: its size, a digest of its pixels, and how it looks.

Two pictures look alike when both a gradient hash (dHash: is a cell brighter than its left neighbour?) and a
small thumbnail agree. The hash alone calls plain areas alike whatever their colour, the thumbnail alone any
two meadows.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from data_prep.images import PictureError, decode, in_order, read_file

GRADIENTS = 16  # cells a side of the hash: 256 bits
THUMBNAIL = 8  # cells a side
MAX_BITS = 20  # of 256, that may differ between pictures that look alike
MAX_RMS = 6.0  # grey levels, root mean square over the thumbnail
_BLOCK = 512


@dataclass(frozen=True)
class Fingerprint:
    """`width` and `height` are pixels of the upright picture; `content` is a digest of its RGB pixels."""

    width: int
    height: int
    content: bytes
    gradients: bytes
    thumbnail: bytes


def fingerprint(image: Image.Image) -> Fingerprint:
    """The fingerprint of an upright RGB picture."""
    size = f"{image.width}x{image.height}:".encode()
    box = Image.Resampling.BOX
    grey = np.asarray(image.convert("L").resize((GRADIENTS + 1, GRADIENTS), box))
    return Fingerprint(
        *image.size,
        content=hashlib.sha256(size + image.tobytes()).digest()[:16],
        gradients=np.packbits(grey[:, 1:] > grey[:, :-1]).tobytes(),
        thumbnail=image.resize((THUMBNAIL, THUMBNAIL), box).tobytes(),
    )


def fingerprint_all(
    root: Path, names: Sequence[str], on_progress: Callable[[int], None] = lambda done: None
) -> dict[str, Fingerprint | PictureError]:
    """Decode the files `names` below `root` to their last pixel, with as many processes as there are cores.

    Returns:
        for every name its fingerprint, or the error that says why there is none.
    """
    results: dict[str, Fingerprint | PictureError] = {}
    for chunk in in_order(partial(_chunk, root), list(names)):
        results |= chunk
        on_progress(len(results))
    return results


def _chunk(root: Path, names: list[str]) -> Any:
    return [(name, _one(root / name)) for name in names]


def _one(path: Path) -> Fingerprint | PictureError:
    try:
        return fingerprint(decode(read_file(path))[0])
    except PictureError as error:
        return error


def look_alikes(first: Sequence[Fingerprint], second: Sequence[Fingerprint]) -> Iterator[tuple[int, int]]:
    """Index pairs (into `first`, into `second`) of pictures that look alike, in the order of `first`.

    Every pair is compared, in blocks: time grows with the product of the lengths, memory with the longer one.
    """
    if not first or not second:
        return
    bits, other_bits = _signs(first), _signs(second)
    cells, other_cells = _cells(first), _cells(second)
    other_norms = (other_cells**2).sum(1)
    for start in range(0, len(first), _BLOCK):
        stop = start + _BLOCK
        # Of two vectors of signs, the product is the bits that agree less those that differ.
        differing = (bits.shape[1] - bits[start:stop] @ other_bits.T) / 2
        block = cells[start:stop]
        squares = (block**2).sum(1)[:, None] + other_norms - 2 * block @ other_cells.T
        alike = (differing <= MAX_BITS) & (squares <= MAX_RMS**2 * cells.shape[1])
        for one, other in zip(*np.nonzero(alike), strict=True):
            yield start + int(one), int(other)


def _signs(prints: Sequence[Fingerprint]) -> np.ndarray:
    packed = np.frombuffer(b"".join(p.gradients for p in prints), np.uint8).reshape(len(prints), -1)
    return np.unpackbits(packed, axis=1).astype(np.float32) * 2 - 1


def _cells(prints: Sequence[Fingerprint]) -> np.ndarray:
    raw = np.frombuffer(b"".join(p.thumbnail for p in prints), np.uint8)
    return raw.reshape(len(prints), -1).astype(np.float32)
