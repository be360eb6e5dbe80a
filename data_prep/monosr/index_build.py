"""Read an Omni3D file once, whatever its size, into an index on disk (`data_prep.monosr.index`).

Annotations go to disk as fixed-size records and are joined to their images by ids alone: 45 MB of memory for
a million annotations with their images, beside the 70 MB that reading takes (`bench/omni3d.py`).
"""

import gc
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from data_prep.atomic import write_json
from data_prep.monosr.index import Index
from data_prep.monosr.json_arrays import BrokenJsonError, read_arrays
from data_prep.monosr.records import (
    ANNOTATION,
    FAULTS,
    IMAGE,
    IMAGE_ASIDE,
    MALFORMED,
    NO_BOX,
    NO_CATEGORY,
    NO_IMAGE,
    REPEATED,
    SOURCE_NAMES,
    UNRELIABLE,
    MalformedError,
    annotations,
    image,
    malformed,
)
from data_prep.monosr.sources import SOURCES, SPLITS

UNUSABLE = {NO_BOX: "no_3d_box", UNRELIABLE: "unreliable"}
"""Flag -> the name under which annotations are counted whose box the file itself gives up."""


def build(path: Path, folder: Path, source: str | Mapping[int, str]) -> Index:
    """Index the Omni3D file `path` in `folder`, whole or not at all; one of the same file is taken as it is.

    A bad image or annotation is listed in `faults.jsonl`. So is a file that is cut short or no JSON: its
    index has no scene, for a picture of which objects are missing would give wrong names and wrong views.

    Args:
        source: the file's, a key of `SOURCES`; for a merged file dataset id -> source.

    Raises:
        OSError: the file cannot be read, or the index not written.
    """
    stamp = _stamp(path)
    if not (folder / "index.json").exists() or Index(folder).summary["stamp"] != stamp:
        unfinished = folder.with_name(folder.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.mkdir(parents=True)
        with _without_collection():
            _Builder(path, unfinished, source).build(stamp)
        unfinished.replace(folder)
    return Index(folder)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Without the collector of cycles: decoded JSON has none, and looking through it takes as long as
    decoding it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _blocks(file: BinaryIO) -> Iterator[np.ndarray]:
    """The records of a file of annotations from its beginning, some thousands at a time."""
    start, length = 0, 2**14 * ANNOTATION.itemsize
    while content := os.pread(file.fileno(), length, start):
        yield np.frombuffer(bytearray(content), ANNOTATION)
        start += len(content)


class _Builder:
    """Reads one file into an unfinished folder."""

    def __init__(self, path: Path, folder: Path, source: str | Mapping[int, str]) -> None:
        self._path, self._folder, self._source = path, folder, source
        self._categories: dict[int, str] = {}
        self._info: dict[str, Any] = {}
        self._seen: Counter[str] = Counter()

    def build(self, stamp: list[int]) -> None:
        broken = None
        with ExitStack() as stack:
            self._images, self._paths, self._annotations = (
                stack.enter_context(open(self._folder / name, "wb"))
                for name in ("images.part", "paths.bin", "annotations.bin")
            )
            self._faults = stack.enter_context(open(self._folder / "faults.jsonl", "w", encoding="utf-8"))
            try:
                for key, elements in read_arrays(self._path):
                    self._take(key, elements)
                for key in ("images", "annotations", "categories"):
                    if not self._seen[key] and broken is None:
                        broken = f"the file has no {key}"
            except BrokenJsonError as error:
                broken = f"the file is used for nothing: {error}. Download it again"
            if broken:
                self._fault("file", "", 0, broken)
                for file in (self._images, self._annotations):
                    file.seek(0)
                    file.truncate()
            for file in (self._images, self._paths, self._annotations):
                file.flush()
            left_out, images, total = self._join()
        (self._folder / "images.part").unlink()
        stem = self._path.stem
        write_json(
            self._folder / "index.json",
            {
                "file": self._path.name,
                "stamp": stamp,
                "split": tail
                if (tail := stem.rpartition("_")[2]) in SPLITS
                else str(self._info.get("split")),
                "images": images,
                "annotations": total,
                "broken": broken,
                "left_out": dict(sorted(left_out.items())),
                "categories": {str(k): v for k, v in sorted(self._categories.items())},
            },
        )

    def _take(self, key: str, elements: list[Any]) -> None:
        place = self._seen[key]
        if key == "annotations":
            self._take_annotations(elements, place)
        elif key == "images":
            for number, element in enumerate(elements, start=place + 1):
                self._take_image(element, number)
        elif key == "categories":
            for number, element in enumerate(elements, start=place + 1):
                self._take_category(element, number)
        elif key == "info" and isinstance(elements[0], dict):
            self._info = elements[0]
        self._seen[key] += len(elements)

    def _take_annotations(self, block: list[Any], place: int) -> None:
        try:
            made = annotations(block)
        except MalformedError as error:
            if len(block) > 1:
                middle = len(block) // 2
                self._take_annotations(block[:middle], place)
                self._take_annotations(block[middle:], place + middle)
                return
            made = malformed(block[0])
            self._fault("annotation", _id_of(block[0]), place + 1, str(error))
        self._annotations.write(made.tobytes())

    def _take_image(self, element: Any, place: int) -> None:
        try:
            made, path, dataset = image(element)
            source = self._source_of(dataset)
            if source not in SOURCES:
                raise MalformedError(f"dataset_id {dataset!r:.40} is that of no source")
        except MalformedError as error:
            self._fault("image", _id_of(element), place, str(error))
            identity = element.get("id") if isinstance(element, dict) else None
            if type(identity) is int and -(2**63) <= identity < 2**63:
                made = np.zeros(1, IMAGE)
                made["id"], made["place"] = identity, -place
                self._images.write(made.tobytes())
            return
        content = path.encode("utf-8")
        made["source"], made["place"] = SOURCE_NAMES.index(source), place
        made["path"], made["path_length"] = self._paths.tell(), len(content)
        self._paths.write(content)
        self._images.write(made.tobytes())

    def _source_of(self, dataset: Any) -> str | None:
        if isinstance(self._source, str):
            return self._source
        return self._source.get(dataset) if isinstance(dataset, int) else None

    def _take_category(self, element: Any, place: int) -> None:
        number = element.get("id") if isinstance(element, dict) else None
        name = element.get("name") if isinstance(element, dict) else None
        if type(number) is not int or not isinstance(name, str) or not name.strip() or not name.isprintable():
            self._fault("category", _id_of(element), place, f"it has no id or no name: {element!r:.60}")
        elif self._categories.setdefault(number, name.strip()) != name.strip():
            reason = f"it is called {name!r} here and {self._categories[number]!r} before"
            self._fault("category", str(number), place, reason)

    def _fault(self, what: str, identity: str, place: int, reason: str) -> None:
        record = {"what": what, "id": identity, "place": place, "reason": reason}
        self._faults.write(json.dumps(record) + "\n")

    def _join(self) -> tuple[Counter[str], int, int]:
        """Write images, order and starts; set the faults that only show when all is known."""
        images = self._usable_images()
        images.tofile(self._folder / "images.bin")
        count = self._annotations.tell() // ANNOTATION.itemsize
        owner = np.full(count, len(images), np.int32)
        by_id = np.argsort(images["id"], kind="stable")
        sorted_ids = images["id"][by_id]
        left_out: Counter[str] = Counter()
        with open(self._folder / "annotations.bin", "r+b") as records:
            repeated = _later_ones(
                np.concatenate([np.zeros(0, "i8"), *(b["id"].copy() for b in _blocks(records))])
            )
            start = 0
            for block in _blocks(records):
                part = slice(start, start + len(block))
                row = np.searchsorted(sorted_ids, block["image"])
                known = row < len(images)
                known[known] = sorted_ids[row[known]] == block["image"][known]
                owner[part][known] = by_id[row[known]]
                self._late_faults(block, known, repeated[part], start)
                left_out.update(self._left_out(block))
                os.pwrite(records.fileno(), block.tobytes(), start * ANNOTATION.itemsize)
                start += len(block)
        order = np.argsort(owner, kind="stable").astype(np.uint32)
        sizes = np.bincount(owner, minlength=len(images) + 1)[: len(images)]
        np.save(self._folder / "starts.npy", np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
        np.save(self._folder / "order.npy", order[: sizes.sum()])
        return left_out, len(images), count

    def _usable_images(self) -> np.ndarray:
        images = np.fromfile(self._folder / "images.part", IMAGE)
        ids, where, count = np.unique(images["id"], return_inverse=True, return_counts=True)
        alone = count[where] == 1 if len(ids) else np.zeros(0, bool)
        for one in images[~alone & (images["place"] > 0)]:
            reason = "its id is used twice, and its annotations may be of either image"
            self._fault("image", str(one["id"]), int(one["place"]), reason)
        self._aside = np.unique(images["id"][~alone | (images["place"] < 0)])
        return images[alone & (images["place"] > 0)]

    def _late_faults(self, block: np.ndarray, known: np.ndarray, repeated: np.ndarray, start: int) -> None:
        """Set and list what is wrong with annotations beside what their records told already."""
        fault = block["fault"].copy()
        fault[(fault == 0) & repeated] = REPEATED
        stray = (fault == 0) & ~known
        aside = np.isin(block["image"], self._aside)
        fault[stray & ~aside], fault[stray & aside] = NO_IMAGE, IMAGE_ASIDE
        named = np.isin(block["category"], np.fromiter(self._categories, np.int64, len(self._categories)))
        fault[(fault == 0) & ~named] = NO_CATEGORY
        for i in np.flatnonzero((fault != 0) & (fault != MALFORMED) & (fault != IMAGE_ASIDE)):
            one, reason = block[i], FAULTS[fault[i]]
            if fault[i] == NO_CATEGORY:
                reason += f" ({one['category']})"
            if fault[i] == NO_IMAGE:
                reason += f" ({one['image']})"
            self._fault("annotation", str(one["id"]), start + int(i) + 1, reason)
        block["fault"] = fault

    @staticmethod
    def _left_out(block: np.ndarray) -> Counter[str]:
        """Annotations by the reason for which no scene will hold them."""
        found: Counter[str] = Counter()
        free = block["fault"] == 0
        found["fault"] = int((~free).sum())
        for flag, name in UNUSABLE.items():
            hit = free & (block["flags"] & flag != 0)
            found[name] = int(hit.sum())
            free &= ~hit
        return found


def _stamp(path: Path) -> list[int]:
    """Size in bytes and time of change, by which a file that was mended is known."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _later_ones(ids: np.ndarray) -> np.ndarray:
    """(n,) whether an id stands further up already."""
    order = np.argsort(ids, kind="stable")
    later = np.zeros(len(ids), bool)
    later[order[1:]] = ids[order[1:]] == ids[order[:-1]]
    return later


def _id_of(element: Any) -> str:
    found = element.get("id") if isinstance(element, dict) else None
    return "?" if found is None else str(found)[:60]
