"""Axis-aligned boxes: four finite numbers, compared by intersection over union (IoU).

Golds are kept in pixels of the original image. A model writes in its backbone's convention, so a prediction
is converted before it is compared. Coordinates off the image are counted and kept, never clipped.
"""

import math
import re

from rewards.answer import Parsed
from rewards.number import plain_number
from rewards.text import undress

Box = tuple[float, float, float, float]
"""(x_min, y_min, x_max, y_max); the origin is the image's top left corner, y points down."""

Size = tuple[float, float]
"""(width, height)."""

COORDINATES = ("pixel", "resized_pixel", "norm1000", "norm1")
"""Original pixels; pixels after the processor's resize; 0-1000 and 0-1 of the image's width and height."""

_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NUMBER = re.compile(
    r"(?<![\w.+-])([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?)(?:px)?(?![\w.%])", re.IGNORECASE
)
_NOT_FINITE = re.compile(r"(?<!\w)(?:nan|inf|infinity)(?!\w)|∞", re.IGNORECASE)
_HEDGE = re.compile(r"\b(?:not|or|maybe|perhaps|possibly|either|neither|unsure)\b|\?", re.IGNORECASE)


def parse_box(
    span: str, coordinates: str = "pixel", image_size: Size | None = None, resized_size: Size | None = None
) -> Parsed:
    """Read one box from a normalised span and return it in original pixels, corners in order.

    Accepts ``[x1, y1, x2, y2]``, ``(x1, y1), (x2, y2)``, bare numbers and JSON (``{"bbox_2d": [...]}``).
    ValueError when the convention needs a size that is missing (a fault of the row).
    """
    frame = frame_size(coordinates, image_size, resized_size)
    # JSON keys and labels may hold digits ("bbox_2d", "house 3"); quoted numbers are still numbers.
    text = _QUOTED.sub(lambda quoted: " " if re.search("[a-zA-Z]", quoted[0]) else quoted[0], undress(span))
    if _NOT_FINITE.search(text):
        return Parsed(reason="not_finite")
    written = [float(number) for number in _NUMBER.findall(text)]
    if len(written) > 4:
        return Parsed(reason="several_values")
    if len(written) < 4 or _HEDGE.search(text):
        return Parsed(reason="unreadable")
    pixels = written if coordinates == "pixel" else _rescale(written, frame, image_size)
    if not all(map(math.isfinite, pixels)):
        return Parsed(reason="not_finite")
    out_of_range = sum(not 0 <= v <= side for v, side in zip(written, frame * 2, strict=True)) if frame else 0
    box = in_order(pixels)
    return Parsed(box, box_text(box), out_of_range=out_of_range)


def score_box(value: Box, gold: Box, iou_threshold: float | None = None) -> float:
    """IoU in [0, 1]; with a threshold 1.0 when IoU reaches it, else 0.0."""
    overlap = iou(value, gold)
    return overlap if iou_threshold is None else float(overlap > 0 and overlap >= iou_threshold)


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes with corners in order; 0.0 when their areas do not overlap."""
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    shared = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    # Areas of huge boxes overflow, those of tiny ones vanish.
    return min(shared / union, 1.0) if 0 < union < math.inf else 0.0


def frame_size(coordinates: str, image_size: Size | None, resized_size: Size | None) -> Size | None:
    """Width and height of the image in a convention's own units; None for pixels of an image of unknown size.

    ValueError when a size that the convention needs is missing.
    """
    if coordinates == "pixel":
        return image_size
    if image_size is None:
        raise ValueError(f"coordinates={coordinates} needs image_size [width, height]")
    if coordinates == "resized_pixel":
        if resized_size is None:
            raise ValueError("coordinates=resized_pixel needs resized_size [width, height]")
        return resized_size
    return (1000.0, 1000.0) if coordinates == "norm1000" else (1.0, 1.0)


def render_box(
    box: Box, coordinates: str, image_size: Size | None = None, resized_size: Size | None = None
) -> str:
    """A box in original pixels, written in a backbone's convention.

    Original pixels are written as they are, resized pixels and 0-1000 as integers, 0-1 with four decimals.
    """
    frame = frame_size(coordinates, image_size, resized_size)
    if coordinates == "pixel":
        return box_text(box)
    digits = 4 if coordinates == "norm1" else 0
    return box_text([round(v, digits) for v in _rescale(box, image_size, frame)])


def box_text(box: Box | list[float]) -> str:
    """The canonical spelling: ``[10, 20, 110, 220]``."""
    return f"[{', '.join(map(plain_number, box))}]"


def in_order(corners: Box | list[float]) -> Box:
    """Two opposite corners as (x_min, y_min, x_max, y_max)."""
    x1, y1, x2, y2 = corners
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _rescale(box: Box | list[float], source: Size, target: Size) -> list[float]:
    return [v * to / of for v, to, of in zip(box, target * 2, source * 2, strict=True)]
