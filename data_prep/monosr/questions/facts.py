"""What the questions of one scene are made from: places, extents, names, relations in a viewer's frame."""

import math
import random
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np

from data_prep.monosr.options import Options
from data_prep.monosr.questions.frames import (
    ACROSS,
    AHEAD,
    CAMERA,
    DOWN,
    UNCERTAIN,
    Frame,
    camera,
    heights,
    viewers,
)
from data_prep.monosr.references import Name, References
from data_prep.monosr.scene import Scene

SIDES: dict[str, tuple[int, int]] = {
    "left": (0, -1),
    "right": (0, 1),
    "above": (1, -1),
    "below": (1, 1),
    "front": (2, -1),
    "behind": (2, 1),
}
"""Relation of one object to another -> axis of the viewer's frame (right, down, ahead), and the sign of the
difference of their centres: what is in front of another thing is nearer to the viewer."""
RELATION = {side: relation for relation, side in SIDES.items()}
INVERSE = {relation: RELATION[axis, -sign] for relation, (axis, sign) in SIDES.items()}
STEEPEST = 0.5  # horizontal metres for each vertical one, to face a thing without looking up or down
LEAST_BEARING = math.tan(math.radians(3))  # by which two things differ that a viewer sees side by side
AGREED = 0.99  # length of the mean of unit vectors that point the same way, within some 8 degrees
MOST_UPRIGHT = 50  # pairs that are looked at for one above the other
MOST_VIEWPOINTS = 8  # pairs of a scene at which a viewer may stand and look


class Solid(NamedTuple):
    """Objects whose boxes are known: their `places` (b,), centres (b, 3) in metres, and `radius` (b,), metres
    from there to the corners."""

    places: np.ndarray
    center: np.ndarray
    radius: np.ndarray


