"""What the questions of one scene are made from: places, extents, names, relations in a viewer's frame."""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data_prep.monosr.options import Options
from data_prep.monosr.references import Name, References
from data_prep.monosr.scene import Scene, project

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
ACROSS, DOWN, AHEAD = 0, 1, 2
LEVEL = 0
CAMERA = -1
STEEPEST = 0.5  # horizontal metres for each vertical one, to face a thing without looking up or down
LEAST_BEARING = math.tan(math.radians(3))  # by which two things differ that a viewer sees side by side
AGREED = 0.99  # length of the mean of unit vectors that point the same way, within some 8 degrees
MOST_UPRIGHT = 50  # pairs that are looked at for one above the other
MOST_VIEWPOINTS = 8  # pairs of a scene at which a viewer may stand and look


@dataclass(frozen=True)
class Frame:
    """Objects on the axes right, down and ahead of a viewer, in metres from there.

    `center`: the three coordinates of each object's centre; `half`: half of its extent along each axis.
    `axes`: (3, 3), the three axes in the camera's frame as rows. `stand` and `face` are the objects at which
    the viewer stands and looks, `CAMERA` where it is the camera.
    """

    center: list[list[float]]
    half: list[list[float]]
    axes: np.ndarray
    stand: int = CAMERA
    face: int = CAMERA


