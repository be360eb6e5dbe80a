"""Camera arrows on a satellite picture: geometry, and the false ones of View-Arrow (CVSBench 0.A.1, 0.A.2).

An arrow's tail is the camera. Coordinates are shares of a square picture from its top left corner; angles are
degrees clockwise from the picture's top. The paper keeps false arrows off nearly horizontal and vertical
directions and off unsuitable ground; the figures for that, and the room between arrows, are ours.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from data_prep.cvsbench.annotations import NormalisedBox

Point = tuple[float, float]

LABEL = 0.045  # half the size of a letter's field
SHORTEST = 0.4  # of the wanted length: below it an arrow at the rim is of no use
_DRAWS = 4000
_WINDOW = 24  # a picture's side in windows over which its roughness is taken


class NoRoomError(ValueError):
    """An arrow that cannot be drawn, or false ones that cannot be placed; the message says why."""


@dataclass(frozen=True)
class Arrow:
    """A camera: `x`, `y` in [0, 1], `angle` in [0, 360)."""

    x: float
    y: float
    angle: float

    @property
    def direction(self) -> Point:
        return math.sin(math.radians(self.angle)), -math.cos(math.radians(self.angle))

    def head(self, length: float) -> Point:
        return self.x + length * self.direction[0], self.y + length * self.direction[1]

    def label(self) -> Point:
        """Centre of the arrow's letter: behind the tail, beside it where the rim is too close."""
        dx, dy = self.direction
        reach = 1.25 * LABEL
        places = [(self.x + reach * px, self.y + reach * py) for px, py in ((-dx, -dy), (-dy, dx), (dy, -dx))]
        return next((place for place in places if _inside(place, LABEL)), places[0])


@dataclass(frozen=True)
class Rules:
    """How false arrows are placed.

    - `length`: of all arrows, as a share of the picture.
    - `axis_margin`: degrees by which a false arrow differs from horizontal and vertical at least.
    - `separation`: least distance between two tails, as a share of the picture.
    - `flat_share`: share of the picture, the smoothest first, that counts as flat ground.
    """

    length: float
    axis_margin: float
    separation: float
    flat_share: float


def drawn_length(arrow: Arrow, length: float) -> float:
    """The length at which the arrow's head stays in the picture: `length`, or less near the rim.

    Raises:
        NoRoomError: less than `SHORTEST` of it would be left.
    """
    reach = length
    for place, step in zip((arrow.x, arrow.y), arrow.direction, strict=True):
        if step:
            reach = min(reach, ((1 if step > 0 else 0) - place) / step)
    if reach < SHORTEST * length:
        raise NoRoomError("the arrow stands at the rim and points out of the picture")
    return reach


def off_axis(angle: float) -> float:
    """Degrees between the angle and the nearest of up, right, down and left."""
    return min(angle % 90, 90 - angle % 90)


def flat_ground(picture: Image.Image, share: float) -> np.ndarray:
    """Where a camera may stand: the `share` of the picture that is smoothest, as booleans, row by row.

    Smooth is a small deviation of the grey values around a pixel. It leaves out crowns, edges of roofs and
    cluttered ground; it cannot tell a plain roof from a plain square.
    """
    grey = np.asarray(picture.convert("L"), dtype=np.float64)
    window = max(3, round(min(grey.shape) / _WINDOW)) | 1
    deviation = _mean(grey**2, window) - _mean(grey, window) ** 2
    return deviation <= np.quantile(deviation, share)


def _mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean over a square window around every pixel, the rim repeated outwards."""
    padded = np.pad(values, window // 2, mode="edge")
    sums = np.pad(padded.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    rows, columns = values.shape
    top, left = slice(0, rows), slice(0, columns)
    bottom, right = slice(window, window + rows), slice(window, window + columns)
    return (sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]) / window**2


def false_arrows(
    truth: Arrow, length: float, ground: np.ndarray, rules: Rules, rng: random.Random
) -> list[Arrow]:
    """Three arrows of the same length that could be taken for the true one.

    Each starts on `ground` (booleans, row by row), stays in the picture with its letter, is off the axes, and
    keeps its tail and its letter clear of the others.

    Raises:
        NoRoomError: the picture has no place for three.
    """
    rows, columns = np.nonzero(ground)
    placed = [truth]
    for _ in range(_DRAWS if len(rows) else 0):
        pick = rng.randrange(len(rows))
        x, y = ((v + 0.5) / n for v, n in zip((columns[pick], rows[pick]), ground.shape[::-1], strict=True))
        angle = 90 * rng.randrange(4) + rng.uniform(rules.axis_margin, 90 - rules.axis_margin)
        arrow = Arrow(float(x), float(y), angle)
        if _fits(arrow, length) and all(_clear(arrow, other, length, rules.separation) for other in placed):
            placed.append(arrow)
            if len(placed) == 4:
                return placed[1:]
    raise NoRoomError("there is no flat ground left for three false arrows")


def _fits(arrow: Arrow, length: float) -> bool:
    return (
        _inside((arrow.x, arrow.y), 0) and _inside(arrow.head(length), 0.01) and _inside(arrow.label(), LABEL)
    )


def _inside(point: Point, margin: float) -> bool:
    return all(margin <= value <= 1 - margin for value in point)


def _clear(one: Arrow, other: Arrow, length: float, separation: float) -> bool:
    if math.dist((one.x, one.y), (other.x, other.y)) < separation:
        return False
    return all(
        _to_shaft(a.label(), b, length) > 1.5 * LABEL and math.dist(a.label(), b.label()) > 2.5 * LABEL
        for a, b in ((one, other), (other, one))
    )


def _to_shaft(point: Point, arrow: Arrow, length: float) -> float:
    """Distance of a point to the drawn arrow."""
    across = (point[0] - arrow.x, point[1] - arrow.y)
    along = across[0] * arrow.direction[0] + across[1] * arrow.direction[1]
    along = min(max(along, 0.0), length)
    return math.dist(across, (along * arrow.direction[0], along * arrow.direction[1]))


def without_boxes(ground: np.ndarray, boxes: Iterable[NormalisedBox]) -> np.ndarray:
    """`ground` without what lies in the boxes: known things are no place to stand on."""
    rows, columns = ground.shape
    left = ground.copy()
    for box in boxes:
        x0, y0, x1, y1 = box.pixels(columns, rows)
        left[int(y0) : math.ceil(y1), int(x0) : math.ceil(x1)] = False
    return left
