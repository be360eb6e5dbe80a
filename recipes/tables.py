"""Tables of a grid: in every cell the paper's number, ours, the difference and the 95 % interval.

Read are `predictions.jsonl` and `config.yaml` of the evaluations that are finished, and the paper's numbers.
What was not measured stays empty. Ours is the mean over the questions of a column, with the interval of
`recipes.statistics.bootstrap_ci` over image groups, so a column of one category has the score that
`scores.json` has.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.atomic import write_text
from recipes import tables_text
from recipes.grid import Grid, Planned
from recipes.tables_curve import curve_of
from recipes.tables_known import TITLES, known_tables
from recipes.tables_letters import letters_table
from recipes.tables_model import Entry, Evaluation, Line, Table, measured, rank
from recipes.tables_notes import comparability
from recipes.tables_published import COMMON_ROWS, LETTERS, Published


def write_tables(grid: Grid, work: Sequence[Planned], folder: Path, mode: str) -> list[Path]:
    """Write tables.{md,csv,tex,html} and, where a cell was trained with GRPO, reward_curve.svg to `folder`.

    Raises:
        UserError: the answers of a finished evaluation are gone.
    """
    evaluations = finished(work)
    tables = [build(name, evaluations, mode) for name in grid.tables]
    curve = curve_of(work)
    texts = {
        "tables.md": tables_text.markdown(grid, tables, curve is not None),
        "tables.csv": tables_text.comma_separated(tables),
        "tables.tex": tables_text.latex(grid, tables),
        "tables.html": tables_text.html(grid, tables, curve),
        **({"reward_curve.svg": str(curve) + "\n"} if curve is not None else {}),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def finished(work: Sequence[Planned]) -> list[Evaluation]:
    return [
        Evaluation(p.cell.name, p.stage.path, p.config.scale_name, p.cell.rows)
        for p in work
        if p.stage.finished
    ]


def build(name: str, evaluations: Sequence[Evaluation], mode: str) -> Table:
    """The table `name` from the evaluations that stand in it; a table of the paper has all of its rows.

    Args:
        mode: strict, flexible or official.
    """
    placed = {e.rows[name]: e for e in evaluations if name in e.rows}
    if name == LETTERS:
        return letters_table(placed, mode)
    published = known_tables()[name]
    answers = {row: evaluation.predictions for row, evaluation in placed.items()}
    notes = comparability(placed.values(), published)
    if name in COMMON_ROWS and len(placed) > 1:
        answers, dropped = _common(answers)
        if dropped:
            notes.append(f"{dropped} questions that not every variant answered are left out of all of them.")
    lines = []
    for row, heads in published.rows.items():
        cell = placed.get(row)
        entries = [
            Entry(
                published.numbers.get((row, column)),
                None if cell is None else measured(answers[row], column, mode, cell.threshold),
            )
            for column in published.columns
        ]
        lines.append(Line(row, heads, entries, cell.name if cell else None))
    table = Table(
        name, TITLES[name], published.labels, [c.heads for c in published.columns],
        [c.name for c in published.columns], lines, mode, notes,
    )  # fmt: skip
    rank(table)
    _footnote(table)
    _note_missing(table, published, answers, mode)
    return table


def _footnote(table: Table) -> None:
    """Number the notes on the paper's numbers; equal ones share a number."""
    for line in table.lines:
        for entry in line.entries:
            if entry.paper is not None and entry.paper.suspect:
                words = {"misprint": "Probably misprinted. ", "doubtful": "Doubtful. "}.get(
                    entry.paper.suspect, ""
                )
                text = words + entry.paper.note
                if text not in table.footnotes:
                    table.footnotes.append(text)
                entry.note = 1 + table.footnotes.index(text)


def _common(
    answers: Mapping[str, list[dict[str, Any]]],
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """The answers to the questions that every variant has, and how many questions were left out."""
    sets = [{p["id"] for p in predictions} for predictions in answers.values()]
    shared = set.intersection(*sets)
    kept = {row: [p for p in predictions if p["id"] in shared] for row, predictions in answers.items()}
    return kept, len(set.union(*sets)) - len(shared)


def _note_missing(
    table: Table, published: Published, answers: Mapping[str, list[dict[str, Any]]], mode: str
) -> None:
    """Say why evaluations that are there have empty cells, those with the same ones together."""
    unread: dict[str, list[str]] = {}
    unasked: dict[str, list[str]] = {}
    partial: dict[str, list[str]] = {}
    for line in table.lines:
        if line.cell is None:
            continue
        pairs = zip(published.columns, line.entries, strict=True)
        empty = [column for column, entry in pairs if entry.ours is None]
        for column in empty:
            asked = [any(part.takes(p) for p in answers[line.name]) for part in (column, *column.parts)]
            why = unread if all(asked) else partial if asked[0] else unasked
            why.setdefault(line.cell, []).append(" ".join(head for head in column.heads if head))
    for cells, columns in _alike(unread):
        table.notes.append(
            f"{cells}: {columns} were not scored in the {mode} way and are empty. Evaluate again."
        )
    for cells, columns in _alike(unasked):
        table.notes.append(f"{cells}: no questions of {columns}, so these are empty.")
    for cells, columns in _alike(partial):
        table.notes.append(f"{cells}: {columns} is the mean of the columns and empty, as some of these are.")


def _alike(found: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """(cells, columns), the cells that have the same columns together."""
    cells: dict[tuple[str, ...], list[str]] = {}
    for cell, columns in found.items():
        cells.setdefault(tuple(columns), []).append(cell)
    return [(", ".join(names), ", ".join(columns)) for columns, names in cells.items()]
