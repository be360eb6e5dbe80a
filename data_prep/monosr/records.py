"""Annotations and images of an Omni3D file as fixed-size records, and what is wrong with each.

A block of annotations becomes arrays at once; where that fails, one annotation at a time, so that the bad
one is named. Formats: an annotation's boxes are corners in pixels, -1 where there is none; `dimensions` are
width, height, length; -1 stands for unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data_prep.monosr.scene import CORNER_SIGNS
from data_prep.monosr.sources import SOURCES

SOURCE_NAMES = tuple(SOURCES)
"""What an image's `source` counts."""
ANNOTATION = np.dtype(
    [
        ("id", "i8"), ("image", "i8"), ("category", "i8"), ("fault", "u1"), ("flags", "u1"),
        ("center", "f8", 3), ("size", "f8", 3), ("R", "f8", (3, 3)), ("box2d", "f8", 4),
        ("truncation", "f8"), ("visibility", "f8"),
    ]
)  # fmt: skip
"""`image` and `category` are ids of the file, `size` is length, height, width; `box2d` is NaN where none is
given, `truncation` and `visibility` where unknown."""
IMAGE = np.dtype(
    [("id", "i8"), ("width", "i4"), ("height", "i4"), ("K", "f8", (3, 3)), ("source", "u1"),
     ("path", "i8"), ("path_length", "i4"), ("place", "i8")]
)  # fmt: skip
"""`path` and `path_length` are bytes in the file of paths, `place` counts the file's images from 1."""

NO_BOX, UNRELIABLE = 1, 2
"""Flags: the file itself gives the 3D box up; no point of it was seen, or its depth disagrees."""

FAULTS = (
    "",
    "a number of center_cam, dimensions or R_cam is not finite",
    "a dimension is zero or negative",
    "R_cam is no rotation",
    "bbox3D_cam is not the box of center_cam, dimensions and R_cam",
    "a 2D box is not finite",
    "truncation or visibility is neither in [0, 1] nor -1",
    "the annotation is not laid out as Omni3D's",  # listed with more detail where it is found
    "its id is used twice",
    "its image_id is that of no image",
    "its category_id is that of no category",
    "its image is set aside",  # listed with the image
)
"""What `fault` counts: why an annotation cannot be used."""
MALFORMED, REPEATED, NO_IMAGE, NO_CATEGORY, IMAGE_ASIDE = 7, 8, 9, 10, 11

ROTATION_TOLERANCE = 1e-2  # of R^T R from the identity
CORNER_TOLERANCE = 0.3  # of a box's diagonal; as far as 2D and 3D boxes may disagree
ENDLESS = 1e6  # metres or pixels (of K) from which a number counts as not finite
ROUNDING = 1e-4  # by which a share may leave [0, 1]
MAX_DEPTH_ERROR = 0.5  # metres; the reference loader's


class MalformedError(ValueError):
    """An image or annotation that cannot be read; the message says what is wrong."""


def annotations(block: Sequence[Any]) -> np.ndarray:
    """Records of a block of annotations. Some may have a `fault`.

    Raises:
        MalformedError: one of them has another form; take it alone to know which.
    """
    try:
        made = _columns(block)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MalformedError(_form(block[0]) if len(block) == 1 else "in a block") from error
    _judge(made, _corners(block, len(made)))
    return made


def malformed(annotation: Any) -> np.ndarray:
    """The record of an annotation that `annotations` cannot read: as much as is known of it."""
    made = np.zeros(1, ANNOTATION)
    for name in ("center", "size", "R", "box2d", "truncation", "visibility"):
        made[name] = np.nan
    for field, name in (("id", "id"), ("image", "image_id"), ("category", "category_id")):
        value = annotation.get(name) if isinstance(annotation, dict) else None
        made[field] = value if _is_id(value) else -1
    made["fault"] = MALFORMED
    return made