class Facts:
    """One scene, prepared for its questions. Objects are named by their places in `scene`.

    - `scene`: all annotated objects of the picture: those that are not asked about hide others too.
    - `asked`: places of the objects that the filter kept; `places`: those of them that have a name.
    - `names`: the names of every object, `nouns` its category as one says it.
    """

    def __init__(
        self,
        scene: Scene,
        full: Scene | None,
        options: Options,
        seed: int,
        captions: Mapping[str, str] | None = None,
    ) -> None:
        self.salt = ""  # further chance, for more questions of the same tasks
        self.scene, self.options = scene if full is None else full, options
        self._seed = seed
        self._off_axis = math.tan(math.radians(options.angle))
        self._beside: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        kept = set(scene.ids)
        self.asked = [place for place, name in enumerate(self.scene.ids) if name in kept]
        references = References(scene, full, captions)
        self.names, self.nouns = references.names, references.nouns
        self.places = [place for place in self.asked if self.names[place]]
        self.center: list[list[float]] = self.scene.center.tolist()
        self.size: list[list[float]] = self.scene.size.tolist()
        self._u: list[float] = self.scene.pixels[:, 0].tolist()
        self._box2d: list[list[float]] = self.scene.box2d.tolist()

    def rng(self, purpose: str) -> random.Random:
        """Chance of its own for each purpose: what one task draws leaves the others alone."""
        return random.Random(f"{self._seed}/{self.scene.id}/{self.salt}{purpose}")

    @cached_property
    def camera(self) -> Frame:
        """The scene as the camera has it."""
        return camera(self.scene.center, self.scene.R, self.scene.size)

    def viewer(self, stand: int, face: int) -> Frame | None:
        """The scene for one who stands at an object's centre and faces another's; None where that is no
        direction, because they stand above each other.

        Ahead is the horizontal part of the way from one to the other; down is the camera's y; right is what a
        camera would have there.
        """
        found = self._viewers([(stand, face)])
        return found[0] if found else None

    def _viewers(self, pairs: Iterable[tuple[int, int]]) -> list[Frame]:
        """`viewer` of those pairs that are a direction."""
        chosen, turned = [], []
        for stand, face in pairs:
            (ax, ay, az), (bx, by, bz) = self.center[stand], self.center[face]
            dx, dz = bx - ax, bz - az
            length = math.hypot(dx, dz)
            if length < self.options.gap_metres or length < STEEPEST * abs(ay - by):
                continue
            dx, dz = dx / length, dz / length
            chosen.append((stand, face))
            turned.append([[dz, 0.0, -dx], [0.0, 1.0, 0.0], [dx, 0.0, dz]])
        if not chosen:
            return []
        scene = self.scene
        axes = np.array(turned)
        return viewers(scene.center, scene.R, scene.size, chosen, axes, self.options, self._off_axis)

    @cached_property
    def viewpoints(self) -> list[Frame]:
        """A few viewers of the scene, the same for every task; each stands at a named object."""
        return self._viewers(self.pairs(self.rng("viewpoints"), MOST_VIEWPOINTS))

    @cached_property
    def _upright(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Centres and half extents (n,) along the direction in which the boxes stand, if they agree on one.

        A camera that looks down has no vertical y axis: things further away on its ground rise in its frame.
        """
        down = self.scene.R[self.solid.places, :, 1]
        mean = down.mean(0) if len(down) else np.zeros(3)
        length = float(np.linalg.norm(mean))
        if not length > AGREED:
            return None
        mean /= length
        return self.scene.center @ mean, (np.abs(mean @ self.scene.R) * self.scene.size).sum(1) / 2

    @cached_property
    def _heights(self) -> list[list[int]]:
        """`side` of every two objects along the vertical axis, which all viewers share."""
        lines = [(self.scene.center[:, DOWN], np.array(self.camera.half[DOWN]))]
        return heights(lines + ([self._upright] if self._upright else []), self.options)

    def side(self, frame: Frame, one: int, other: int, axis: int) -> int | None:
        """On which side of `other` an object lies along an axis: the sign of the difference of their centres.

        `LEVEL` for two objects on the vertical axis that share much of their heights: neither is above the
        other. None where it is not certain. For above and below the objects' heights must not overlap at all,
        along the camera's y and along the direction in which the boxes stand; for left and right the viewer
        must also see them in that order, and in the picture neither one's middle may lie within the other's
        columns; in front and behind need a gap that the camera can see.
        """
        if axis == DOWN:
            height = self._heights[one][other]
            return None if height == UNCERTAIN else height
        options, center, half = self.options, frame.center[axis], frame.half[axis]
        c, d = center[one], center[other]
        gap = c - d
        if not abs(gap) > max(options.gap_metres, options.gap_share * (half[one] + half[other])):
            return None
        side = 1 if gap > 0 else -1
        # Left and right in space and in view differ where the nearer one is closer to the middle.
        if axis == ACROSS and not self._seen_in_order(frame, one, other, side):
            return None
        if axis == AHEAD and frame.stand == CAMERA and abs(gap) < options.gap_depth * max(c, d):
            return None
        return side

    def _seen_in_order(self, frame: Frame, one: int, other: int, side: int) -> bool:
        if frame.stand == CAMERA:
            if self._within(one, other) or self._within(other, one):
                return False
            apart, least = self._u[one] - self._u[other], self.options.pixels
        else:
            across, ahead = frame.center[ACROSS], frame.center[AHEAD]
            if ahead[one] <= 0 or ahead[other] <= 0:
                return False
            apart, least = across[one] / ahead[one] - across[other] / ahead[other], LEAST_BEARING
        return apart * side > 0 and abs(apart) >= least  # False for NaN: behind the camera

    def _within(self, one: int, other: int) -> bool:
        """Whether an object's middle lies in the picture's columns that another one takes."""
        left, _, right, _ = self._box2d[other]
        return left <= self._u[one] <= right

    def around(self, frame: Frame, place: int, axis: int) -> int | None:
        """On which side of the viewer itself an object lies, left or right, behind or ahead: -1 or 1.

        None where it is not certain: nearer than the margin of two objects' relation, or within `angle` of
        what is neither.
        """
        return frame.sides[axis][place] or None

    def others(self, frame: Frame) -> list[int]:
        """Named objects at which the viewer neither stands nor looks, seen apart from where it stands."""
        return self._seen_beside(frame)[0]

    def ahead(self, frame: Frame) -> list[int]:
        """Those of `others` that are certainly ahead of the viewer."""
        return self._seen_beside(frame)[1]

    def _seen_beside(self, frame: Frame) -> tuple[list[int], list[int]]:
        key = frame.stand, frame.face
        if key not in self._beside:
            apart, ahead = self._apart[frame.stand], frame.sides[AHEAD]
            others = [place for place in self.places if apart[place] and place not in key]
            self._beside[key] = others, [place for place in others if ahead[place] == 1]
        return self._beside[key]

    @cached_property
    def solid(self) -> Solid:
        """The objects whose boxes are known."""
        center, size = self.scene.center, self.scene.size
        places = np.flatnonzero(np.isfinite(center).all(1) & (size > 0).all(1))
        return Solid(places, center[places], np.sqrt((size[places] ** 2).sum(1)) / 2)

    @cached_property
    def kept(self) -> np.ndarray:
        """(n,) whether the filter kept each object."""
        kept = np.zeros(len(self.scene), dtype=bool)
        kept[self.asked] = True
        return kept

    @cached_property
    def upright_pairs(self) -> list[tuple[int, int]]:
        """Pairs of named objects of which the first is certainly above or below the second: few are."""
        pairs = self.pairs(self.rng("upright"), MOST_UPRIGHT)
        found = [(one, other) for one, other in pairs if self._heights[one][other] in (-1, 1)]
        return [both for one, other in found for both in ((one, other), (other, one))]

    def seen_apart(self, one: int, other: int) -> bool:
        """Whether two centres are far enough apart in the picture (stage iv)."""
        return self._apart[one][other]

    @cached_property
    def _apart(self) -> list[list[bool]]:
        """`seen_apart` of every two objects."""
        gap = self.scene.pixels[:, None] - self.scene.pixels
        # False for NaN: behind the camera
        return (np.hypot(gap[..., 0], gap[..., 1]) >= self.options.pixels).tolist()

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(permutations(self.places, 2))

    def pairs(self, rng: random.Random, most: int) -> list[tuple[int, int]]:
        """Up to `most` ordered pairs of different named objects, in a random order."""
        return rng.sample(self._pairs, min(most, len(self._pairs)))

    def called(
        self, rng: random.Random, places: tuple[int, ...], silent: tuple[str, ...] = ()
    ) -> tuple[str, ...] | None:
        """One name for each object; None where one has none that keeps the answer to itself.

        Args:
            silent: what no name may tell, by `Name.tells`. Names by another object of the same question are
                left out in any case.
        """
        asked = {self.scene.ids[place] for place in places}
        chosen: dict[int, str] = {}
        for place in places:
            if place in chosen:
                continue
            fitting = [
                name for name in self.names[place] if name.tells not in silent and name.anchor not in asked
            ]
            if not fitting:
                return None
            chosen[place] = _drawn(rng, fitting).text
        return tuple(chosen[place] for place in places)


def _drawn(rng: random.Random, names: list[Name]) -> Name:
    """A caption, or the bare category, where it is enough; else any."""
    return names[0] if names[0].kind in ("caption", "only") else rng.choice(names)
