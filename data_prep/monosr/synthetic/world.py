"""Seeded scenes as arrays: boxes that stand on the ground or on each other and never meet.

The world has the camera at its origin and its axes as the camera's, save for the pitch: x right, y down
along gravity, z ahead. Things stand in cells, so none has to be thrown again. Every scene has a random
stream of its own: scene 7 of a source is the same whoever makes it, alone or among thousands.
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from data_prep.monosr import geometry
from data_prep.monosr.scene import CORNER_SIGNS, Scene
from data_prep.monosr.scene import SOURCES as DOMAINS
from data_prep.monosr.synthetic.things import SOURCES, THINGS, Thing

BLOCK = 128  # scenes made at once
RAYS = 8  # a side of the grid over an object, for scenes without pictures
TRACE = 0.02  # an object is annotated when so much of it lies inside the picture


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of one picture, (n, ...) each, in the camera frame; `thing` counts in the domain's `THINGS`.

    `shown` are their rectangles inside the picture. `ground` is its unit normal, upwards, and the camera's
    height above it in metres; None where there is none.
    """

    thing: np.ndarray
    center: np.ndarray
    size: np.ndarray
    R: np.ndarray
    truncation: np.ndarray
    shown: np.ndarray
    ground: tuple[np.ndarray, float] | None = None


def camera(source: str, side: int | None) -> tuple[np.ndarray, int, int]:
    """K, width and height of a source's picture, which has `side` x `side` pixels, or the real one's size."""
    real = SOURCES[source]
    scale = 1.0 if side is None else side / math.sqrt(real.width * real.height)
    width, height = round(real.width * scale), round(real.height * scale)
    K = np.array([[real.focal * scale, 0, width / 2], [0, real.focal * scale, height / 2], [0, 0, 1]])
    return K, width, height


def boxes(source: str, seed: int, numbers: range, side: int | None = None) -> Iterator[Boxes]:
    """The boxes of the pictures `numbers` of a source, those of which a trace is inside the picture."""
    for start in range(numbers.start, numbers.stop, BLOCK):
        yield from _block(source, seed, range(start, min(start + BLOCK, numbers.stop)), side)


def scenes(
    source: str, seed: int, numbers: range, side: int | None = None, split: str = "train"
) -> Iterator[Scene]:
    """The same pictures as scenes without pictures: what is seen of an object is told by 64 rays."""
    K, width, height = camera(source, side)
    names = [thing.name for thing in THINGS[DOMAINS[source]]]
    for start in range(numbers.start, numbers.stop, BLOCK):
        part = range(start, min(start + BLOCK, numbers.stop))
        block = list(_block(source, seed, part, side))
        picture = np.repeat(np.arange(len(block)), [len(b.thing) for b in block])
        joined = [np.concatenate([getattr(b, n) for b in block]) for n in ("shown", "center", "size", "R")]
        Ks = np.broadcast_to(K, (len(picture), 3, 3))
        seen = geometry.seen_shares(picture, Ks, *joined, np.ones(len(picture), bool), RAYS)
        bounds = np.searchsorted(picture, np.arange(len(block) + 1))
        for i, (number, b) in enumerate(zip(part, block, strict=True)):
            visibility = np.nan_to_num(seen[bounds[i] : bounds[i + 1]])
            yield Scene(
                f"{source}/{number}", source, split, picture_path(source, number), width, height, K,
                annotation_ids(number, len(b.thing)), tuple(names[t] for t in b.thing),
                b.center, b.size, b.R, b.shown, b.truncation, visibility,
            )  # fmt: skip


def picture_path(source: str, number: int) -> str:
    """Where the picture of a scene lies below the data root."""
    return f"{source}/images/{number // 1000:04d}/{number:07d}.png"


def annotation_ids(number: int, count: int) -> tuple[str, ...]:
    """Ids of a picture's annotations, unique in the source."""
    return tuple(str(1000 * number + k) for k in range(count))