def _columns(block: Sequence[Mapping[str, Any]]) -> np.ndarray:
    made = np.zeros(len(block), ANNOTATION)
    for field, name in (("id", "id"), ("image", "image_id"), ("category", "category_id")):
        values = [a[name] for a in block]
        if not all(type(value) is int for value in values):
            raise TypeError(name)
        made[field] = values
    no_box = np.array([a.get("valid3D", True) is False for a in block])
    made["flags"] = NO_BOX * no_box
    made["flags"] |= np.array([UNRELIABLE * _unreliable(a) for a in block], np.uint8)
    # Without a box the file has fillings, or nothing.
    filling = {"center_cam": [-1.0] * 3, "dimensions": [-1.0] * 3, "R_cam": [[-1.0] * 3] * 3}
    known = [filling if none else a for a, none in zip(block, no_box, strict=True)]
    made["center"] = _numbers([a["center_cam"] for a in known], (3,))
    made["size"] = _numbers([a["dimensions"] for a in known], (3,))[:, ::-1]
    made["R"] = _numbers([a["R_cam"] for a in known], (3, 3))
    made["box2d"] = _box2d(block)
    for name in ("truncation", "visibility"):
        values = _numbers([a.get(name, -1) for a in block], ())
        made[name] = np.where(values == -1, np.nan, np.where(np.isnan(values), np.inf, values))
    return made


