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
difference of their centres: what is in front is nearer to the viewer."""
RELATION = {side: relation for relation, side in SIDES.items()}
INVERSE = {relation: RELATION[axis, -sign] for relation, (axis, sign) in SIDES.items()}
AXES = ((1, "above"), (0, "left"), (2, "front"))
"""The axes, the one on which relations are rare first, each with one of its relations."""
LEVEL = 0
STEEPEST = 0.5  # horizontal metres for each vertical one, to face a thing without looking up or down


@dataclass(frozen=True)
class Frame:
    """Objects in the axes right, down and ahead of a viewer; the origin is the camera.

    `center`: place of each object's centre on the three axes, metres; `half`: half of its extent along each.
    """

    center: list[list[float]]
    half: list[list[float]]


class Facts:
    """One scene, prepared for its questions.

    `places`: the numbers of the objects that have a name; `names`: of every object; `full`: all annotated
    objects of the picture, which hide others too.
    """

    def __init__(
        self,
        scene: Scene,
        full: Scene | None,
        options: Options,
        seed: int,
        captions: Mapping[str, str] | None = None,
    ) -> None:
        self.scene, self.full, self.options = scene, scene if full is None else full, options
        self._seed = seed
        self.names = References(scene, full, captions).names
        self.places = [place for place, names in enumerate(self.names) if names]
        self.center: list[list[float]] = scene.center.tolist()
        self.size: list[list[float]] = scene.size.tolist()
        self._pixels: list[list[float]] = project(scene.center, scene.K).tolist()

    def rng(self, purpose: str) -> random.Random:
        """Chance of its own for each purpose: what one task draws leaves the others alone."""
        return random.Random(f"{self._seed}/{self.scene.id}/{purpose}")

    @cached_property
    def camera(self) -> Frame:
        """The scene as the camera has it."""
        half = np.abs(self.scene.R) @ self.scene.size[:, :, None] / 2
        return Frame(self.center, half[:, :, 0].tolist())

    def viewer(self, place: int, facing: int) -> Frame | None:
        """The scene for one who stands at an object's centre and faces another's; None where that is no
        direction, because they stand above each other.

        Ahead is the horizontal part of the way from one to the other; down is the camera's y; right is what a
        camera would have there.
        """
        (ax, ay, az), (bx, by, bz) = self.center[place], self.center[facing]
        dx, dz = bx - ax, bz - az
        length = math.hypot(dx, dz)
        if length < self.options.gap_metres or length < STEEPEST * abs(ay - by):
            return None
        dx, dz = dx / length, dz / length
        axes = np.array([[dz, 0.0, -dx], [0.0, 1.0, 0.0], [dx, 0.0, dz]])
        half = np.abs(axes @ self.scene.R) @ self.scene.size[:, :, None] / 2
        return Frame((self.scene.center @ axes.T).tolist(), half[:, :, 0].tolist())

    def side(self, frame: Frame, one: int, other: int, axis: int) -> int | None:
        """On which side of `other` an object lies along an axis: the sign of the difference of their centres.

        `LEVEL` for two objects on the vertical axis that share much of their heights: neither is above the
        other. None where it is not certain. For above and below the objects' heights must not overlap at all;
        for the camera's left and right the picture must agree.
        """
        options = self.options
        c, d = frame.center[one][axis], frame.center[other][axis]
        h, k = frame.half[one][axis], frame.half[other][axis]
        gap = c - d
        if axis == 1:
            overlap = min(c + h, d + k) - max(c - h, d - k)
            if overlap >= 2 * options.level_overlap * min(h, k):
                return LEVEL
            if overlap > 0:
                return None
        if abs(gap) <= max(options.gap_metres, options.gap_share * (h + k)):
            return None
        if axis == 0 and frame is self.camera:
            # Left and right in space and in the picture differ where the nearer one is closer to the middle.
            apart = self._pixels[one][0] - self._pixels[other][0]
            if not apart * gap > 0 or abs(apart) < options.pixels:
                return None
        return 1 if gap > 0 else -1

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
    ) -> list[str] | None:
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
        return [chosen[place] for place in places]


def _drawn(rng: random.Random, names: list[Name]) -> Name:
    """A caption where there is one; else any."""
    return names[0] if names[0].kind in ("caption", "only") else rng.choice(names)