class Facts:
    """One scene, prepared for its questions. Objects are named by their places in `scene`.

    - `scene`: all annotated objects of the picture: those that are not asked about hide others too.
    - `asked`: places of the objects that the filter kept; `places`: those of them that have a name.
    - `names`: the names of every object.
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
        self._around: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        kept = set(scene.ids)
        self.asked = [place for place, name in enumerate(self.scene.ids) if name in kept]
        self.names = References(scene, full, captions).names
        self.places = [place for place in self.asked if self.names[place]]
        self.center: list[list[float]] = self.scene.center.tolist()
        self.size: list[list[float]] = self.scene.size.tolist()
        self._pixels: list[list[float]] = project(self.scene.center, self.scene.K).tolist()

    def rng(self, purpose: str) -> random.Random:
        """Chance of its own for each purpose: what one task draws leaves the others alone."""
        return random.Random(f"{self._seed}/{self.scene.id}/{self.salt}{purpose}")

    @cached_property
    def camera(self) -> Frame:
        """The scene as the camera has it."""
        return self._frame(np.eye(3), np.zeros(3))

    def viewer(self, stand: int, face: int) -> Frame | None:
        """The scene for one who stands at an object's centre and faces another's; None where that is no
        direction, because they stand above each other.

        Ahead is the horizontal part of the way from one to the other; down is the camera's y; right is what a
        camera would have there.
        """
        (ax, ay, az), (bx, by, bz) = self.center[stand], self.center[face]
        dx, dz = bx - ax, bz - az
        length = math.hypot(dx, dz)
        if length < self.options.gap_metres or length < STEEPEST * abs(ay - by):
            return None
        dx, dz = dx / length, dz / length
        axes = np.array([[dz, 0.0, -dx], [0.0, 1.0, 0.0], [dx, 0.0, dz]])
        return self._frame(axes, self.scene.center[stand], stand, face)

    def _frame(self, axes: np.ndarray, origin: np.ndarray, stand: int = CAMERA, face: int = CAMERA) -> Frame:
        half = (np.abs(axes @ self.scene.R) @ self.scene.size[:, :, None] / 2)[:, :, 0]
        return Frame(((self.scene.center - origin) @ axes.T).tolist(), half.tolist(), axes, stand, face)

    @cached_property
    def viewpoints(self) -> list[Frame]:
        """A few viewers of the scene, the same for every task; each stands at a named object."""
        pairs = self.pairs(self.rng("viewpoints"), MOST_VIEWPOINTS)
        return [frame for stand, face in pairs if (frame := self.viewer(stand, face))]

    @cached_property
    def _upright(self) -> tuple[list[float], list[float]] | None:
        """Centres and half extents along the direction in which the boxes stand, where they agree on one.

        A camera that looks down has no vertical y axis: things further away on its ground rise in its frame.
        """
        down = self.scene.R[self.solid, :, 1]
        mean = down.mean(0) if len(down) else np.zeros(3)
        length = float(np.linalg.norm(mean))
        if not length > AGREED:
            return None
        mean /= length
        half = (np.abs(mean @ self.scene.R) * self.scene.size).sum(1) / 2
        return (self.scene.center @ mean).tolist(), half.tolist()

    def side(self, frame: Frame, one: int, other: int, axis: int) -> int | None:
        """On which side of `other` an object lies along an axis: the sign of the difference of their centres.

        `LEVEL` for two objects on the vertical axis that share much of their heights: neither is above the
        other. None where it is not certain. For above and below the objects' heights must not overlap at all,
        along the camera's y and along the direction in which the boxes stand; for left and right the viewer
        must also see them in that order, and in the picture neither one's middle may lie within the other's
        columns; in front and behind need a gap that the camera can see.
        """
        c, d = frame.center[one][axis], frame.center[other][axis]
        side = self._along(c, d, frame.half[one][axis], frame.half[other][axis], axis)
        if axis == DOWN and side is not None and self._upright:
            place, half = self._upright
            return (
                side if side == self._along(place[one], place[other], half[one], half[other], axis) else None
            )
        # Left and right in space and in view differ where the nearer one is closer to the middle.
        if axis == ACROSS and side and not self._seen_in_order(frame, one, other, side):
            return None
        if axis == AHEAD and frame.stand == CAMERA and abs(c - d) < self.options.gap_depth * max(c, d):
            return None
        return side

    def _along(self, c: float, d: float, h: float, k: float, axis: int) -> int | None:
        """`side` by the intervals c - h to c + h and d - k to d + k on one line."""
        options = self.options
        gap = c - d
        if axis == DOWN:
            overlap = min(c + h, d + k) - max(c - h, d - k)
            if overlap >= 2 * options.level_overlap * min(h, k):
                return LEVEL
            if overlap > 0:
                return None
        if not abs(gap) > max(options.gap_metres, options.gap_share * (h + k)):
            return None
        return 1 if gap > 0 else -1

    def _seen_in_order(self, frame: Frame, one: int, other: int, side: int) -> bool:
        if frame.stand == CAMERA:
            if self._within(one, other) or self._within(other, one):
                return False
            apart, least = self._pixels[one][0] - self._pixels[other][0], self.options.pixels
        else:
            c, d = frame.center[one], frame.center[other]
            if c[AHEAD] <= 0 or d[AHEAD] <= 0:
                return False
            apart, least = c[ACROSS] / c[AHEAD] - d[ACROSS] / d[AHEAD], LEAST_BEARING
        return apart * side > 0 and abs(apart) >= least  # False for NaN: behind the camera

    def _within(self, one: int, other: int) -> bool:
        """Whether an object's middle lies in the picture's columns that another one takes."""
        left, _, right, _ = self.scene.box2d[other]
        return bool(left <= self._pixels[one][0] <= right)

    def around(self, frame: Frame, place: int, axis: int) -> int | None:
        """On which side of the viewer itself an object lies, left or right, behind or ahead: -1 or 1.

        None where it is not certain: nearer than the margin of two objects' relation, or within `angle` of
        what is neither.
        """
        options = self.options
        here, half = frame.center[place], frame.half[place][axis] + frame.half[frame.stand][axis]
        gap, across = here[axis], here[AHEAD - axis]
        if not abs(gap) > max(options.gap_metres, options.gap_share * half):
            return None
        if abs(gap) < self._off_axis * abs(across):
            return None
        return 1 if gap > 0 else -1

    def others(self, frame: Frame) -> list[int]:
        """Named objects at which the viewer neither stands nor looks, seen apart from where it stands."""
        return self._beside(frame)[0]

    def ahead(self, frame: Frame) -> list[int]:
        """Those of `others` that are certainly ahead of the viewer."""
        return self._beside(frame)[1]

    def _beside(self, frame: Frame) -> tuple[list[int], list[int]]:
        key = frame.stand, frame.face
        if key not in self._around:
            others = [p for p in self.places if p not in key and self.seen_apart(p, frame.stand)]
            self._around[key] = others, [p for p in others if self.around(frame, p, AHEAD) == 1]
        return self._around[key]

    @cached_property
    def solid(self) -> np.ndarray:
        """The places of all objects whose boxes are known."""
        return np.flatnonzero(np.isfinite(self.scene.center).all(1) & (self.scene.size > 0).all(1))

    @cached_property
    def kept(self) -> np.ndarray:
        """(n,) whether the filter kept each object."""
        kept = np.zeros(len(self.scene), dtype=bool)
        kept[self.asked] = True
        return kept

    @cached_property
    def radius(self) -> np.ndarray:
        """(n,) metres from each box's centre to its corners."""
        return np.sqrt((self.scene.size**2).sum(1)) / 2

    @cached_property
    def upright_pairs(self) -> list[tuple[int, int]]:
        """Pairs of named objects of which the first is certainly above or below the second: few are."""
        pairs = self.pairs(self.rng("upright"), MOST_UPRIGHT)
        found = [pair for pair in pairs if self.side(self.camera, *pair, DOWN)]
        return [both for one, other in found for both in ((one, other), (other, one))]

    def seen_apart(self, one: int, other: int) -> bool:
        """Whether two centres are far enough apart in the picture (stage iv)."""
        (u, v), (s, t) = self._pixels[one], self._pixels[other]
        return math.hypot(u - s, v - t) >= self.options.pixels  # False for NaN: behind the camera

    def pairs(self, rng: random.Random, most: int) -> Iterator[tuple[int, int]]:
        """Up to `most` ordered pairs of different named objects, in a random order."""
        count = len(self.places)
        total = count * (count - 1)
        for number in rng.sample(range(total), min(most, total)):
            one, other = divmod(number, count - 1)
            yield self.places[one], self.places[other + (other >= one)]

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
