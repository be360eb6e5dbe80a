"""What the side-by-side viewer shows: every question of some evaluations, with what each model answered."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.rows import ImageRef, Row
from recipes.run_dir import RunDir

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Model:
    """One finished evaluation. `number` is its place in every list and colour of the viewer."""

    number: int
    label: str
    run: RunDir
    scores: Mapping[str, Any]
    predictions: Mapping[str, Mapping[str, Any]]

    @property
    def images(self) -> Path:
        """The folder of its rows' pictures."""
        return self.run.inputs["prep"].path / "images"


@dataclass(frozen=True)
class Shown:
    """A picture of a question: where it lies, and the labels of the models that saw it (empty: all did)."""

    image: ImageRef
    file: Path
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """A row with its pictures and the predictions by model number."""

    row: Row
    pictures: tuple[Shown, ...]
    answers: Mapping[int, Mapping[str, Any]]

    @property
    def right(self) -> list[int]:
        return [number for number, answer in self.answers.items() if answer["correct"]]

    @property
    def wrong(self) -> list[int]:
        return [number for number, answer in self.answers.items() if not answer["correct"]]

    @property
    def differ(self) -> bool:
        """Whether the models disagree: other answers to a choice; of numbers and boxes, right and wrong."""
        exact = self.row.answer_type in ("choice", "yes_no")
        said = {answer["parsed"] if exact else answer["correct"] for answer in self.answers.values()}
        return len(said) > 1

    @property
    def target(self) -> ImageRef | None:
        """The picture in whose pixels a box is asked for, the row's last."""
        return self.row.images[-1] if self.row.answer_type == "box" and self.row.images else None

    @property
    def gold_box(self) -> Box | None:
        return tuple(self.row.answer) if self.row.answer_type == "box" else None

    def box_of(self, number: int) -> Box | None:
        """What a model gave, in pixels of the target; None where that cannot be read."""
        if self.row.answer_type != "box" or number not in self.answers:
            return None
        parsed = self.answers[number]["parsed"]
        return tuple(json.loads(parsed)) if parsed else None


@dataclass(frozen=True)
class Filter:
    """Which questions are wanted; "" takes all. `verdicts`: model number, and whether it is to be right."""

    task: str = ""
    category: str = ""
    differ: bool = False
    verdicts: tuple[tuple[int, bool], ...] = ()

    def takes(self, question: Question) -> bool:
        return (
            self.task in ("", question.row.task)
            and self.category in ("", question.row.category)
            and (question.differ or not self.differ)
            and all(n in (question.right if right else question.wrong) for n, right in self.verdicts)
        )

    @classmethod
    def read(cls, fields: Mapping[str, str], models: int) -> "Filter":
        """From the fields of the page's form: task, category, differ=1, m0=right, m1=wrong ...

        Fields that it does not know, and values that no form sends, are passed over.
        """
        verdicts = tuple(
            (number, fields[f"m{number}"] == "right")
            for number in range(models)
            if fields.get(f"m{number}") in ("right", "wrong")
        )
        return cls(fields.get("task", ""), fields.get("category", ""), fields.get("differ") == "1", verdicts)


def load(runs: Mapping[str, Path]) -> list[Model]:
    """The evaluations of `runs` (label to run directory).

    Raises:
        UserError: one of them is no finished evaluation, or there is none.
    """
    if not runs:
        raise UserError("there is no finished evaluation to look at; run launch eval first.")
    models = []
    for number, (label, path) in enumerate(runs.items()):
        run = RunDir(path)
        if not (path / "predictions.jsonl").is_file() or not run.finished:
            raise UserError(
                f"{path} is no finished evaluation: give directories that launch eval has written."
            )
        predictions = {p["id"]: p for p in read_jsonl(path / "predictions.jsonl")}
        scores = json.loads((path / "scores.json").read_text(encoding="utf-8"))
        models.append(Model(number, label, run, scores["overall"], predictions))
    return models


def labels(paths: Sequence[Path]) -> dict[str, Path]:
    """A label for each run directory: evaluation, view and recipe, as far as they tell the runs apart."""
    short = [path.name.rpartition("-")[0] or path.name for path in paths]
    viewed = [
        f"{name}, {views}" if (views := _views(path)) != "none" else name
        for name, path in zip(short, paths, strict=True)
    ]
    families = [f"{path.parent.name}, {name}" for name, path in zip(viewed, paths, strict=True)]
    exact = [f"{path.parent.name}, {path.name}" for path in paths]
    for found in (short, viewed, families, exact):
        if len(set(found)) == len(found):
            return dict(zip(found, paths, strict=True))
    return {str(path): path for path in paths}


def _views(path: Path) -> str:
    """The auxiliary view of the rows that an evaluation answered."""
    run = RunDir(path)
    if not (path / "inputs.json").exists() or "prep" not in run.inputs:
        return "none"
    prep = run.inputs["prep"]
    if not (prep.path / "config.yaml").exists():
        return "none"
    return OmegaConf.select(prep.config, "data.views", default="none")


def questions(models: Sequence[Model]) -> list[Question]:
    """Every question that a model answered, those about one scene together.

    A picture that not every model saw (an auxiliary view) is shown once, with the models that did.

    Raises:
        UserError: a prepared set that the answers belong to is gone.
    """
    rows: dict[str, dict[int, Row]] = {}
    read: dict[Path, dict[str, Row]] = {}
    for model in models:
        prep = model.run.inputs["prep"].path
        if prep not in read:
            source = prep / "rows" / "test.jsonl"
            if not source.exists():
                raise UserError(
                    f"the prepared set {prep}, which {model.label} answered, is gone; run launch prep."
                )
            read[prep] = {row.id: row for row in map(Row.from_json, read_jsonl(source))}
        for row_id in model.predictions:
            rows.setdefault(row_id, {})[model.number] = read[prep][row_id]
    found = [_question(row_id, own, models) for row_id, own in rows.items()]
    return sorted(found, key=lambda q: (q.row.subset, q.row.group, q.row.task, q.row.id))


def _question(row_id: str, own: Mapping[int, Row], models: Sequence[Model]) -> Question:
    pictures: dict[tuple[str, int], tuple[ImageRef, Path, list[str]]] = {}
    for number, row in own.items():
        place: dict[str, int] = {}
        for image in row.images:
            name = image.sha256 or image.path
            place[name] = place.get(name, 0) + 1
            key = (name, place[name])
            pictures.setdefault(key, (image, models[number].images / image.path, []))
            pictures[key][2].append(models[number].label)
    shown = tuple(
        Shown(image, file, () if len(to) == len(own) else tuple(to)) for image, file, to in pictures.values()
    )
    answers = {number: models[number].predictions[row_id] for number in own}
    return Question(next(iter(own.values())), shown, answers)


def choices(found: Sequence[Question]) -> dict[str, list[str]]:
    """The tasks and categories that there are, for the page's lists."""
    return {
        "tasks": sorted({question.row.task for question in found}),
        "categories": sorted({question.row.category for question in found}),
    }


def filtered(found: Sequence[Question], wanted: Filter) -> Iterator[Question]:
    """The questions that `wanted` takes, in their order."""
    return (question for question in found if wanted.takes(question))
