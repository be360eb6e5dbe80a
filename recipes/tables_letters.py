"""A table of ours: does RL make a model prefer letters, and what does that cost?

CVSBench 4.3 explains the losses after RL by a preference for options, in categories such as roof, facade
color and occlusion. For all choice questions and for these categories: accuracy, and the distance of the
letters given from the right ones (total variation: the share of answers that would have to change letter).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recipes.grid_scores import Score
from recipes.statistics import LEVEL
from recipes.tables_model import Entry, Evaluation, Line, Table, measured, rank
from recipes.tables_notes import comparability
from recipes.tables_published import Column

TITLE = "Letters given and right ones, before and after RL (%)"
BLAMED = (
    Column("FOV", "G2S", "Roof"),
    Column("FOV", "G2S", "Facade"),
    Column("FOV", "S2G", "Color"),
    Column("FOV", "S2G", "Occlusion"),
)
DRAWS = 1000


def letters_table(placed: Mapping[str, Evaluation], mode: str) -> Table:
    """One line an evaluation, by its row's name, in the order of the grid."""
    groups: list[tuple[str, Column | None]] = [("All", None), *((f"FOV {c.category}", c) for c in BLAMED)]
    table = Table("letters", TITLE, ("Training",), [], [], [], mode, comparability(placed.values(), None))
    for group, _ in groups:
        table.heads += [(group, "Accuracy"), (group, "Letter distance")]
        table.columns += [f"{group}/accuracy", f"{group}/letter distance"]
    everything = Column("Overall", "Overall", "Acc")
    for row, evaluation in placed.items():
        choices = [p for p in evaluation.predictions if _letter(p["answer"])]
        entries = []
        for _, column in groups:
            chosen = [p for p in choices if (column or everything).takes(p)]
            entries += [
                Entry(None, measured(chosen, column or everything, mode)),
                Entry(None, letter_distance(chosen)),
            ]
        table.lines.append(Line(row, (row,), entries, evaluation.name))
    rank(table)
    for line in table.lines:
        for entry in line.entries[1::2]:
            entry.our_rank = 0  # a small distance is good, but no feat
    return table


def letter_distance(predictions: Sequence[Mapping[str, Any]]) -> Score | None:
    """Total variation of the letters given (answers that cannot be read left out) from the right ones of the
    same questions, in [0, 1], with its 95 % interval over image groups. Of few questions chance alone makes
    it large. None without a readable answer."""
    read = [p for p in predictions if _letter(p["parsed"])]
    if not read:
        return None
    letters = sorted({p[key] for p in read for key in ("parsed", "answer")})
    groups = sorted({p["group"] for p in read})
    place = {letter: index for index, letter in enumerate(letters)}
    row = {group: index for index, group in enumerate(groups)}
    surplus = np.zeros((len(groups), len(letters)))
    for (group, given, right), count in Counter((p["group"], p["parsed"], p["answer"]) for p in read).items():
        surplus[row[group], place[given]] += count
        surplus[row[group], place[right]] -= count
    sizes = np.bincount([row[p["group"]] for p in read], minlength=len(groups))

    def distance(weights: np.ndarray) -> np.ndarray:
        return np.abs(weights @ surplus).sum(axis=-1) / (2 * (weights @ sizes))

    generator = np.random.default_rng(0)
    share = np.full(len(groups), 1 / len(groups))
    drawn = [distance(generator.multinomial(len(groups), share).astype(float)) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Score(float(distance(np.ones(len(groups)))), float(low), float(high), len(read))


def _letter(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 1 and text.isupper()
