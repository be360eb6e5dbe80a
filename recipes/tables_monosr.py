"""MonoSR's published numbers, and which of our rows each of its columns is about.

`published/monosr_tables.csv` has one number a line, in percent. A column is a task in a format at a level
("high" asks the same tasks inside a situation); a domain's overall number is the plain mean of its columns.
"""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recipes.grid_scores import Score, accuracy_of, mean_of, parsed_of
from recipes.statistics import TAILS, resamples
from recipes.tables_published import FOLDER, Number, Published
from rewards.number import score_number

TITLES = {
    **{
        f"monosr_{kind}_{domain}": f"MonoSR, {words}, {domain.replace('_', '-')} scenes (%)"
        for kind, words in (
            ("baselines", "models without training"),
            ("aux", "fine-tuning with auxiliary information"),
        )
        for domain in ("indoor", "outdoor", "object_centric")
    },
    "monosr_sensitivity": "MonoSR, distances within 10 % and 5 % (%)",
    "monosr_long_tail": "MonoSR, questions about the rarest fifth of the categories (%)",
    "monosr_situational": "MonoSR, situational reasoning by scenario (%)",
}
_TASKS = {"sr": "SR", "dist": "Dist", "size": "Size", "dim": "Dim", "oj": "OJ", "pr": "PR", "og": "OG"}
_FORMATS = {"mc3": "MC3", "mc4": "MC4", "yes_no": "Y/N", "numeric": "Num."}
_LEVELS = {"low": "Low-level", "mid": "Mid-level", "high": "High-level"}
_SCENARIOS = ("compliance", "planning", "safety", "navigation")
_SAMPLES = 2000


@dataclass(frozen=True)
class MonoColumn:
    """A column: rows of a domain ("all": every one), task, format and level.

    `task` may also be overall (the mean of the columns `parts`), long_tail, a scenario, or average (of all
    scenarios). `tolerance` reads distances within that relative error in place of `reward.tolerance`.
    """

    domain: str
    task: str
    format: str = ""
    level: str = ""
    tolerance: float | None = None
    parts: tuple["MonoColumn", ...] = ()

    @property
    def heads(self) -> tuple[str, str]:
        """The group of columns, and the column in it."""
        if self.tolerance is not None:
            return self.domain.replace("_", "-"), f"within {self.tolerance:.0%}"
        if self.task == "overall":
            return "", "Overall"
        if self.task == "long_tail":
            return "Long tail", _LEVELS[self.level]
        if self.task in _TASKS:
            return _LEVELS[self.level], f"{_TASKS[self.task]} ({_FORMATS[self.format]})"
        return "Scenario", self.task.capitalize()

    @property
    def name(self) -> str:
        tolerance = "" if self.tolerance is None else f"{self.tolerance:g}"
        return "/".join(part for part in (self.domain, self.task, self.format, self.level, tolerance) if part)

    def takes(self, record: Mapping[str, Any]) -> bool:
        """Whether a prediction belongs here."""
        if self.parts:
            return any(part.takes(record) for part in self.parts)
        if self.domain not in ("all", record["subset"]) or self.level != record["level"]:
            return False
        if self.task == "long_tail":
            return bool(record.get("long_tail"))
        if self.task == "average":
            return record.get("scenario") in _SCENARIOS
        if self.task in _SCENARIOS:
            return record.get("scenario") == self.task
        # A situational question has the task that it puts into a situation as its base.
        return (record.get("base", record["task"]), record["category"]) == (self.task, self.format)

    def value(self, prediction: Mapping[str, Any], mode: str, threshold: float | None) -> float | None:
        """How right one answer is, in [0, 1]; None where the evaluation did not take this reading."""
        if self.tolerance is None:
            return accuracy_of(prediction, mode)
        parsed = parsed_of(prediction, mode)
        if not parsed:
            return None if parsed is None else 0.0
        return score_number(float(parsed), float(prediction["answer"]), self.tolerance)

    def score(
        self, predictions: Sequence[Mapping[str, Any]], mode: str, threshold: float | None
    ) -> Score | None:
        """Our number of the column, from the predictions that belong here."""
        if self.parts:
            return plain_mean(predictions, self, mode)
        values = [self.value(p, mode, threshold) for p in predictions]
        return mean_of(values, [p["group"] for p in predictions])


def plain_mean(predictions: Sequence[Mapping[str, Any]], column: MonoColumn, mode: str) -> Score | None:
    """The mean of the means of the column's parts, with its 95 % interval over scenes.

    Each part counts alike however many questions it has. None where a part has no question, or a reading is
    missing. Scenes are resampled as a whole; a resample without a question of a part leaves it out.
    """
    scenes = {name: place for place, name in enumerate(sorted({p["group"] for p in predictions}))}
    totals = np.zeros((len(scenes), len(column.parts)))
    sizes = np.zeros_like(totals)
    for prediction in predictions:
        for place, part in enumerate(column.parts):
            if part.takes(prediction):
                value = part.value(prediction, mode, None)
                if value is None:
                    return None
                totals[scenes[prediction["group"]], place] += value
                sizes[scenes[prediction["group"]], place] += 1
    if not len(scenes) or not sizes.sum(axis=0).all():
        return None
    means = []
    for drawn in resamples(len(scenes), _SAMPLES, 0):
        for sample in drawn:
            weights = np.bincount(sample, minlength=len(scenes))
            right, asked = weights @ totals, weights @ sizes
            means.append((right[asked > 0] / asked[asked > 0]).mean())
    low, high = np.quantile(means, TAILS)
    value = float((totals.sum(axis=0) / sizes.sum(axis=0)).mean())
    return Score(value, float(low), float(high), int(sizes.sum()))


@functools.cache
def monosr_tables() -> dict[str, Published]:
    """Every published table of MonoSR by its name; rows are named {model}[/{auxiliary variant}]."""
    tables: dict[str, Published] = {}
    with open(FOLDER / "monosr_tables.csv", encoding="utf-8", newline="") as lines:
        records = list(csv.DictReader(lines))
    parts: dict[str, list[MonoColumn]] = {}
    for line in records:
        if line["task"] != "overall":
            known = parts.setdefault(line["table"], [])
            if (column := _column(line)) not in known:
                known.append(column)
    for line in records:
        name = line["table"]
        trained = line["finetuned"] == "yes"
        labels = ("Model", "Fine-tuned", "Auxiliary information")
        table = tables.setdefault(name, Published(name, labels, benchmark="monosr"))
        row = f"{line['model']}/{line['aux']}" if trained else line["model"]
        table.rows.setdefault(row, (line["model"], "yes" if trained else "no", line["aux"]))
        column = _column(line, tuple(parts[name]) if line["task"] == "overall" else ())
        if column not in table.columns:
            table.columns.append(column)
        table.numbers[row, column] = Number(float(line["value"]), line["suspect"], line["note"])
    return tables


def _column(line: Mapping[str, str], parts: tuple[MonoColumn, ...] = ()) -> MonoColumn:
    tolerance = float(line["tolerance"]) if line["tolerance"] else None
    return MonoColumn(line["domain"], line["task"], line["format"], line["level"], tolerance, parts)
