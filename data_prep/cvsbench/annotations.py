"""The paper's annotation files (CVSBench 0.A.1), for those who have the annotations and the pictures alone.

    viewpoints  {"sample_id": "0001", "annotations": [{"view_id": 1, "x": 0.79, "y": 0.96, "angle": 340.2}]}
    box pairs   {"0842_1": {"rs": [{"x": 0.75, "y": 0.33, "w": 0.16, "h": 0.10}], "sv": [{...}]}}

Coordinates are shares of the picture's width and height, from its top left corner. An angle is in degrees, 0
towards the top of the satellite picture, clockwise. Box pairs become grounding rows of both directions.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.cvsbench import fields
from data_prep.cvsbench.fields import FieldError
from data_prep.errors import UserError
from data_prep.quarantine import Quarantined

_OVER = 1e-3  # by which a box may reach over the edge: annotations are rounded


@dataclass(frozen=True)
class Viewpoint:
    """A camera on the satellite picture: `x`, `y` are shares of its sides, `angle` degrees in [0, 360)."""

    sample_id: str
    view_id: str
    x: float
    y: float
    angle: float

    def position(self, width: int, height: int) -> tuple[float, float]:
        """The camera in pixels of a satellite picture of this size."""
        return self.x * width, self.y * height

    @property
    def direction(self) -> tuple[float, float]:
        """Unit vector of the viewing direction; x points right, y down."""
        return math.sin(math.radians(self.angle)), -math.cos(math.radians(self.angle))


@dataclass(frozen=True)
class NormalisedBox:
    """Top left corner and extent, shares of the picture's sides."""

    x: float
    y: float
    w: float
    h: float

    def pixels(self, width: int, height: int) -> list[float]:
        """[x_min, y_min, x_max, y_max] in pixels, to a hundredth, inside the picture."""
        corners = (self.x, self.y, min(self.x + self.w, 1.0), min(self.y + self.h, 1.0))
        return [round(v * side, 2) for v, side in zip(corners, (width, height) * 2, strict=True)]


@dataclass(frozen=True)
class BoxPair:
    """One thing in both views: `number` is its place in the lists of `image_id`, from 0."""

    image_id: str
    number: int
    satellite: NormalisedBox
    street: NormalisedBox


def read_viewpoints(path: Path) -> Iterator[Viewpoint | Quarantined]:
    """The viewpoints of a file: one JSON object, a list of them, or one a line.

    A faulty one comes as the reason why, with its entry's number (from 1) as the line.

    Raises:
        UserError: the file cannot be read as JSON, or an entry has no `annotations`.
    """
    for number, entry in enumerate(_entries(path), start=1):
        views = entry.get("annotations") if isinstance(entry, dict) else None
        if not isinstance(views, list):
            form = '{"sample_id": ..., "annotations": [...]}'
            raise UserError(f"{path}, entry {number} is not {form}: {entry!r:.80}. Mend it.")
        sample = "?"
        for view in views:
            try:
                sample = _sample(entry)
                yield viewpoint(sample, view)
            except FieldError as error:
                name = view.get("view_id") if isinstance(view, dict) else "?"
                yield Quarantined(f"{sample}.{name}", path.name, number, str(error))


def viewpoint(sample_id: str, record: Any) -> Viewpoint:
    """One entry of `annotations`.

    Raises:
        FieldError: a key is missing, no number, or a position off the picture.
    """
    if not isinstance(record, dict):
        raise FieldError(f"a viewpoint is an object with view_id, x, y and angle, not {record!r:.60}")
    view = fields.identifier(record, fields.VIEW_KEYS)
    if view is None:
        raise FieldError("no view_id")
    x, y = (_share(record, key) for key in ("x", "y"))
    return Viewpoint(sample_id, view, x, y, _number(record, "angle") % 360.0)


def box_pairs(image_id: str, record: Any) -> list[BoxPair]:
    """The pairs of one image id: the first box of `rs` and the first of `sv` are one thing, and so on.

    Raises:
        FieldError: `rs` or `sv` is missing or they differ in length, or a box is null or malformed.
    """
    lists = [record.get(key) if isinstance(record, dict) else None for key in ("rs", "sv")]
    if not all(isinstance(boxes, list) and boxes for boxes in lists):
        raise FieldError(f"no lists of boxes under rs and sv: {record!r:.80}")
    satellite, street = (
        [_box(box, key) for box in boxes] for key, boxes in zip(("rs", "sv"), lists, strict=True)
    )
    if len(satellite) != len(street):
        raise FieldError(f"{len(satellite)} boxes under rs and {len(street)} under sv make no pairs")
    both = zip(satellite, street, strict=True)
    return [BoxPair(image_id, number, *pair) for number, pair in enumerate(both)]


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        UserError: it is not JSON in UTF-8.
    """
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error}). Download the file again, or mend it.") from error


def _entries(path: Path) -> list[Any]:
    """Objects of a file that holds one, a list, or one a line."""
    if path.suffix == ".jsonl":
        content = path.read_bytes().splitlines()
        try:
            return [json.loads(line.decode("utf-8-sig")) for line in content if line.strip()]
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} holds a line that is not JSON ({error}). Mend it.") from error
    found = read_json(path)
    return found if isinstance(found, list) else [found]


def _sample(entry: dict[str, Any]) -> str:
    sample = fields.identifier(entry, fields.SAMPLE_KEYS)
    if sample is None:
        raise FieldError("no sample_id")
    return sample


def _box(record: Any, key: str) -> NormalisedBox:
    if not isinstance(record, dict):
        raise FieldError(f"a box under {key} is an object with x, y, w and h, not {record!r:.60}")
    x, y, w, h = (_share(record, name) for name in ("x", "y", "w", "h"))
    if not w or not h:
        raise FieldError(f"a box under {key} has no area: {record!r:.80}")
    if x + w > 1 + _OVER or y + h > 1 + _OVER:
        raise FieldError(f"a box under {key} reaches over the picture's edge: {record!r:.80}")
    return NormalisedBox(x, y, w, h)


def _share(record: dict[str, Any], key: str) -> float:
    value = _number(record, key)
    if not 0 <= value <= 1:
        raise FieldError(f"{key} is a share from 0 to 1, not {value:g}")
    return value


def _number(record: dict[str, Any], key: str) -> float:
    value = record.get(key)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) < 1e9:
        raise FieldError(f"{key} is no number: {value!r:.40}")
    return float(value)
