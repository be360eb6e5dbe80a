"""Candidate questions of a range of scenes, as a file of rows and one of keys; the parts of a long run.

    candidates/questions-00012.jsonl   rows
    candidates/keys-00012.npz          cell and rank of every row, in the same order

A chunk is the work of one process for a while. It is whole once its keys are there; a killed run makes the
others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from data_prep.atomic import replacing, write_jsonl
from data_prep.errors import UserError
from data_prep.monosr.balance import Cell, cell_of, rank
from data_prep.monosr.generate import questions_of
from data_prep.monosr.options import Options
from data_prep.monosr.scene import Scene
from data_prep.processes import end_with_parent

Captions = Mapping[str, str]
Read = Callable[[int, int], Iterable[tuple[Scene, Scene | None] | tuple[Scene, Scene | None, Captions]]]
"""(start, stop) -> for each usable image of that range: the scene that is asked about, all annotated objects,
and a teacher's phrases for objects by annotation id where there are any.

It is called in other processes, so it has to be picklable, and gives the same for the same range."""
FOLDER = "candidates"
T = TypeVar("T")


class Keys(NamedTuple):
    """What balance has to know of a chunk's rows: `cells[index[k]]` and `ranks[k]` are those of row k."""

    cells: list[Cell]
    index: np.ndarray
    ranks: np.ndarray


@dataclass(frozen=True)
class Chunks:
    """The chunks of one run, `size` images each, under `folder`."""

    folder: Path
    images: int
    size: int

    def __len__(self) -> int:
        return -(-self.images // self.size)

    def range(self, number: int) -> tuple[int, int]:
        return number * self.size, min((number + 1) * self.size, self.images)

    def rows(self, number: int) -> Path:
        return self.folder / FOLDER / f"questions-{number:05d}.jsonl"

    def keys(self, number: int) -> Path:
        return self.folder / FOLDER / f"keys-{number:05d}.npz"

    def output(self, number: int) -> Path:
        return self.folder / f"questions-{number:05d}.jsonl"

    def missing(self) -> list[int]:
        return [number for number in range(len(self)) if not self.keys(number).exists()]


def write_chunk(chunks: Chunks, read: Read, options: Options, seed: int, number: int) -> int:
    """Write the candidates of one chunk; how many there are."""
    cells: dict[Cell, int] = {}
    index: list[int] = []
    ranks: list[int] = []

    def records() -> Iterator[dict[str, object]]:
        for scene, full, *captions in read(*chunks.range(number)):
            for row in questions_of(scene, options, seed, full, *captions):
                index.append(cells.setdefault(cell_of(row), len(cells)))
                ranks.append(rank(row.id, seed))
                yield row.to_json()

    write_jsonl(chunks.rows(number), records())
    with replacing(chunks.keys(number)) as temporary, open(temporary, "wb") as out:
        np.savez(
            out,
            cells=np.array([list(cell) for cell in cells], dtype=str).reshape(-1, len(Cell._fields)),
            index=np.array(index, dtype=np.uint16),
            ranks=np.array(ranks, dtype=np.uint64),
        )
    return len(index)


def read_keys(path: Path) -> Keys:
    """The keys that `write_chunk` wrote."""
    with np.load(path) as held:
        cells = [Cell(*map(str, fields)) for fields in held["cells"]]
        return Keys(cells, held["index"], held["ranks"])


def write_missing(
    chunks: Chunks, read: Read, options: Options, seed: int, workers: int, count: Callable[[int], None]
) -> None:
    """Write every chunk that is not there yet, `workers` at a time.

    Args:
        count: told the number of chunks that are written.

    Raises:
        UserError: a process was killed.
    """
    missing = chunks.missing()
    done = len(chunks) - len(missing)
    for _ in in_processes(partial(write_chunk, chunks, read, options, seed), missing, workers):
        done += 1
        count(done)


def in_processes(work: Callable[[int], T], numbers: list[int], workers: int) -> Iterator[T]:
    """`work` of every number, as it is done, in that many processes; in this one with a single worker.

    Raises:
        UserError: a process was killed.
    """
    if workers < 2 or len(numbers) < 2:
        yield from map(work, numbers)
        return
    waiting = iter(numbers)
    # spawn: a forked copy of a process with threads may hang.
    with ProcessPoolExecutor(min(workers, len(numbers)), get_context("spawn"), end_with_parent) as pool:
        try:
            running: set[Future[T]] = {pool.submit(work, n) for n in islice(waiting, 2 * workers)}
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
                    running |= {pool.submit(work, n) for n in islice(waiting, 1)}
        except BrokenProcessPool as error:
            raise UserError(
                "A process that makes questions was killed, most likely for want of memory. "
                "Free some and give the same command: what is done is kept."
            ) from error
