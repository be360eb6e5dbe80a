"""Axis-aligned boxes: four finite numbers, compared by intersection over union (IoU).

Golds are kept in pixels of the original image. A model writes in its backbone's convention, so a prediction is
converted before it is compared; coordinates off the image are counted and kept, never clipped.
"""

import math
import re
from collections.abc import Sequence

from rewards.answer import Parsed
from rewards.number import plain_number

Box = tuple[float, float, float, float]
"""(x_min, y_min, x_max, y_max); the origin is the top left corner, y points down."""

COORDINATES = ("pixel", "resized_pixel", "norm1000", "norm1")
"""Original pixels; pixels after the processor's resize; 0-1000 and 0-1 of the image's width and height."""

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?(?:px)?(?![\w.])", re.IGNORECASE
)
_NOT_FINITE = re.compile(r"(?<!\w)(?:nan|inf|infinity)(?!\w)|∞", re.IGNORECASE)
_HEDGE = re.compile(r"\b(?:not|or|maybe|perhaps|possibly|either|neither|unsure)\b", re.IGNORECASE)


def parse_box(
    span: str,
    coordinates: str = "pixel",
    image_size: Sequence[float] | None = None,
    resized_size: Sequence[float] | None = None,
) -> Parsed:
    """Read one box from a normalised span and return it in original pixels, corners in order.

    Sizes are (width, height). Accepts ``[x1, y1, x2, y2]``, ``(x1, y1), (x2, y2)``, bare numbers and JSON such as
    ``{"bbox_2d": [...]}``. Raises ValueError when the convention needs a size that is missing (a fault of the row).
    """
    scale_x, scale_y = pixel_scale(coordinates, image_size, resized_size)
    text = _QUOTED.sub(" ", span)
    if _NOT_FINITE.search(text):
        return Parsed(reason="not_finite")
    numbers = [float(token.lower().removesuffix("px")) for token in _NUMBER.findall(text)]
    if len(numbers) > 4:
        return Parsed(reason="several_values")
    if len(numbers) != 4 or _HEDGE.search(text):
        return Parsed(reason="unreadable")
    x1, y1, x2, y2 = (v * s for v, s in zip(numbers, (scale_x, scale_y, scale_x, scale_y), strict=True))
    box = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
    if not all(map(math.isfinite, box)):
        return Parsed(reason="not_finite")
    return Parsed(box, box_text(box), out_of_range=count_out_of_range(box, image_size))


def score_box(value: Box, gold: Box, iou_threshold: float | None = None) -> float:
    """IoU in [0, 1]; with a threshold 1.0 when IoU reaches it, else 0.0."""
    overlap = iou(value, gold)
    return overlap if iou_threshold is None else float(overlap >= iou_threshold)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two ordered boxes; 0.0 when either has no area or an area overflows."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    inter = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter
    if not math.isfinite(union) or union <= 0:
        return 0.0
    return min(inter / union, 1.0)


def pixel_scale(
    coordinates: str, image_size: Sequence[float] | None, resized_size: Sequence[float] | None
) -> tuple[float, float]:
    """Factors (x, y) from a convention to original pixels. ValueError when unknown or a size is missing."""
    if coordinates == "pixel":
        return 1.0, 1.0
    if coordinates not in COORDINATES:
        raise ValueError(f"coordinates must be one of {', '.join(COORDINATES)}, got {coordinates!r}")
    if image_size is None:
        raise ValueError(f"coordinates={coordinates} needs image_size [width, height]")
    width, height = image_size
    if coordinates == "resized_pixel":
        if resized_size is None:
            raise ValueError("coordinates=resized_pixel needs resized_size [width, height]")
        return width / resized_size[0], height / resized_size[1]
    parts = 1000.0 if coordinates == "norm1000" else 1.0
    return width / parts, height / parts


def count_out_of_range(box: Box, image_size: Sequence[float] | None) -> int:
    """How many of the four coordinates (original pixels) lie outside the image; 0 when its size is unknown."""
    if image_size is None:
        return 0
    limits = (*image_size, *image_size)
    return sum(not 0 <= value <= limit for value, limit in zip(box, limits, strict=True))


def box_text(box: Sequence[float]) -> str:
    """``[10, 20, 110, 220]``: the canonical spelling."""
    return f"[{', '.join(map(plain_number, box))}]"


def render_box(
    box: Box,
    coordinates: str = "pixel",
    image_size: Sequence[float] | None = None,
    resized_size: Sequence[float] | None = None,
) -> str:
    """A box in original pixels, written in the backbone's convention.

    Original pixels are written as they are; resized pixels and 0-1000 as integers, 0-1 with four decimals.
    """
    if coordinates == "pixel":
        return box_text(box)
    scale_x, scale_y = pixel_scale(coordinates, image_size, resized_size)
    digits = 4 if coordinates == "norm1" else 0
    return box_text(
        [round(v / s, digits) for v, s in zip(box, (scale_x, scale_y, scale_x, scale_y), strict=True)]
    )
