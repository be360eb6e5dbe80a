"""Auxiliary information for a whole set: rows come out as they went in, pictures are drawn by processes."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from data_prep.errors import UserError
from data_prep.monosr.auxiliary import with_auxiliary
from data_prep.monosr.auxiliary_words import VARIANTS
from data_prep.monosr.scene import Scene
from data_prep.processes import end_with_parent
from data_prep.rows import Row

CHUNK = 64  # rows a task; neighbours share pictures, so more would not draw less
POOL_FROM = 256  # fewer rows than this are drawn sooner than processes start

Item = tuple[str, Any, Scene | None]
"""The set it goes to, a row or what was set aside, and the row's scene."""


def all_with_auxiliary(
    items: Iterable[Item], variant: str, store: Path, workers: int
) -> Iterator[tuple[str, Any]]:
    """Every item without its scene, its row with the auxiliary information of `variant`; others as they come.

    Memory stays flat: a few chunks a process are on their way at any time.

    Args:
        store: the set's folder of pictures.
        workers: processes that draw; the text alone needs none.

    Raises:
        UserError: as `with_auxiliary` does, or a process was killed.
    """
    waiting = iter(items)
    first = list(islice(waiting, POOL_FROM))
    rest = chain(first, waiting)
    if not VARIANTS[variant].marks or workers < 2 or len(first) < POOL_FROM:
        yield from (_one(item, variant, store) for item in rest)
        return
    chunks = _chunks(rest)
    # spawn: a forked copy of a process with threads may hang.
    with ProcessPoolExecutor(workers, get_context("spawn"), end_with_parent) as pool:
        try:
            running: deque[Future[list[tuple[str, Any]]]] = deque(
                pool.submit(_many, chunk, variant, store) for chunk in islice(chunks, 3 * workers)
            )
            while running:
                yield from running.popleft().result()
                running.extend(pool.submit(_many, chunk, variant, store) for chunk in islice(chunks, 1))
        except BrokenProcessPool as error:
            raise UserError(
                "A process that draws marks was killed, most likely for want of memory. "
                "Free some and give the same command: what is drawn is kept."
            ) from error


def _chunks(items: Iterator[Item]) -> Iterator[list[Item]]:
    while chunk := list(islice(items, CHUNK)):
        yield chunk


def _many(items: list[Item], variant: str, store: Path) -> list[tuple[str, Any]]:
    return [_one(item, variant, store) for item in items]


def _one(item: Item, variant: str, store: Path) -> tuple[str, Any]:
    name, row, scene = item
    if isinstance(row, Row) and scene is not None:
        row = with_auxiliary(row, scene, variant, store)
    return name, row
