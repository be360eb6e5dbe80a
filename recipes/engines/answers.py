"""What every engine shares: the form of an answer, seeds, and batches of rows. Needs no torch."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from omegaconf import DictConfig

from data_prep.rows import Row
from data_prep.tokens import token_side

GREEDY_BELOW = 0.01  # at this temperature and below, sampling and taking the likeliest token are the same
MID_GREY = (128, 128, 128)


class Completion(NamedTuple):
    """What the model wrote; `tokens` counts the end token, and `truncated` says that none came in time."""

    text: str
    tokens: int
    truncated: bool


def row_seed(seed: int, name: str) -> int:
    """A 63-bit number that depends on the seed and the row alone."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8]) >> 1


def batches(rows: Sequence[Row], size: int, model: DictConfig) -> list[list[Row]]:
    """Cut the rows into batches of like length, the longest first, so that a lack of memory shows at once.

    Pictures make most of a prompt, so their tokens are the length; rows with the same ones stand together.
    """
    pixels = token_side(model.family) ** 2

    def key(row: Row) -> tuple[int, list[str], str]:
        tokens = sum(min(i.width * i.height // pixels, model.max_image_tokens) for i in row.images)
        return -tokens, [image.path for image in row.images], row.id

    ordered = sorted(rows, key=key)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
