"""Boxes in a picture: their rectangles, and what of them is seen, by casting rays at boxes.

Everything here takes many objects at once, of any number of pictures; frames and units are those of
`data_prep.monosr.scene`. A ray starts at the camera; its direction is K^-1 (u, v, 1), so that the distance
along it is the depth z in metres.
"""

from collections.abc import Iterator

import numpy as np

RAYS = 12  # a side of the grid of rays over an object's rectangle
_PAIRS = 256  # pairs of boxes that are looked at together: what a processor's cache holds


def rectangles(corners: np.ndarray, K: np.ndarray) -> np.ndarray:
    """(n, 4) x1, y1, x2, y2 in pixels around the projected corners (n, 8, 3), of cameras K (n, 3, 3).

    It may leave the picture. All NaN where a corner is not in front of the camera: there is no rectangle
    then.
    """
    depth = corners[..., 2]
    front = (depth > 1e-6).all(1)
    seen = np.einsum("nij,nkj->nki", K, corners)
    with np.errstate(divide="ignore", invalid="ignore"):
        pixels = seen[..., :2] / seen[..., 2:]
    pixels[~front] = np.nan
    return np.concatenate([pixels.min(1), pixels.max(1)], 1)


def clipped(rectangle: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(n, 4) rectangles cut to pictures of `size` (n, 2): width and height in pixels. NaN stays."""
    return np.clip(rectangle, 0, np.concatenate([size, size], 1))


def area(rectangle: np.ndarray) -> np.ndarray:
    """(n,) square pixels; 0 for what is empty."""
    return np.prod(np.maximum(rectangle[:, 2:] - rectangle[:, :2], 0), axis=1)


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(n, 4) what two rectangles share; its area is 0 where that is nothing."""
    return np.concatenate([np.maximum(one[:, :2], other[:, :2]), np.minimum(one[:, 2:], other[:, 2:])], 1)


def pixel_rays(pixels: np.ndarray, K: np.ndarray) -> np.ndarray:
    """(n, g, 3) directions through pixels (n, g, 2) of cameras K (n, 3, 3), with z = 1."""
    inverse = np.linalg.inv(K)
    upright = np.concatenate([pixels, np.ones((*pixels.shape[:2], 1))], 2)
    rays = upright @ np.swapaxes(inverse, 1, 2)
    return rays / rays[..., 2:]


def entry(
    rays: np.ndarray, center: np.ndarray, size: np.ndarray, R: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where rays enter a box: depth (n, g) in metres, inf where they miss it; axis (n, g) of the face.

    Args:
        rays: (n, g, 3) from the camera; `center`, `size` (n, 3) and `R` (n, 3, 3) are one box for each n.
    """
    start = -np.einsum("nji,nj->ni", R, center)  # the camera in the box's own frame
    along = rays @ R  # R^T of every ray
    first, last = np.full(along.shape[:2], -np.inf), np.full(along.shape[:2], np.inf)
    axis = np.zeros(along.shape[:2], np.int8)
    for k in range(3):  # a loop, because numpy is slow over an axis of three
        speed, place, half = along[..., k], start[:, k, None], size[:, k, None] / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / speed
            middle, reach = -place * inverse, half * np.abs(inverse)
            near, far = middle - reach, middle + reach
        level = speed == 0  # a ray along a face is inside the slab everywhere or nowhere
        if level.any():
            inside = np.broadcast_to(np.abs(place) <= half, level.shape)[level]
            near[level], far[level] = np.where(inside, -np.inf, np.inf), np.where(inside, np.inf, -np.inf)
        axis[near > first] = k
        np.maximum(first, near, out=first)
        np.minimum(last, far, out=last)
    return np.where((first <= last) & (first > 0), first, np.inf), axis


def seen_shares(
    picture: np.ndarray,
    K: np.ndarray,
    shown: np.ndarray,
    center: np.ndarray,
    size: np.ndarray,
    R: np.ndarray,
    wanted: np.ndarray,
    rays: int = RAYS,
) -> np.ndarray:
    """(n,) share of an object's part inside the picture that no other box hides; NaN where not `wanted`.

    A grid of `rays` x `rays` rays over the object's rectangle is cast; those that meet its box count.

    Args:
        picture: (n,) number of the picture an object is in, ascending.
        K: (n, 3, 3) its camera. `shown`: (n, 4) its rectangle inside the picture, NaN for an object that
            reaches behind the camera (such a one hides others, and is itself given no share).
        wanted: (n,) boolean.
    """
    result = np.full(len(picture), np.nan)
    targets = np.flatnonzero(wanted & (area(np.nan_to_num(shown)) > 0))
    if not len(targets):
        return result
    steps = (np.arange(rays) + 0.5) / rays
    grid = np.stack(np.meshgrid(steps, steps, indexing="xy"), -1).reshape(1, -1, 2)
    rectangle = shown[targets]
    pixels = rectangle[:, None, :2] + grid * (rectangle[:, 2:] - rectangle[:, :2])[:, None]
    cast = pixel_rays(pixels, K[targets])
    own, _ = entry(cast, center[targets], size[targets], R[targets])
    hit, hidden = np.isfinite(own), np.zeros(own.shape, bool)
    depths = center[:, 2, None] + np.array([-1, 1]) * (np.abs(R[:, 2]) * size / 2).sum(1)[:, None]
    for one, other in _may_hide(picture, shown, depths, targets):
        depth, _ = entry(cast[one], center[other], size[other], R[other])
        first = np.flatnonzero(np.concatenate([[True], one[1:] != one[:-1]]))
        hidden[one[first]] |= np.logical_or.reduceat(depth < own[one], first, axis=0)
    hits = hit.sum(1)
    with np.errstate(invalid="ignore"):
        result[targets] = np.where(hits > 0, (hit & ~hidden).sum(1) / np.maximum(hits, 1), np.nan)
    return result


def _may_hide(
    picture: np.ndarray, shown: np.ndarray, depths: np.ndarray, targets: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs (index into `targets`, ascending; index of an object) of one picture, in parts.

    Their rectangles overlap, and the other object begins before the target ends; `depths` (n, 2) says where
    an object begins and ends.
    """
    first = np.searchsorted(picture, picture[targets], "left")
    count = np.searchsorted(picture, picture[targets], "right") - first
    one = np.repeat(np.arange(len(targets)), count)
    other = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    meeting = area(overlap(shown[targets][one], shown[other]))
    before = (other != targets[one]) & (depths[other, 0] < depths[targets[one], 1])
    pairs = np.flatnonzero(before & ~(meeting == 0))  # NaN: it may hide anything
    for start in range(0, len(pairs), _PAIRS):
        part = pairs[start : start + _PAIRS]
        yield one[part], other[part]
