"""One image of Omni3D with its 3D boxes, as arrays.

Camera frame: x right, y down, z forward, in metres; a point (x, y, z) is seen at pixel u = (K p)[0] / z,
v = (K p)[1] / z. A box's own axes: x along its length, y along its height (-y is up when R is the identity),
z along its width. A point q of the box's own frame is R q + center in the camera frame.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from data_prep.monosr.sources import DOMAINS as DOMAINS
from data_prep.monosr.sources import SOURCES as SOURCES

CORNER_SIGNS = np.array(
    [
        [-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1],
        [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1],
    ],
    dtype=float,
)  # fmt: skip
"""Corners v0 to v7 of Omni3D in halves of (length, height, width)."""
EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4), (0, 4), (1, 5), (2, 6), (3, 7))
"""The twelve edges of a box by the numbers of their corners."""


@dataclass(frozen=True, eq=False)
class Scene:
    """`n` objects of one image; every array has one entry an object, in the order of the annotations.

    - `id`: "{source}/{image id}"; the unit of every split. `image`: path relative to the folder of images.
    - `K`: (3, 3), in pixels of an image of `width` x `height`.
    - `ids`: annotation ids; `categories`: names as in the file ("night stand").
    - `center`: (n, 3) metres, the middle of the box. `size`: (n, 3) metres: length, height, width (the file
      has width, height, length). `R`: (n, 3, 3), proper rotations from the box to the camera.
    - `box2d`: (n, 4) x1, y1, x2, y2 in pixels: what the annotation says is seen, inside the image.
    - `truncation`, `visibility`: (n,) in [0, 1], NaN where unknown. Occlusion is 1 - visibility.
    """

    id: str
    source: str
    split: str
    image: str
    width: int
    height: int
    K: np.ndarray
    ids: tuple[str, ...]
    categories: tuple[str, ...]
    center: np.ndarray
    size: np.ndarray
    R: np.ndarray
    box2d: np.ndarray
    truncation: np.ndarray
    visibility: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def domain(self) -> str:
        return SOURCES[self.source]

    @cached_property
    def corners(self) -> np.ndarray:
        """(n, 8, 3) metres in the camera frame, in Omni3D's order."""
        local = CORNER_SIGNS[None] * self.size[:, None, :] / 2
        return np.einsum("nij,nkj->nki", self.R, local) + self.center[:, None, :]

    @cached_property
    def pixels(self) -> np.ndarray:
        """(n, 2) pixels of the projected centres; NaN for those at or behind the camera."""
        return project(self.center, self.K)

    def subset(self, keep: np.ndarray) -> "Scene":
        """The scene with the objects of `keep` alone, a boolean mask (n,) or indices."""
        indices = np.flatnonzero(keep) if keep.dtype == bool else keep
        return Scene(
            self.id, self.source, self.split, self.image, self.width, self.height, self.K,
            tuple(self.ids[i] for i in indices), tuple(self.categories[i] for i in indices),
            self.center[indices], self.size[indices], self.R[indices], self.box2d[indices],
            self.truncation[indices], self.visibility[indices],
        )  # fmt: skip


def project(points: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Pixels (..., 2) of points (..., 3) in the camera frame; NaN for points at or behind the camera."""
    seen = points @ K.T
    depth = np.where(points[..., 2:] > 0, points[..., 2:], np.nan)
    return seen[..., :2] / depth
