"""The observability filter: of every picture the objects, and of all pictures those, that one view can tell
about.

Stages of the paper (MonoSR, section 3.1), each object falling at the first one that it fails:

1. *visibility*: it reaches behind the camera; is cut off by the picture's edge, or hidden, by too much; or
   covers too few pixels.
2. *quality*: its box cannot be used, is implausibly large or flat, or disagrees with its 2D box.
3. *complexity*: the picture is left with too few or too many objects; all of them fall.
4. *ambiguity*: a question whose answers one cannot tell apart. That is judged question by question
   (`data_prep.monosr.questions`).

The paper gives the limits, not how they are measured. Ours: truncation is the annotation's, else the share
of the projected box that lies outside the picture. Occlusion is the annotation's, else the share of the
object's part in the picture that other boxes hide. Area is that of the projected box inside the picture. The
2D box disagrees when more of it than `discrepancy` lies outside the projected box, or it leaves so much of
that box empty, where what is hidden may be empty.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from data_prep.errors import UserError
from data_prep.monosr import geometry
from data_prep.monosr.scene import Scene

STAGES: dict[str, tuple[str, ...]] = {
    "visibility": ("behind_camera", "truncated", "occluded", "small"),
    "quality": ("unusable", "too_large", "degenerate", "inconsistent"),
    "complexity": ("too_few", "too_many"),
}
"""Stage -> why an object falls at it."""
REASONS = tuple(reason for reasons in STAGES.values() for reason in reasons)
STAGE_OF = {reason: stage for stage, reasons in STAGES.items() for reason in reasons}
BLOCK = 128  # scenes judged at once


@dataclass(frozen=True)
class Thresholds:
    """The section `data.observability`: what an object or a picture may still be.

    - `max_truncation`, `max_occlusion`: shares. `min_area`: square pixels of the picture as annotated.
    - `max_size`: metres, the longest extent. `min_size`: metres, the shortest.
    - `max_discrepancy`: share of the 2D or of the projected box.
    - `min_objects`, `max_objects`: of a picture; `object_centric`: of an object-centric one, exactly.
    """

    max_truncation: float = 0.4
    max_occlusion: float = 0.6
    min_area: float = 400.0
    max_size: float = 20.0
    min_size: float = 0.01
    max_discrepancy: float = 0.3
    min_objects: int = 3
    max_objects: int = 40
    object_centric: int = 1

    def __post_init__(self) -> None:
        for name in ("max_truncation", "max_occlusion", "max_discrepancy"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"data.observability.{name}={getattr(self, name)} is no share from 0 to 1.")
        for name in ("min_area", "min_size"):
            if getattr(self, name) < 0:
                raise UserError(f"data.observability.{name}={getattr(self, name)} is negative.")
        if self.min_size > self.max_size or self.min_objects > self.max_objects:
            raise UserError("data.observability: a smallest value is larger than the largest one.")


@dataclass(frozen=True, eq=False)
class Judged:
    """A scene and what the filter made of it.

    - `full`: with every object of the picture. `reasons`: (n,) number in `REASONS` of why an object fell, -1
      for one that is left.
    - `measures`: what was measured of every object, (n,) each: truncation, occlusion, area, discrepancy.
    """

    full: Scene
    reasons: np.ndarray
    measures: dict[str, np.ndarray]

    @property
    def scene(self) -> Scene | None:
        """The scene with the objects that are left, or None where there is none."""
        kept = self.reasons < 0
        return self.full.subset(kept) if kept.any() else None


def observe(scenes: Iterable[Scene], thresholds: Thresholds) -> Iterator[Judged]:
    """Judge every scene, in order; what becomes of one depends on no other."""
    block: list[Scene] = []
    for scene in scenes:
        block.append(scene)
        if len(block) == BLOCK:
            yield from _judge(block, thresholds)
            block = []
    yield from _judge(block, thresholds)


def _judge(scenes: Sequence[Scene], limits: Thresholds) -> Iterator[Judged]:
    counts = [len(scene) for scene in scenes]
    if not sum(counts):
        yield from (Judged(scene, np.zeros(0, np.int8), {}) for scene in scenes)
        return
    picture = np.repeat(np.arange(len(scenes)), counts)
    objects = _Objects(scenes, picture)
    measures = objects.measures()
    reasons = np.full(len(picture), -1, np.int8)
    longest, shortest = objects.size.max(1), objects.size.min(1)
    with np.errstate(invalid="ignore"):
        fails = {
            "behind_camera": ~objects.front,
            "truncated": measures["truncation"] > limits.max_truncation,
            "occluded": measures["occlusion"] > limits.max_occlusion,
            "small": measures["area"] < limits.min_area,
            "unusable": ~objects.usable,
            "too_large": longest > limits.max_size,
            "degenerate": shortest < limits.min_size,
            "inconsistent": measures["discrepancy"] > limits.max_discrepancy,
        }
    for reason in reversed(REASONS[: len(fails)]):
        reasons[fails[reason] & (objects.usable | (reason == "unusable"))] = REASONS.index(reason)
    left = np.bincount(picture[reasons < 0], minlength=len(scenes))
    single = np.array([scene.domain == "object_centric" for scene in scenes])
    least = np.where(single, limits.object_centric, limits.min_objects)
    most = np.where(single, limits.object_centric, limits.max_objects)
    for reason, out in (("too_few", left < least), ("too_many", left > most)):
        reasons[(reasons < 0) & out[picture]] = REASONS.index(reason)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    for i, scene in enumerate(scenes):
        part = slice(bounds[i], bounds[i + 1])
        yield Judged(scene, reasons[part], {name: values[part] for name, values in measures.items()})


class _Objects:
    """The objects of a block of scenes as one set of arrays; `picture` is the scene's place of each."""

    def __init__(self, scenes: Sequence[Scene], picture: np.ndarray) -> None:
        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(scene, name) for scene in scenes])

        self.picture = picture
        self.K = np.stack([scene.K for scene in scenes])[picture]
        self.picture_size = np.array([(s.width, s.height) for s in scenes], float)[picture]
        self.center, self.size, self.R = joined("center"), joined("size"), joined("R")
        self.corners, self.box2d = joined("corners"), joined("box2d")
        self.truncation, self.visibility = joined("truncation"), joined("visibility")
        self.usable = np.isfinite(self.corners).all((1, 2))
        self.rectangle = geometry.rectangles(self.corners, self.K)
        self.shown = geometry.clipped(self.rectangle, self.picture_size)

    @property
    def front(self) -> np.ndarray:
        """(n,) whether all of a box lies in front of the camera."""
        return np.isfinite(self.rectangle).all(1)

    def measures(self) -> dict[str, np.ndarray]:
        area, whole = geometry.area(self.shown), geometry.area(self.rectangle)
        with np.errstate(invalid="ignore", divide="ignore"):
            outside = 1 - area / whole
        truncation = np.where(np.isnan(self.truncation), outside, self.truncation)
        visibility = np.where(np.isnan(self.visibility), self._seen_share(), self.visibility)
        common = geometry.area(geometry.overlap(self.shown, self.box2d))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            beyond = 1 - common / geometry.area(self.box2d)
            lacking = 1 - common / (area * visibility)
        return {
            "truncation": truncation,
            "occlusion": 1 - visibility,
            "area": area,
            "discrepancy": np.fmax(beyond, lacking),
        }

    def _seen_share(self) -> np.ndarray:
        unknown = np.isnan(self.visibility) & self.usable & self.front
        if not unknown.any():
            return self.visibility
        sound = np.flatnonzero(self.usable)
        shares = np.full(len(self.picture), np.nan)
        shares[sound] = geometry.seen_shares(
            self.picture[sound], self.K[sound], self.shown[sound], self.center[sound], self.size[sound],
            self.R[sound], unknown[sound],
        )  # fmt: skip
        return shares
