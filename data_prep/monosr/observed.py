"""Judge all scenes of a release once, in parallel, and read what is left of any range, in any process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from data_prep.monosr.chunks import in_processes
from data_prep.monosr.filter import Judged, Thresholds, observe
from data_prep.monosr.filter_report import FilterTally
from data_prep.monosr.reader import Release
from data_prep.monosr.scene import Scene

CHUNK = 1000  # images that a process judges at once


@dataclass(frozen=True)
class Observed:
    """Scenes that the filter left something of. It may be pickled for other processes.

    `folder` holds what was judged: `starts.npy`, where each image's objects begin, and `reasons.npy`, why
    each object fell (`Judged.reasons`).
    """

    release: Release
    folder: Path

    def __call__(self, start: int, stop: int) -> Iterator[tuple[Scene, Scene]]:
        """Of images `start` to `stop` each scene with the objects that are left, and with all of them."""
        starts = np.load(self.folder / "starts.npy", mmap_mode="r")
        reasons = np.load(self.folder / "reasons.npy", mmap_mode="r")
        for number, full in self.release.numbered(start, stop):
            judged = Judged(full, np.array(reasons[starts[number] : starts[number + 1]]), {})
            if judged.scene is not None:
                yield judged.scene, full


def observe_all(
    release: Release,
    thresholds: Thresholds,
    folder: Path,
    workers: int = 1,
    chunk: int = CHUNK,
    separation: float = 0.0,
    on_progress: Callable[[int], None] = lambda images: None,
) -> tuple[Observed, FilterTally]:
    """Judge every scene and keep the judgement in `folder`. The result does not depend on `workers`.

    `separation` (pixels) is counted by in the tally, and changes nothing else.

    Raises:
        UserError: a process was killed.
    """
    lengths = np.zeros(len(release), np.int64)
    reasons: dict[int, np.ndarray] = {}
    tally = FilterTally(separation)
    numbers = list(range(-(-len(release) // chunk)))
    for done, (number, sizes, found, own) in enumerate(
        in_processes(partial(_judge, release, thresholds, chunk, separation), numbers, workers), start=1
    ):
        lengths[number * chunk :][: len(sizes)] = sizes
        reasons[number] = found
        tally.merge(own)
        on_progress(min(done * chunk, len(release)))
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "starts.npy", np.concatenate([[0], np.cumsum(lengths)]))
    np.save(folder / "reasons.npy", np.concatenate([np.zeros(0, np.int8), *(reasons[n] for n in numbers)]))
    return Observed(release, folder), tally


def _judge(
    release: Release, thresholds: Thresholds, chunk: int, separation: float, number: int
) -> tuple[int, np.ndarray, np.ndarray, FilterTally]:
    """Number of objects of each image of a chunk, their reasons, and the chunk's tally."""
    start = number * chunk
    sizes = np.zeros(min(chunk, len(release) - start), np.int64)
    places: list[int] = []
    found: list[np.ndarray] = []
    tally = FilterTally(separation)

    def scenes() -> Iterator[Scene]:
        for place, scene in release.numbered(start, start + len(sizes)):
            places.append(place)
            yield scene

    for judged in observe(scenes(), thresholds):
        sizes[places[len(found)] - start] = len(judged.full)
        found.append(judged.reasons)
        tally.add(judged)
    return number, sizes, np.concatenate([np.zeros(0, np.int8), *found]), tally