def _block(source: str, seed: int, numbers: range, side: int | None) -> Iterator[Boxes]:
    domain = DOMAINS[source]
    layout = {"indoor": _room, "outdoor": _street, "object_centric": _single}[domain]
    key = zlib.crc32(source.encode())
    streams = [np.random.default_rng([seed, key, number]) for number in numbers]
    draws = np.stack([stream.random((layout.slots + 1, 9)) for stream in streams])
    there, thing, size, base, yaw = layout.place(draws[:, 1:], source, draws[:, 0])
    K, width, height = camera(source, side)
    real = SOURCES[source]
    pitch = np.radians(real.pitch[0] + draws[:, 0, 0] * (real.pitch[1] - real.pitch[0]))
    if domain == "object_centric":
        lift = None
    else:
        lift = real.lift[0] + draws[:, 0, 1] * (real.lift[1] - real.lift[0])
    center, R = _to_camera(base, size, yaw, pitch, lift)
    flat = there.nonzero()
    c, s, r = center[flat], size[flat], R[flat]
    corners = np.einsum("nij,nkj->nki", r, CORNER_SIGNS * s[:, None] / 2) + c[:, None]
    whole = geometry.rectangles(corners, np.broadcast_to(K, (len(c), 3, 3)))
    shown = geometry.clipped(whole, np.broadcast_to([width, height], (len(c), 2)))
    with np.errstate(invalid="ignore", divide="ignore"):
        outside = 1 - geometry.area(shown) / geometry.area(whole)
    kept = outside < 1 - TRACE  # not what reaches behind the camera, which is NaN
    scene = flat[0][kept]
    parts = np.searchsorted(scene, np.arange(len(numbers) + 1))
    columns = [thing[flat][kept], c[kept], s[kept], r[kept], outside[kept], shown[kept]]
    for i, (first, last) in enumerate(pairwise(parts)):
        up = np.array([0.0, -np.cos(pitch[i]), -np.sin(pitch[i])])
        ground = None if lift is None else (up, float(lift[i]))
        yield Boxes(*(column[first:last] for column in columns), ground)


