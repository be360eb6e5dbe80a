"""All objects of a scene in the frames of its viewers, and what lies on which side there, in whole arrays.

A frame has the axes right, down and ahead, in metres. v counts viewers, n objects.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from data_prep.monosr.options import Options

ACROSS, DOWN, AHEAD = 0, 1, 2
LEVEL, UNCERTAIN = 0, 2  # sides, beside -1 and 1
CAMERA = -1


class Frame(NamedTuple):
    """Objects on the axes right, down and ahead of a viewer, in metres from there.

    - `center`: for each axis the coordinates of the objects' centres; `half`: halves of their extents.
    - `axes`: (3, 3), the three axes in the camera's frame as rows.
    - `stand`, `face`: the objects at which the viewer stands and looks, `CAMERA` where it is the camera.
    - `sides`: for `ACROSS` and `AHEAD` on which side of the viewer each object lies, -1 or 1; 0 where that is
      not certain. The camera has none.
    """

    center: list[list[float]]
    half: list[list[float]]
    axes: np.ndarray
    stand: int = CAMERA
    face: int = CAMERA
    sides: Mapping[int, list[int]] = {}


def camera(center: np.ndarray, R: np.ndarray, size: np.ndarray) -> Frame:
    """The frame of the camera itself, from centres and sizes (n, 3) and rotations (n, 3, 3)."""
    half = (np.abs(R) * size[:, None]).sum(2) / 2
    return Frame(center.T.tolist(), half.T.tolist(), np.eye(3))


def viewers(
    center: np.ndarray,
    R: np.ndarray,
    size: np.ndarray,
    pairs: Sequence[tuple[int, int]],
    axes: np.ndarray,
    options: Options,
    off_axis: float,
) -> list[Frame]:
    """The frames of viewers at objects.

    Args:
        center, R, size: the boxes, as `camera` takes them.
        pairs: v objects at which one stands, and that one faces.
        axes: (v, 3, 3) of their frames, as rows in the camera's.
        off_axis: ratio of an object's way along an axis to its way across it, from which its side is certain.
    """
    stands = [stand for stand, _ in pairs]
    places = axes @ (center - center[stands][:, None]).swapaxes(1, 2)  # (v, 3, n)
    # All axes times all rotations in one product: numpy is slow over many small ones.
    turned = axes.reshape(-1, 3) @ R.transpose(1, 2, 0).reshape(3, -1)
    half = (np.abs(turned).reshape(len(pairs), 3, 3, -1) * size.T).sum(2) / 2

    gap = places[:, ::2]  # across and ahead
    far = np.abs(gap)
    reach = half[:, ::2]
    reach = reach + reach[range(len(pairs)), :, stands][:, :, None]
    certain = (far > np.maximum(options.gap_metres, options.gap_share * reach)) & (
        far >= off_axis * far[:, ::-1]
    )
    sides = (np.where(gap > 0, 1, -1) * certain).tolist()
    return [
        Frame(*one, {ACROSS: across, AHEAD: ahead})
        for *one, (across, ahead) in zip(
            places.tolist(), half.tolist(), axes, stands, [face for _, face in pairs], sides, strict=True
        )
    ]


def heights(lines: Sequence[tuple[np.ndarray, np.ndarray]], options: Options) -> list[list[int]]:
    """How every two objects lie to each other vertically: `found[one][other]` is -1 where `one` is certainly
    above `other`, and 1 where it is below.

    `LEVEL` where they share much of their heights, and `UNCERTAIN` where they overlap otherwise, or are too
    close, or where not all lines agree.

    Args:
        lines: on each of them where the objects have their centres, and half of their extents, (n,) metres.
    """
    center, half = (np.array(values) for values in zip(*lines, strict=True))  # (lines, n)
    low, high = center - half, center + half
    first, gap = half[:, :, None], center[:, :, None] - center[:, None]
    overlap = np.minimum(high[:, :, None], high[:, None]) - np.maximum(low[:, :, None], low[:, None])
    apart = np.abs(gap) > np.maximum(options.gap_metres, options.gap_share * (first + half[:, None]))
    sides = np.where(apart & (overlap <= 0), np.where(gap > 0, 1, -1), UNCERTAIN)
    sides[overlap >= 2 * options.level_overlap * np.minimum(first, half[:, None])] = LEVEL
    return np.where((sides == sides[0]).all(0), sides[0], UNCERTAIN).tolist()
