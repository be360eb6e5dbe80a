"""What a table is made of: evaluations, our number of a column, entries and their marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from recipes.grid_scores import Score
from recipes.run_dir import RunDir
from recipes.tables_monosr import MonoColumn
from recipes.tables_published import HUMAN, Column, Number

BEST, SECOND = 1, 2
MISPRINT = "misprint"


@dataclass(frozen=True)
class Evaluation:
    """A finished cell: its name, run directory and answers."""

    name: str
    path: Path
    scale: str
    rows: dict[str, str]

    @cached_property
    def config(self) -> DictConfig:
        return RunDir(self.path).config

    @cached_property
    def prep(self) -> RunDir:
        return RunDir(self.path).inputs["prep"]

    @cached_property
    def predictions(self) -> list[dict[str, Any]]:
        source = self.path / "predictions.jsonl"
        if not source.exists():
            raise UserError(
                f"{source} is gone, though the evaluation is finished. Take its folder away and run again."
            )
        return list(read_jsonl(source))

    @property
    def threshold(self) -> float | None:
        return self.config.reward.iou_threshold


@dataclass
class Entry:
    """One cell of a table. `paper` is in percent, `ours` a share; ranks are 1 (best), 2 (second-best) or 0;
    `note` is the number of a footnote."""

    paper: Number | None
    ours: Score | None = None
    paper_rank: int = 0
    our_rank: int = 0
    note: int | None = None

    @property
    def value(self) -> float | None:
        """Ours in percent, rounded as it is shown, so that equal numbers rank equally."""
        return None if self.ours is None else round(100 * self.ours.value, 1)

    @property
    def difference(self) -> float | None:
        return None if None in (self.paper, self.ours) else 100 * self.ours.value - self.paper.value

    @property
    def outside(self) -> bool:
        """Whether the paper's number lies outside our interval."""
        if self.paper is None or self.ours is None:
            return False
        return not 100 * self.ours.low <= self.paper.value <= 100 * self.ours.high


@dataclass
class Line:
    """A row of a table: its heads and its entries, one a column; `cell` is the grid's cell, if it has one."""

    name: str
    heads: tuple[str, ...]
    entries: list[Entry]
    cell: str | None = None


@dataclass
class Table:
    """A table ready to be written. `heads` are those of the columns: (group, column); `mode` the reading."""

    name: str
    title: str
    labels: tuple[str, ...]
    heads: list[tuple[str, str]]
    columns: list[str]
    lines: list[Line]
    mode: str
    notes: list[str] = field(default_factory=list)
    footnotes: list[str] = field(default_factory=list)


def measured(
    predictions: Sequence[Mapping[str, Any]],
    column: Column | MonoColumn,
    mode: str,
    threshold: float | None = None,
) -> Score | None:
    """Our number of a column; None where no question was answered, or not every one was read in this mode."""
    return column.score([p for p in predictions if column.takes(p)], mode, threshold)


def rank(table: Table) -> None:
    """Mark the best and second-best of every column, the paper's numbers and ours each among themselves.

    People and misprints take no part; equal numbers share a mark.
    """
    for position in range(len(table.columns)):
        column = [line.entries[position] for line in table.lines if line.name != HUMAN]
        sound = [e for e in column if e.paper is not None and e.paper.suspect != MISPRINT]
        for entry, mark in _marks([(e, e.paper.value) for e in sound]):
            entry.paper_rank = mark
        for entry, mark in _marks([(e, e.value) for e in column if e.value is not None]):
            entry.our_rank = mark


def _marks(entries: list[tuple[Entry, float]]) -> list[tuple[Entry, int]]:
    """Of one number alone nothing is said."""
    values = sorted({value for _, value in entries}, reverse=True)
    places = dict(zip(values, (BEST, SECOND), strict=False)) if len(entries) > 1 else {}
    return [(entry, places.get(value, 0)) for entry, value in entries]