def _to_camera(
    base: np.ndarray, size: np.ndarray, yaw: np.ndarray, pitch: np.ndarray, lift: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Centres (s, n, 3) and rotations (s, n, 3, 3) in the camera frame.

    Args:
        base: (s, n, 3) x, height of the bottom above the ground, z ahead, in metres; `yaw` (s, n) radians
            about gravity; `pitch` (s,) radians that the camera looks down.
        lift: (s,) the camera's height above the ground; None where `base` is the middle of the box as the
            camera sees it (an object that the camera looks at).
    """
    c, s = np.cos(yaw), np.sin(yaw)
    zero, one = np.zeros_like(c), np.ones_like(c)
    turned = np.stack(
        [np.stack([c, zero, s], -1), np.stack([zero, one, zero], -1), np.stack([-s, zero, c], -1)], -2
    )
    cp, sp = np.cos(pitch), np.sin(pitch)
    zero, one = np.zeros_like(cp), np.ones_like(cp)
    # Looking down, what lies ahead on the ground moves up in the picture: y' = y cos - z sin.
    tilt = np.stack(
        [np.stack([one, zero, zero], -1), np.stack([zero, cp, -sp], -1), np.stack([zero, sp, cp], -1)], -2
    )
    R = np.einsum("sij,snjk->snik", tilt, turned)
    if lift is None:
        return base, R
    world = np.stack([base[..., 0], lift[:, None] - base[..., 1] - size[..., 1] / 2, base[..., 2]], -1)
    return np.einsum("sij,snj->sni", tilt, world), R


def _chosen(things: tuple[Thing, ...], place: str, draw: np.ndarray) -> np.ndarray:
    """Numbers of things of a place, the first one the most frequent (1 / rank)."""
    own = [number for number, thing in enumerate(things) if thing.place == place]
    weights = 1 / np.arange(1, len(own) + 1)
    bounds = np.cumsum(weights / weights.sum())
    return np.array(own)[np.minimum(np.searchsorted(bounds, draw), len(own) - 1)]


def _sizes(things: tuple[Thing, ...], thing: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """(..., 3) sizes: the thing's own, each extent by itself, within three spreads of it."""
    mean = np.array([t.size for t in things])[thing]
    spread = np.array([t.spread for t in things])[thing]
    return np.round(mean * (1 + spread[..., None] * (2 * draw - 1)), 3)


def _by_slot(pictures: int, slots: int, *parts: np.ndarray) -> tuple[np.ndarray, ...]:
    """What stands in the cells of each picture, (pictures, cells, places, ...), as (pictures, slots, ...)."""
    return tuple(part.reshape(pictures, slots, *part.shape[3:]) for part in parts)


class _Room:
    """Cells of 2.4 m, three across and four deep: in each one large thing that may carry two small ones, or
    four medium ones, or nothing; above some of them hangs a lamp."""

    cell, across, deep, first, clear = 2.4, 3, 4, 1.6, 2.15
    slots = across * deep * 8

    def place(self, u: np.ndarray, source: str, own: np.ndarray) -> tuple[np.ndarray, ...]:
        things = THINGS["indoor"]
        n = len(u)
        u = u.reshape(n, self.across * self.deep, 8, 9)
        column, row = (
            np.arange(self.across * self.deep) % self.across,
            np.arange(self.across * self.deep) // self.across,
        )
        middle = np.stack(
            [(column - (self.across - 1) / 2) * self.cell, self.first + (row + 0.5) * self.cell], -1
        )
        kind = u[:, :, 0, 8]  # of the cell
        large, mediums = kind < 0.45, (kind >= 0.45) & (kind < 0.9)
        thing = np.concatenate(
            [
                _chosen(things, "large", u[:, :, :1, 1]),
                _chosen(things, "top", u[:, :, 1:3, 1]),
                _chosen(things, "medium", u[:, :, 3:7, 1]),
                _chosen(things, "ceiling", u[:, :, 7:, 1]),
            ],
            2,
        )
        size = _sizes(things, thing, u[..., 2:5])
        yaw = np.radians(np.floor(u[..., 7] * 4) * 90 + (u[..., 6] * 20 - 10))
        offset = self._offsets(size, yaw, u[..., 5:7])
        carries = np.array([t.carries for t in things])[thing[:, :, 0]]
        there = np.zeros(thing.shape, bool)
        there[:, :, 0] = large
        there[:, :, 1:3] = (large & carries)[:, :, None] & (u[:, :, 1:3, 0] < 0.8)
        room = np.minimum(
            size[:, :, :1, 0] / 4, size[:, :, :1, 2] / 2
        )  # half of what carries it, to its edge
        there[:, :, 1:3] &= np.hypot(size[:, :, 1:3, 0], size[:, :, 1:3, 2]) / 2 <= room
        there[:, :, 3:7] = mediums[:, :, None] & (u[:, :, 3:7, 0] < 0.75)
        there[:, :, 7] = u[:, :, 7, 0] < 0.3
        base = np.zeros((*thing.shape, 3))
        base[..., 0] = middle[None, :, None, 0] + offset[..., 0]
        base[..., 2] = middle[None, :, None, 1] + offset[..., 1]
        base[:, :, 1:3, 1] = size[:, :, :1, 1]
        base[:, :, 7, 1] = self.clear + 0.3 * u[:, :, 7, 8]
        return _by_slot(n, self.slots, there, thing, size, base, yaw)

    def _offsets(self, size: np.ndarray, yaw: np.ndarray, draw: np.ndarray) -> np.ndarray:
        """(..., 2) x and z of a thing from its cell's middle: inside its own part, whatever its yaw."""
        reach = np.hypot(size[..., 0], size[..., 2]) / 2
        offset = np.zeros((*size.shape[:-1], 2))
        free = np.maximum(self.cell / 2 - reach[:, :, :1], 0) * 0.9
        offset[:, :, :1] = free[..., None] * (2 * draw[:, :, :1] - 1)
        # Two small things stand left and right of the middle of what carries them, along its length.
        along = size[:, :, :1, 0] / 4 * np.array([-1, 1])
        c, s = np.cos(yaw[:, :, :1]), np.sin(yaw[:, :, :1])
        offset[:, :, 1:3] = offset[:, :, :1] + np.stack([c * along, -s * along], -1)
        quarters = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]]) * self.cell / 4
        free = np.maximum(self.cell / 4 - reach[:, :, 3:7], 0) * 0.9
        offset[:, :, 3:7] = quarters + free[..., None] * (2 * draw[:, :, 3:7] - 1)
        offset[:, :, 7:] = (self.cell / 2 - reach[:, :, 7:])[..., None] * 0.9 * (2 * draw[:, :, 7:] - 1)
        return offset


