"""Draw boxes by casting a ray through every pixel, and tell exactly what is seen of each.

Faces are shaded by the way they look, so that a box reads as a box; the ground is a chequerboard of one
metre, which gives distances a measure.
"""

from dataclasses import dataclass

import numpy as np

from data_prep.monosr import geometry

_GROUND = {"indoor": ((176, 158, 140), (160, 142, 126)), "outdoor": ((112, 112, 116), (104, 104, 108)),
           "object_centric": ((196, 188, 176), (184, 175, 164))}  # fmt: skip
_SKY = {"indoor": (226, 224, 216), "outdoor": (176, 206, 234), "object_centric": (214, 218, 222)}
_SHADE = np.array([[0.78, 0.78], [1.0, 0.55], [0.9, 0.66]])  # of a face, by its axis and the side it is on
_FAR = 60.0  # metres behind which the ground is plain


@dataclass(frozen=True)
class Rendered:
    """A picture (h, w, 3) uint8, and what is seen of every box.

    `visibility`: (n,) the share of its pixels inside the picture that nothing hides. `tight`: (n, 4) the
    rectangle around those pixels, -1 where there is none.
    """

    picture: np.ndarray
    visibility: np.ndarray
    tight: np.ndarray


def render(
    K: np.ndarray,
    width: int,
    height: int,
    center: np.ndarray,
    size: np.ndarray,
    R: np.ndarray,
    shown: np.ndarray,
    colours: np.ndarray,
    domain: str,
    ground: tuple[np.ndarray, float] | None,
) -> Rendered:
    """Draw the boxes (n, ...) as a camera K sees them.

    Args:
        shown: (n, 4) their rectangles inside the picture. `colours`: (n, 3) 0 to 255.
        ground: its unit normal, upwards, in the camera frame, and the camera's height above it in metres.
    """  # fmt: skip
    picture = _background(K, width, height, domain, ground)
    nearest = np.full((height, width), np.inf)
    owner = np.full((height, width), -1)
    whole = np.zeros(len(center))
    for i, (x1, y1, x2, y2) in enumerate(shown):
        left, top = int(np.floor(x1)), int(np.floor(y1))
        right, bottom = min(int(np.ceil(x2)), width), min(int(np.ceil(y2)), height)
        if right <= left or bottom <= top:
            continue
        rays = _rays(K, left, top, right, bottom)
        depth, axis = geometry.entry(rays, center[i, None], size[i, None], R[i, None])
        shape = (bottom - top, right - left)
        depth, axis = depth.reshape(shape), axis.reshape(shape)
        whole[i] = np.isfinite(depth).sum()
        view = (slice(top, bottom), slice(left, right))
        front = depth < nearest[view]
        nearest[view][front] = depth[front]
        owner[view][front] = i
        side = (np.einsum("ji,j->i", R[i], -center[i]) > 0).astype(int)  # which face of an axis one sees
        # The box's y points down: what one sees of it from above is its bright top.
        shade = _SHADE[np.arange(3), side][axis[front]]
        picture[view][front] = colours[i] * shade[:, None]
    seen = np.bincount(owner[owner >= 0], minlength=len(center))
    visibility = np.divide(seen, whole, out=np.zeros(len(center)), where=whole > 0)
    return Rendered(np.clip(picture, 0, 255).astype(np.uint8), visibility, _tight(owner, len(center)))


def _rays(K: np.ndarray, left: int, top: int, right: int, bottom: int) -> np.ndarray:
    """(1, pixels, 3) rays through the middles of pixels, row by row."""
    u, v = np.meshgrid(np.arange(left, right) + 0.5, np.arange(top, bottom) + 0.5)
    return geometry.pixel_rays(np.stack([u.ravel(), v.ravel()], -1)[None], K[None])


def _background(
    K: np.ndarray, width: int, height: int, domain: str, ground: tuple[np.ndarray, float] | None
) -> np.ndarray:
    picture = np.empty((height, width, 3))
    picture[:] = _SKY[domain]
    if ground is None:
        picture[:] = _GROUND[domain][0]
        return picture
    up, lift = ground
    rays = _rays(K, 0, 0, width, height)[0]
    down = -(rays @ up)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(down > 1e-9, lift / down, np.inf)
    hit = reach < 1e4
    points = rays[hit] * reach[hit, None]
    ahead = np.array([0.0, 0.0, 1.0]) - up[2] * up  # along the ground
    ahead /= np.linalg.norm(ahead)
    chequer = (np.floor(points[:, 0]) + np.floor(points @ ahead)) % 2
    tones = np.array(_GROUND[domain], float)
    plain = tones.mean(0)
    colour = tones[chequer.astype(int)]
    colour[points[:, 2] > _FAR] = plain
    picture.reshape(-1, 3)[hit] = colour
    return picture


def _tight(owner: np.ndarray, count: int) -> np.ndarray:
    """(count, 4) the rectangle around the pixels of each number in `owner` (h, w), -1 without any."""
    tight = np.full((count, 4), -1.0)
    rows, columns = np.nonzero(owner >= 0)
    numbers = owner[rows, columns]
    for values, low, high in ((columns, 0, 2), (rows, 1, 3)):
        first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
        np.minimum.at(first, numbers, values)
        np.maximum.at(last, numbers, values)
        there = last >= 0
        tight[there, low], tight[there, high] = first[there], last[there] + 1
    return tight
