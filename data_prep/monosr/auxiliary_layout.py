"""Where the labels of numbered marks stand: inside the picture, beside their boxes, not on one another."""

from dataclasses import dataclass

import numpy as np

_OVERLAP = 1000.0  # a label on another label; everything else weighs less together
_OWN, _OTHERS = 3.0, 2.0  # share of its own object, of other objects, that a label hides
_FAR = 0.5  # a label's height between a label and its box
_DEAR = 0.5  # above it a label looks for a place further off
_TIE = 1e-3  # places are tried in this order where nothing else tells them apart


@dataclass(frozen=True)
class Layout:
    """Labels by their corners, and how badly they lie on one another.

    `labels`: (n, 4) x1, y1, x2, y2 in whole pixels. `overlap`: the largest share of a label that labels drawn
    after it cover, counted by the sum of their shares.
    """

    labels: np.ndarray
    overlap: float


def place_labels(boxes: np.ndarray, sizes: np.ndarray, width: int, height: int) -> Layout:
    """A place for every label.

    The smallest boxes choose first. A label takes the cheapest of the places around its box and in its
    corners; where all of those touch another label or hide much of an object, of a grid over the picture too.

    Args:
        boxes: (n, 4) x1, y1, x2, y2 in pixels, inside the picture.
        sizes: (n, 2) width and height of the labels in pixels, none larger than the picture.
        width, height: of the picture.
    """
    labels = np.zeros((len(boxes), 4), dtype=int)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    placed: list[int] = []
    for index in np.lexsort((np.arange(len(boxes)), areas)):
        near = _around(boxes[index], sizes[index])
        label, cost = _best(near, index, boxes, sizes, labels[placed], width, height)
        if cost > _DEAR:
            anywhere = np.concatenate([near, _grid(sizes[index], width, height)])
            label, _ = _best(anywhere, index, boxes, sizes, labels[placed], width, height)
        labels[index] = label
        placed.append(int(index))
    return Layout(labels, _most_covered(labels))


def _best(
    corners: np.ndarray,
    index: int,
    boxes: np.ndarray,
    sizes: np.ndarray,
    placed: np.ndarray,
    width: int,
    height: int,
) -> tuple[np.ndarray, float]:
    """The cheapest label with its top left corner at one of `corners` (c, 2), pushed into the picture."""
    size = sizes[index]
    corners = np.clip(np.rint(corners), 0, np.array([width, height]) - size)
    labels = np.concatenate([corners, corners + size], axis=1)
    cost = _TIE * np.arange(len(labels), dtype=float)
    cost += _FAR * _distance(labels, boxes[index]) / size[1]
    shares = _covered(boxes, labels)  # (n, c): of each box, what a label hides
    cost += _OWN * shares[index] + _OTHERS * (shares.sum(axis=0) - shares[index])
    if len(placed):
        cost += _OVERLAP * (_covered(labels, placed).sum(axis=1) + _covered(placed, labels).sum(axis=0))
    cheapest = int(np.argmin(cost))
    return labels[cheapest].astype(int), float(cost[cheapest])


def _around(box: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Top left corners of labels above, below, beside the box, then in its corners."""
    (x1, y1, x2, y2), (w, h) = box, size
    middle = (x1 + x2 - w) / 2
    return np.array(
        [
            (x1, y1 - h), (x2 - w, y1 - h), (middle, y1 - h), (x1, y2), (x2 - w, y2), (middle, y2),
            (x1 - w, y1), (x2, y1), (x1 - w, y2 - h), (x2, y2 - h),
            (x1, y1), (x2 - w, y1), (x1, y2 - h), (x2 - w, y2 - h),
        ]
    )  # fmt: skip


def _grid(size: np.ndarray, width: int, height: int) -> np.ndarray:
    xs = np.arange(0, max(width - size[0], 0) + 1, max(1, size[0] // 2))
    ys = np.arange(0, max(height - size[1], 0) + 1, max(1, size[1] // 2))
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _covered(those: np.ndarray, by: np.ndarray) -> np.ndarray:
    """(a, b): the share of each of `those` (a, 4) that each of `by` (b, 4) covers."""
    low = np.maximum(those[:, None, :2], by[None, :, :2])
    high = np.minimum(those[:, None, 2:], by[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=-1)
    return common / np.maximum((those[:, 2:] - those[:, :2]).prod(axis=-1), 1)[:, None]


def _distance(labels: np.ndarray, box: np.ndarray) -> np.ndarray:
    gap = np.maximum(labels[:, :2] - box[2:], box[:2] - labels[:, 2:])
    return np.hypot(*np.clip(gap, 0, None).T)


def _most_covered(labels: np.ndarray) -> float:
    shares = np.triu(_covered(labels, labels), k=1)
    return float(shares.sum(axis=1).max(initial=0.0))
