"""The paper's own numbers, and which of our rows each of its columns is about.

`published/cvsbench_tables.csv` has one number a line: percent, by table, row and column. `suspect` is
`misprint` (the number contradicts others of the paper), `disagrees` (two tables differ) or `doubtful`; `note`
says why. `published/cvsbench_reward_curve.csv` is read off a figure, to about 0.005.
"""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from data_prep.cvsbench import normalise_category
from recipes.grid_scores import Score, accuracy_of, iou_of, mean_of

FOLDER = Path(__file__).parent / "published"
LETTERS = "letters"  # the one table of ours that no paper has; see recipes.tables_letters
CURVES = ("structured_cot", "imagination_cot")
SUSPECT = ("", "misprint", "disagrees", "doubtful")
TITLES = {
    "tab2": "CVSBench table 2: models on every task (%; grounding: mean IoU)",
    "tab3": "CVSBench table 3: reasoning asked for at inference, without training (%; grounding: mean IoU)",
    "tab4": "CVSBench table 4: training and reasoning, CVUSA subset (%)",
    "tab5": "CVSBench table 5: training and reasoning, FOV subset (%)",
    "tab6": "CVSBench table 6: auxiliary views, FOV subset (%)",
}
# Every variant of these tables is scored on the rows that all of them answered (a row without an auxiliary
# view is in none of the paper's table either).
COMMON_ROWS = ("tab6",)
HUMAN = "human"
_TASKS = {
    "G2S": "g2s",
    "S2G": "s2g",
    "Grounding": "gs_grounding",
    "View-Arrow": "gs_view",
    "View-Image": "gs_view",
}
_PARTS = {"View-Arrow": ("view_arrow",), "View-Image": ("view_image",), "Grounding": ("level3", "level4")}


@dataclass(frozen=True)
class Column:
    """A column of a published table, under the paper's heads: subset, task, category ("all": every one)."""

    subset: str
    task: str
    category: str
    parts: ClassVar[tuple["Column", ...]] = ()

    @property
    def heads(self) -> tuple[str, str]:
        """The group of columns, and the column in it."""
        if self.category == "all":
            return self.subset, self.task
        return (self.subset, self.category) if self.subset == "Overall" else (self.task, self.category)

    @property
    def name(self) -> str:
        return "/".join((self.subset, self.task, self.category))

    @property
    def boxes(self) -> bool:
        """Whether the column is a mean IoU."""
        return self.task == "Grounding" or self.category == "mIoU"

    def takes(self, record: Mapping[str, Any]) -> bool:
        """Whether a prediction (or a cell of scores.json) with subset, task and category belongs here.

        A task's number is the mean over its questions, not over its categories: the categories of tables 4
        and 5, weighted by their questions, give the tasks of table 3.
        """
        grounding = record["task"] == "gs_grounding"
        if self.subset == "Overall":
            in_levels = not grounding or record["category"] in _PARTS["Grounding"]
            return grounding == self.boxes and in_levels
        subset = self.subset.lower()
        if record["subset"] != subset or record["task"] != _TASKS[self.task]:
            return False
        if self.category != "all":
            return record["category"] == normalise_category(self.category, subset)
        return record["category"] in _PARTS.get(self.task, (record["category"],))

    def value(self, prediction: Mapping[str, Any], mode: str, threshold: float | None) -> float | None:
        """How right one answer is, in [0, 1]; None where the evaluation did not take this reading.

        `threshold` is `reward.iou_threshold`, which a box's accuracy may rest on.
        """
        return iou_of(prediction, mode, threshold) if self.boxes else accuracy_of(prediction, mode)

    def score(
        self, predictions: Sequence[Mapping[str, Any]], mode: str, threshold: float | None
    ) -> Score | None:
        """Our number of the column, from the predictions that belong here."""
        values = [self.value(p, mode, threshold) for p in predictions]
        return mean_of(values, [p["group"] for p in predictions])


@dataclass(frozen=True)
class Number:
    """A published number in percent."""

    value: float
    suspect: str = ""
    note: str = ""


@dataclass(frozen=True)
class Published:
    """A published table: heads of its rows and columns in the paper's order, and its numbers.

    Columns are of one kind: `Column` for CVSBench, `recipes.tables_monosr.MonoColumn` for MonoSR.
    """

    name: str
    labels: tuple[str, ...]
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    columns: list[Any] = field(default_factory=list)
    numbers: dict[tuple[str, Any], Number] = field(default_factory=dict)
    benchmark: str = "cvsbench"


_LABELS = {"method": "Model", "training": "Training", "cot": "CoT", "aux_view": "Auxiliary view"}
_SHOWN = {
    "tab2": ("method",),
    "tab3": ("method", "cot"),
    "tab4": ("method", "training", "cot"),
    "tab5": ("method", "training", "cot"),
    "tab6": ("method", "aux_view"),
}


@functools.cache
def published_tables() -> dict[str, Published]:
    """Every published table by its name."""
    tables: dict[str, Published] = {}
    with open(FOLDER / "cvsbench_tables.csv", encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            name, row = line["table"], line["row"]
            shown = _SHOWN[name]
            table = tables.setdefault(name, Published(name, tuple(_LABELS[key] for key in shown)))
            table.rows.setdefault(row, tuple(line[key] or "none" for key in shown))
            column = Column(line["subset"], line["task"], line["category"])
            if column not in table.columns:
                table.columns.append(column)
            table.numbers[row, column] = Number(float(line["value"]), line["suspect"], line["note"])
    return tables


@functools.cache
def published_curves() -> dict[str, list[tuple[int, float]]]:
    """(step, reward) of the paper's figure by recipe; rewards lie in [0, 1] and are smoothed."""
    curves: dict[str, list[tuple[int, float]]] = {name: [] for name in CURVES}
    with open(FOLDER / "cvsbench_reward_curve.csv", encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            for name, points in curves.items():
                if line[name]:
                    points.append((int(line["step"]), float(line[name])))
    return curves