class _Street:
    """Seven strips of 3.6 m, six cells of 13 m deep: traffic on the middle three, other things beside it."""

    wide, long, across, deep, first = 3.6, 13.0, 7, 6, 5.0
    slots = across * deep * 2

    def place(self, u: np.ndarray, source: str, own: np.ndarray) -> tuple[np.ndarray, ...]:
        things = THINGS["outdoor"]
        n, cells = len(u), self.across * self.deep
        u = u.reshape(n, cells, 2, 9)
        column, row = np.arange(cells) % self.across, np.arange(cells) // self.across
        traffic = np.abs(column - (self.across - 1) / 2) <= 1
        thing = np.where(
            traffic[None, :, None], _chosen(things, "lane", u[..., 1]), _chosen(things, "kerb", u[..., 1])
        )
        size = _sizes(things, thing, u[..., 2:5])
        # A lane's own direction, a few degrees off; anything along the kerb. The length points along x
        # unturned.
        ahead = np.where(column > (self.across - 1) / 2, -90.0, 90.0)[None, :, None] + (u[..., 6] * 8 - 4)
        yaw = np.radians(np.where(traffic[None, :, None], ahead, u[..., 7] * 360))
        # Few stand right ahead: they hide the rest.
        share = np.where(column == (self.across - 1) // 2, 0.2, np.where(traffic, 0.5, 0.4))
        there = u[..., 0] < share[None, :, None]
        there[:, traffic, 1] = False
        reach = np.hypot(size[..., 0], size[..., 2]) / 2
        half = np.where(traffic[None, :, None], self.long / 2, self.long / 4)
        base = np.zeros((*thing.shape, 3))
        sideways = np.where(traffic[None, :, None], 0.3, np.maximum(self.wide / 2 - reach, 0) * 0.9)
        base[..., 0] = ((column - (self.across - 1) / 2) * self.wide)[None, :, None]
        base[..., 0] += sideways * (2 * u[..., 5] - 1)
        base[..., 2] = (self.first + (row + 0.5) * self.long)[None, :, None]
        base[..., 2] += np.where(traffic[None, :, None], 0, np.array([-1, 1]) * self.long / 4)
        base[..., 2] += np.maximum(half - reach, 0) * 0.9 * (2 * u[..., 8] - 1)
        return _by_slot(n, self.slots, there, thing, size, base, yaw)


class _Single:
    """One thing near the middle of the picture, a few of its own lengths away."""

    slots = 1

    def place(self, u: np.ndarray, source: str, own: np.ndarray) -> tuple[np.ndarray, ...]:
        things = THINGS["object_centric"]
        thing = _chosen(things, "single", u[..., 1])
        size = _sizes(things, thing, u[..., 2:5])
        distance = np.linalg.norm(size, axis=-1) * (2.2 + 2.5 * u[..., 0])
        aside = (u[..., 5:7] * 2 - 1) * 0.08 * distance[..., None]
        middle = np.stack([aside[..., 0], aside[..., 1], distance], -1)
        return np.ones(thing.shape, bool), thing, size, middle, u[..., 7] * 2 * np.pi


_room, _street, _single = _Room(), _Street(), _Single()
