"""An Omni3D file as an index on disk: its scenes in order, any range of them, by any number of processes.

`data_prep.monosr.index_build` makes it. Scenes are read in the order of the file's images.

    index.json       the file it was made of, how many images and annotations, why annotations were left out
    images.bin       a record an image that can be used, paths.bin their paths
    annotations.bin  a record an annotation, as the file has them
    order.npy        of every image's annotations the numbers of their records, starts.npy where they begin
    faults.jsonl     every image and annotation that cannot be used: id, place in its array, reason
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from data_prep.monosr import geometry
from data_prep.monosr.records import ANNOTATION, IMAGE, REPEATED, SOURCE_NAMES
from data_prep.monosr.scene import CORNER_SIGNS, Scene

BLOCK = 256  # images whose scenes are made at once


class Index:
    """A built index. It may be opened by several processes at once, and pickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self.split: str = self.summary["split"]
        self._categories: dict[int, str] = {int(k): v for k, v in self.summary["categories"].items()}

    def __len__(self) -> int:
        """Images, those of which no annotation can be used too."""
        return self.summary["images"]

    def faults(self) -> Iterator[dict[str, Any]]:
        with open(self.folder / "faults.jsonl", encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    def scenes(self, start: int = 0, stop: int | None = None) -> Iterator[Scene]:
        """The scenes of images `start` to `stop`, each with every object that its picture shows.

        An object whose annotation cannot be used is there by its category: it may be mistaken for another
        one. Its centre, size and rotation are NaN, so no filter lets it through.
        """
        stop = len(self) if stop is None else min(stop, len(self))
        if start >= stop:
            return
        starts = np.load(self.folder / "starts.npy", mmap_mode="r")
        order = np.load(self.folder / "order.npy", mmap_mode="r")
        with (
            open(self.folder / "images.bin", "rb") as images,
            open(self.folder / "paths.bin", "rb") as paths,
            open(self.folder / "annotations.bin", "rb") as records,
        ):
            for first in range(start, stop, BLOCK):
                last = min(first + BLOCK, stop)
                bounds = np.array(starts[first : last + 1])
                found = _read(records, ANNOTATION, np.array(order[bounds[0] : bounds[-1]]))
                shown = _read(images, IMAGE, np.arange(first, last))
                yield from self._block(shown, paths, found, bounds - bounds[0])

    def _block(
        self, shown: np.ndarray, paths: BinaryIO, found: np.ndarray, bounds: np.ndarray
    ) -> Iterator[Scene]:
        picture = np.repeat(np.arange(len(shown)), np.diff(bounds))
        names = [self._categories.get(number, "") for number in found["category"].tolist()]
        unusable = (found["fault"] != 0) | (found["flags"] != 0)
        box2d = _seen(found, shown, picture, ~unusable)
        values = {name: found[name].copy() for name in ("center", "size", "R", "truncation", "visibility")}
        for value in values.values():
            value[unusable] = np.nan
        again = found["fault"] == REPEATED
        ids = [
            f"{i}.again" if twice else str(i) for i, twice in zip(found["id"].tolist(), again, strict=True)
        ]
        for i, one in enumerate(shown):
            part = slice(bounds[i], bounds[i + 1])
            source = SOURCE_NAMES[one["source"]]
            scene = Scene(
                f"{source}/{one['id']}", source, self.split, self._path(paths, one), int(one["width"]),
                int(one["height"]), one["K"], tuple(ids[part]), tuple(names[part]), values["center"][part],
                values["size"][part], values["R"][part], box2d[part], values["truncation"][part],
                values["visibility"][part],
            )  # fmt: skip
            # What has no category has no name either, neither its own nor one to be mistaken for.
            yield scene if all(scene.categories) else scene.subset(np.array([bool(n) for n in names[part]]))

    @staticmethod
    def _path(paths: BinaryIO, one: np.ndarray) -> str:
        return os.pread(paths.fileno(), int(one["path_length"]), int(one["path"])).decode("utf-8")


def _seen(found: np.ndarray, shown: np.ndarray, picture: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """(n, 4) the annotated 2D boxes inside their pictures; the projected box where there is none."""
    size = np.stack([shown["width"], shown["height"]], 1).astype(float)[picture]
    boxes = found["box2d"].copy()
    lacking = np.flatnonzero(usable & np.isnan(boxes).any(1))
    if len(lacking):
        one = found[lacking]
        corners = np.einsum("nij,nkj->nki", one["R"], CORNER_SIGNS * one["size"][:, None] / 2)
        corners += one["center"][:, None]
        boxes[lacking] = geometry.rectangles(corners, shown["K"][picture[lacking]])
    return geometry.clipped(boxes, size)


def _read(file: BinaryIO, kind: np.dtype, numbers: np.ndarray) -> np.ndarray:
    """Records `numbers` of a file of records; in one stretch where they lie close together."""
    if not len(numbers):
        return np.zeros(0, kind)
    first, last = int(numbers.min()), int(numbers.max()) + 1
    if last - first <= 4 * len(numbers):
        content = os.pread(file.fileno(), (last - first) * kind.itemsize, first * kind.itemsize)
        return np.frombuffer(content, kind)[numbers - first]
    size = kind.itemsize
    parts = [os.pread(file.fileno(), size, int(number) * size) for number in numbers]
    return np.frombuffer(b"".join(parts), kind)