def _numbers(values: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """(n, *shape) float64. numpy would take null for NaN and "1" for 1; neither is a number here."""
    found = np.array(values)
    if found.dtype.kind not in "fi" or found.shape[1:] != shape:
        raise ValueError(f"{found.dtype} {found.shape}")
    return found.astype(np.float64)


def _box2d(block: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """(n, 4) the tight box, or else the projected one cut to the picture, or else the whole projected one.

    NaN where there is none; infinite where one is not finite.
    """
    none = [-1.0] * 4
    found = np.full((len(block), 4), np.nan)
    bad = np.zeros(len(block), bool)
    for name in ("bbox2D_proj", "bbox2D_trunc", "bbox2D_tight"):
        boxes = _numbers([none if (box := a.get(name)) is None else box for a in block], (4,))
        bad |= ~(np.abs(boxes) < ENDLESS**2).all(1)  # just in front of the camera, pixels go far
        given = (boxes[:, 2:] > boxes[:, :2]).all(1)
        found[given] = boxes[given]
    found[bad] = np.inf
    return found


def _unreliable(annotation: Mapping[str, Any]) -> bool:
    """The reference loader's rule; -1 (unknown) passes."""
    if annotation.get("lidar_pts", -1) == 0 or annotation.get("segmentation_pts", -1) == 0:
        return True
    error = annotation.get("depth_error", -1)
    return isinstance(error, (int, float)) and error > MAX_DEPTH_ERROR


def _corners(block: Sequence[Mapping[str, Any]], count: int) -> np.ndarray:
    """(n, 8, 3) the annotated corners; NaN where there are none, infinite where they are no 8 x 3 numbers."""
    found = np.full((count, 8, 3), np.nan)
    given = [i for i, a in enumerate(block) if a.get("bbox3D_cam") is not None]
    try:
        found[given] = _numbers([block[i]["bbox3D_cam"] for i in given], (8, 3)) if given else 0
    except ValueError:
        for i in given:
            try:
                found[i] = _numbers([block[i]["bbox3D_cam"]], (8, 3))[0]
            except ValueError:
                found[i] = np.inf
    with np.errstate(invalid="ignore"):
        found[given] = np.where(np.abs(found[given]) < ENDLESS, found[given], np.inf)
    return found


def _judge(made: np.ndarray, corners: np.ndarray) -> None:
    """Set `fault`, the first one in the order of `FAULTS`; what has no box is only asked for its 2D box."""
    box = made["flags"] & NO_BOX == 0
    center, size, R = made["center"], made["size"], made["R"]
    numbers = np.concatenate([center, size, R.reshape(-1, 9)], 1)
    finite = (np.isfinite(numbers) & (np.abs(numbers) < ENDLESS)).all(1)
    R = np.where(finite[:, None, None], R, np.eye(3))
    turned = np.abs(np.einsum("nji,njk->nik", R, R) - np.eye(3)).max((1, 2)) <= ROTATION_TOLERANCE
    turned &= np.linalg.det(R) > 0
    center, size = (np.where(finite[:, None], values, 1.0) for values in (center, size))
    diagonal = np.linalg.norm(size, axis=1)
    ours = np.einsum("nij,nkj->nki", R, CORNER_SIGNS * size[:, None] / 2) + center[:, None]
    with np.errstate(invalid="ignore"):
        gap = _gap(ours, corners, diagonal)
    shares = np.stack([made["truncation"], made["visibility"]], 1)
    checks = (
        box & ~finite,
        box & (size <= 0).any(1),
        box & ~turned,
        box & (gap > CORNER_TOLERANCE),
        np.isinf(made["box2d"]).any(1),
        ((shares < -ROUNDING) | (shares > 1 + ROUNDING)).any(1),
    )
    for number in range(len(checks), 0, -1):
        made["fault"][checks[number - 1]] = number
    for name in ("truncation", "visibility"):
        made[name] = np.clip(made[name], 0, 1)


def _gap(ours: np.ndarray, annotated: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    """(n,) how far the annotated corners lie from ours at most, as a share of the diagonal; NaN without any.

    The order of the corners is not asked about: converters differ in it, and nothing here uses it.
    """
    gap = np.linalg.norm(ours - annotated, axis=2).max(1) / diagonal
    for i in np.flatnonzero(gap > CORNER_TOLERANCE):
        if np.isfinite(annotated[i]).all() and np.isfinite(ours[i]).all():
            pairs = np.linalg.norm(ours[i][:, None] - annotated[i][None], axis=2)
            gap[i] = max(pairs.min(0).max(), pairs.min(1).max()) / diagonal[i]
    return np.where(np.isinf(annotated).any((1, 2)), np.inf, gap)


def _form(annotation: Any) -> str:
    """What is wrong with the form of an annotation, in one sentence."""
    if not isinstance(annotation, dict):
        return f"it is no JSON object but {annotation!r:.40}"
    for name in ("id", "image_id", "category_id"):
        if not _is_id(annotation.get(name)):
            return f"{name} is no integer but {annotation.get(name)!r:.40}"
    if annotation.get("valid3D", True) is not False:
        for name, shape in (("center_cam", (3,)), ("dimensions", (3,)), ("R_cam", (3, 3))):
            if not _fits(annotation.get(name), shape):
                return f"{name} is not {' x '.join(map(str, shape))} numbers but {annotation.get(name)!r:.60}"
    for name in ("bbox2D_tight", "bbox2D_trunc", "bbox2D_proj"):
        if annotation.get(name) is not None and not _fits(annotation[name], (4,)):
            return f"{name} is not 4 numbers but {annotation[name]!r:.60}"
    return "truncation or visibility is no number"


def _fits(value: Any, shape: tuple[int, ...]) -> bool:
    try:
        _numbers([value], shape)
    except (TypeError, ValueError):
        return False
    return True


def _is_id(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def image(record: Any) -> tuple[np.ndarray, str, Any]:
    """Record (without `path` and `place`), path and dataset id of an image.

    Raises:
        MalformedError: it has no id, no size, no path or no camera that can be used.
    """
    if not isinstance(record, dict):
        raise MalformedError(f"it is no JSON object but {record!r:.40}")
    made = np.zeros(1, IMAGE)
    if not _is_id(record.get("id")):
        raise MalformedError(f"id is no integer but {record.get('id')!r:.40}")
    made["id"] = record["id"]
    for name in ("width", "height"):
        value = record.get(name)
        if type(value) is not int or not 0 < value < 2**20:
            raise MalformedError(f"{name} is no size in pixels but {value!r:.40}")
        made[name] = value
    path = record.get("file_path")
    if not isinstance(path, str) or not path or any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in path):
        raise MalformedError(f"file_path is no path but {path!r:.40}")
    if record.get("K") is None:
        raise MalformedError("K is missing")
    if not _fits(record["K"], (3, 3)):
        raise MalformedError(f"K is not 3 x 3 numbers but {record['K']!r:.60}")
    made["K"] = record["K"]
    (fx, _, _), (below, fy, _), last = made["K"][0]
    if not (np.abs(made["K"]) < ENDLESS).all() or min(fx, fy) < 1 or below != 0 or last.tolist() != [0, 0, 1]:
        raise MalformedError(f"K is no camera matrix (fx 0 cx / 0 fy cy / 0 0 1) but {record['K']!r:.80}")
    return made, path, record.get("dataset_id")
