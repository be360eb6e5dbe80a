"""Pick the rows that balance lets stay, and deal their letters; memory does not grow with the number of rows.

The keys of all chunks are read twice: once to count cells and the leading bits of ranks, once for the few
rows near each cell's limit. Then every chunk is copied row by row. What comes out depends on rows and seed
alone.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from data_prep.atomic import replacing
from data_prep.monosr.balance import Cell
from data_prep.monosr.chunks import Chunks, Keys, in_processes, read_keys

BITS = 12  # leading bits of a rank that are counted
Column = tuple[str, str, str]  # domain, task, format
_ORDERS = {size: tuple(permutations("ABCD"[:size])) for size in (3, 4)}
_SIZES = {"mc3": 3, "mc4": 4}


class Census:
    """Candidates by cell, and by the leading bits of their ranks."""

    def __init__(self) -> None:
        self._bins: dict[Cell, np.ndarray] = {}

    def add(self, keys: Keys) -> None:
        leading = (keys.ranks >> np.uint64(64 - BITS)).astype(np.int64)
        for place, cell in enumerate(keys.cells):
            found = np.bincount(leading[keys.index == place], minlength=2**BITS)
            self._bins[cell] = self._bins.get(cell, 0) + found

    @property
    def counts(self) -> dict[Cell, int]:
        """In an order of their own, whichever chunk had a cell first."""
        return {cell: int(self._bins[cell].sum()) for cell in sorted(self._bins)}

    def edge(self, cell: Cell, quota: int) -> tuple[int, int]:
        """The leading bits at which a cell's quota is reached, and how many rows with those bits stay."""
        below = np.cumsum(self._bins[cell])
        bits = int(np.searchsorted(below, quota))
        return bits, quota - (int(below[bits - 1]) if bits else 0)


def take_census(chunks: Chunks) -> Census:
    census = Census()
    for number in range(len(chunks)):
        census.add(read_keys(chunks.keys(number)))
    return census


def limits(chunks: Chunks, census: Census, quotas: dict[Cell, int]) -> dict[Cell, int]:
    """Cell -> the highest rank that stays; cells of which nothing stays are absent."""
    edges = {cell: census.edge(cell, quota) for cell, quota in quotas.items() if quota > 0}
    near: dict[Cell, list[np.ndarray]] = defaultdict(list)
    for number in range(len(chunks)):
        keys = read_keys(chunks.keys(number))
        leading = keys.ranks >> np.uint64(64 - BITS)
        for place, cell in enumerate(keys.cells):
            if cell in edges:
                near[cell].append(keys.ranks[(keys.index == place) & (leading == np.uint64(edges[cell][0]))])
    return {cell: int(np.sort(np.concatenate(near[cell]))[edges[cell][1] - 1]) for cell in edges}


def kept_rows(keys: Keys, limit: dict[Cell, int]) -> np.ndarray:
    """Which rows of a chunk stay."""
    none = ~np.array([cell in limit for cell in keys.cells], dtype=bool)
    highest = np.array([limit.get(cell, 0) for cell in keys.cells], dtype=np.uint64)
    if not len(keys.cells):
        return np.zeros(0, dtype=bool)
    return (keys.ranks <= highest[keys.index]) & ~none[keys.index]


@dataclass(frozen=True)
class Copying:
    """What a process has to know to copy a chunk: `first[number]` are the choices of each column before
    it."""

    chunks: Chunks
    limit: dict[Cell, int]
    first: list[dict[Column, int]]
    seed: int


def copying(chunks: Chunks, limit: dict[Cell, int], seed: int) -> tuple[Copying, Counter[Cell]]:
    """The plan of the copy, and how many rows of each cell stay."""
    first: list[dict[Column, int]] = []
    so_far: Counter[Column] = Counter()
    kept: Counter[Cell] = Counter()
    for number in range(len(chunks)):
        first.append(dict(so_far))
        keys = read_keys(chunks.keys(number))
        here = np.bincount(keys.index[kept_rows(keys, limit)], minlength=len(keys.cells))
        for cell, count in zip(keys.cells, here.tolist(), strict=True):
            kept[cell] += count
            if cell.format in _SIZES:
                so_far[cell[:3]] += count
    return Copying(chunks, limit, first, seed), kept


def copy_chunk(plan: Copying, number: int) -> Counter[tuple[Column, str]]:
    """Write the rows of one chunk that stay; right letters by column."""
    chunks, so_far = plan.chunks, Counter(plan.first[number])
    keys = read_keys(chunks.keys(number))
    stays = kept_rows(keys, plan.limit)
    letters: Counter[tuple[Column, str]] = Counter()
    with (
        replacing(chunks.output(number)) as temporary,
        open(chunks.rows(number), encoding="utf-8") as lines,
        open(temporary, "w", encoding="utf-8") as out,
    ):
        for line, place, stay in zip(lines, keys.index.tolist(), stays.tolist(), strict=True):
            if not stay:
                continue
            cell = keys.cells[place]
            if size := _SIZES.get(cell.format):
                column = cell[:3]
                letter = letter_at(column, so_far[column], size, plan.seed)
                so_far[column] += 1
                letters[column, letter] += 1
                line = json.dumps(moved(json.loads(line), letter), ensure_ascii=False, allow_nan=False) + "\n"
            out.write(line)
    return letters


def copy_all(plan: Copying, workers: int, count: Callable[[int], None]) -> dict[Column, Counter[str]]:
    """Write every chunk; right letters by column. A chunk that is there already is written again."""
    letters: dict[Column, Counter[str]] = defaultdict(Counter)
    copies = in_processes(partial(copy_chunk, plan), list(range(len(plan.chunks))), workers)
    for done, found in enumerate(copies, 1):
        for (column, letter), n in found.items():
            letters[column][letter] += n
        count(done)
    return dict(letters)


def letter_at(column: Column, place: int, size: int, seed: int) -> str:
    """The right letter of a column's row: each letter once in every `size` rows, in an order by chance."""
    block, within = divmod(place, size)
    drawn = hashlib.blake2b(f"{seed}\0{column}\0{block}".encode(), digest_size=8).digest()
    return _ORDERS[size][int.from_bytes(drawn) % len(_ORDERS[size])][within]


def moved(record: dict[str, Any], letter: str) -> dict[str, Any]:
    """A row whose right option has changed places with the one at `letter`."""
    old = record["answer"]
    for table in (record["options"], record["meta"].get("boxes")):
        if table:
            table[old], table[letter] = table[letter], table[old]
    record["answer"] = letter
    return record
