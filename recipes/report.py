"""The report: one self-contained HTML file that shows what each stage learned, and what it did not.

Needs no torch and no network; the page runs no script. Whatever a model or a data set wrote is escaped by
the template engine, and the page's content policy forbids scripts besides.
"""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from data_prep.atomic import read_jsonl, write_text
from data_prep.errors import UserError
from data_prep.rows import Row
from recipes import report_charts as charts
from recipes import report_samples as samples
from recipes import report_words as words
from recipes.report_grpo import watched
from recipes.run_dir import RunDir
from recipes.scores import CELL
from recipes.statistics import Difference, paired_difference

LABELS = {"base": "base", "sft": "SFT", "grpo": "SFT+RL", "grpo-blank": "SFT+RL, grey pictures"}
STAGES = ("base", "sft", "grpo")
COMPARED_TO = {"sft": ("base",), "grpo": ("sft", "base"), "grpo-blank": ("grpo",)}
CURVES = {
    "reward": ("reward", None),
    "accuracy": ("accuracy of samples", None),
    "format": ("samples in the right format", (0.0, 1.0)),
    "kl": ("KL from the SFT model", None),
    "response_tokens": ("length of an answer, tokens", None),
    "entropy": ("entropy a token, nats", None),
}


@dataclass(frozen=True)
class Evaluation:
    """One finished evaluation, as its run directory holds it."""

    key: str
    run: RunDir
    scores: dict[str, Any]
    predictions: dict[str, dict[str, Any]]

    @property
    def label(self) -> str:
        return LABELS[self.key]


def summary(evals: Mapping[str, Path]) -> list[dict[str, Any]]:
    """The result, one record a stage in the order of LABELS.

    `evals`: "base", "sft", "grpo", "grpo-blank" -> evaluation run directory; any of them may be absent.
    Keys: `key`, `label`, `n`, `accuracy`, `low`, `high`; and where an earlier stage is there to compare
    with (`previous`, its label): `difference`, `difference_low`, `difference_high`, `p`, else None.
    Accuracies and differences are fractions; intervals are at 95 %, over image groups.

    Raises:
        UserError: an evaluation is not finished, or two of them answered different rows.
    """
    loaded = _load(evals)
    records = []
    for evaluation in loaded.values():
        overall = evaluation.scores["overall"]
        record = {"key": evaluation.key, "label": evaluation.label}
        record |= {key: overall[key] for key in ("n", "accuracy", "low", "high")}
        record |= dict.fromkeys(("previous", "difference", "difference_low", "difference_high", "p"))
        previous = _previous(evaluation.key, loaded)
        if previous is not None:
            found = _compare(previous, evaluation)
            record |= {"previous": previous.label, "difference": found.difference, "p": found.p}
            record |= {"difference_low": found.low, "difference_high": found.high}
        records.append(record)
    return records


def write_report(
    evals: Mapping[str, Path], grpo: Path | None, sft: Path | None, out: Path, title: str
) -> Path:
    """Write the report to `out` and return it.

    `evals` as for `summary`; `grpo` and `sft` are the training stages' run directories, for the curves.

    Raises:
        UserError: as `summary`; or there is no evaluation at all, or its prepared set is gone.
    """
    loaded = _load(evals)
    stages = [loaded[key] for key in STAGES if key in loaded]
    if not stages:
        raise UserError(
            "there is no finished evaluation to report; run launch eval or launch pipeline first."
        )
    last = stages[-1]
    table = _table(stages)
    page = {
        "title": title,
        "date": datetime.date.today().isoformat(),
        "stages": [(stage.key, stage.label, stage.scores["overall"]) for stage in stages],
        "summary": summary(evals),
        "sentences": _sentences(stages, loaded),
        "last": last.label,
        "overall": last.scores["overall"],
        "learned": words.learned(last.scores["cells"], _seeing(loaded)),
        "table": table,
        "before": stages[-2].label if len(stages) > 1 else None,
        "intervals": charts.interval_chart([_strip(line, stages) for line in table]),
        "loss": _curve(sft, "loss", "loss of an answer's tokens", None, width=920),
        "curves": [_curve(grpo, key, name, bounds) for key, (name, bounds) in CURVES.items()] if grpo else [],
        "watched": watched(RunDir(grpo)) if grpo else None,
        "blank": _blank(loaded),
        "answers": charts.answers_chart(*_answers(stages)) if stages[0].scores["overall"]["gold"] else None,
        "boxes": _boxes(stages),
        "answer_labels": {"gold": "right answers", **{stage.key: stage.label for stage in stages}},
        "samples": _samples(stages),
        "provenance": [(e.label, e.run.path.name, e.scores["provenance"]) for e in loaded.values()],
    }
    environment = Environment(
        loader=PackageLoader("recipes"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (words.percent, words.interval, words.points, words.p_value, words.blank_verdict):
        environment.filters[function.__name__] = function
    write_text(out, environment.get_template("report.html.j2").render(page))
    return out


def _load(evals: Mapping[str, Path]) -> dict[str, Evaluation]:
    unknown = sorted(evals.keys() - LABELS.keys())
    if unknown:
        raise ValueError(f"unknown evaluations {unknown}; known are {list(LABELS)}")
    loaded = {}
    for key in (key for key in LABELS if key in evals):
        run = RunDir(evals[key])
        if not run.finished:
            raise UserError(
                f"the evaluation {run.path} is not finished; run launch eval again, it continues."
            )
        predictions = sorted(read_jsonl(run.path / "predictions.jsonl"), key=lambda p: p["id"])
        scores = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
        loaded[key] = Evaluation(key, run, scores, {p["id"]: p for p in predictions})
    first = next(iter(loaded.values()), None)
    for other in loaded.values():
        if other.predictions.keys() != first.predictions.keys():
            raise UserError(
                f"{first.run.path} and {other.run.path} answered different rows and cannot be compared; "
                "evaluate both with the same data and eval.max_rows."
            )
    return loaded


def _previous(key: str, loaded: Mapping[str, Evaluation]) -> Evaluation | None:
    return next((loaded[other] for other in COMPARED_TO.get(key, ()) if other in loaded), None)


def _compare(before: Evaluation, after: Evaluation, cell: tuple[str, ...] | None = None) -> Difference:
    """The paired difference on all rows, or on those of one (subset, task, category)."""
    rows = [
        (p["accuracy"], after.predictions[name]["accuracy"], p["group"])
        for name, p in before.predictions.items()
        if cell is None or _cell(p) == cell
    ]
    return paired_difference(*zip(*rows, strict=True))


def _sentences(stages: list[Evaluation], loaded: Mapping[str, Evaluation]) -> list[str]:
    found = []
    for stage in stages:
        previous = _previous(stage.key, loaded)
        if previous is not None:
            found.append(words.change(stage.label, previous.label, _compare(previous, stage)))
        found.append(words.unread(stage.label, stage.scores["overall"]))
    return [sentence for sentence in found if sentence]


def _seeing(loaded: Mapping[str, Evaluation]) -> list[Difference] | None:
    """For every category: the same model with its pictures against grey ones; None where not measured."""
    if not {"grpo", "grpo-blank"} <= loaded.keys():
        return None
    seen, blank = loaded["grpo"], loaded["grpo-blank"]
    return [_compare(blank, seen, _cell(scores)) for scores in seen.scores["cells"]]


def _cell(scores: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(scores[key] for key in CELL)


def _table(stages: list[Evaluation]) -> list[dict[str, Any]]:
    """A line for all and one a category: every stage's scores, the last stage's gain over the one before."""
    lines = [("all", None, [stage.scores["overall"] for stage in stages])]
    for scores in zip(*(stage.scores["cells"] for stage in stages), strict=True):
        lines.append((words.cell_name(scores[0]), _cell(scores[0]), list(scores)))
    return [
        {
            "name": name,
            "scores": scores,
            "blind": words.blind(scores[0]),
            "gain": _compare(stages[-2], stages[-1], cell) if len(stages) > 1 else None,
        }
        for name, cell, scores in lines
    ]


def _strip(line: Mapping[str, Any], stages: list[Evaluation]) -> charts.Strip:
    marks = [
        charts.Mark(stage.key, stage.label, scores["accuracy"], scores["low"], scores["high"])
        for stage, scores in zip(stages, line["scores"], strict=True)
    ]
    return charts.Strip(
        line["name"], line["scores"][0]["n"], line["scores"][0]["chance"], line["blind"], marks
    )


def _curve(
    folder: Path | None, key: str, name: str, bounds: tuple[float, float] | None, width: int = 300
) -> dict[str, Any] | None:
    if folder is None:
        return None
    metrics = RunDir(folder).metrics()
    pairs = [(m["step"], m[key]) for m in metrics if isinstance(m.get(key), (int, float)) and "step" in m]
    return {"name": name, "chart": charts.line_chart(name, sorted(pairs), bounds, width)}


def _blank(loaded: Mapping[str, Evaluation]) -> dict[str, Any] | None:
    if not {"grpo", "grpo-blank"} <= loaded.keys():
        return None
    seen, blank = loaded["grpo"], loaded["grpo-blank"]
    overall = (seen.scores["overall"], blank.scores["overall"])
    cells = zip(seen.scores["cells"], blank.scores["cells"], strict=True)
    pairs = [("all", *overall), *((words.cell_name(before), before, after) for before, after in cells)]
    lines = [(name, before, after, words.blind(after)) for name, before, after in pairs]
    return {"lines": lines, "verdict": words.blank_verdict(*overall)}


def _answers(stages: list[Evaluation]) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    counts = {"gold": stages[0].scores["overall"]["gold"]}
    counts |= {stage.key: stage.scores["overall"]["letters"] for stage in stages}
    n = sum(counts["gold"].values())
    given = sorted({answer for count in counts.values() for answer in count}, key=lambda a: (len(a), a))
    common = sorted(given, key=lambda a: -sum(count.get(a, 0) for count in counts.values()))[:8]
    shares = {
        answer: {style: count.get(answer, 0) / n for style, count in counts.items()}
        for answer in given
        if answer in common
    }
    return shares, {"gold": "right answers", **{stage.key: stage.label for stage in stages}}


def _boxes(stages: list[Evaluation]) -> list[tuple[str, str, dict[str, Any]]]:
    """(stage, rows, scores) of the questions for a box: each level that was asked, and the paper's two."""
    return [
        (stage.label, f"level {name.replace('+', ' and ')}", scores)
        for stage in stages
        for name, scores in stage.scores["levels"].items()
    ]


def _samples(stages: list[Evaluation]) -> list[dict[str, Any]]:
    prep = stages[-1].run.inputs["prep"]
    source = prep.path / "rows" / "test.jsonl"
    if not source.exists():
        raise UserError(
            f"the prepared set {prep.path}, which the samples are taken from, is gone; run launch prep."
        )
    chosen = samples.choose([stage.predictions for stage in stages])
    wanted = {name for name, _ in chosen}
    rows = {r["id"]: Row.from_json(r) for r in read_jsonl(source) if r["id"] in wanted}
    return [
        samples.describe(
            rows[name], kind, prep.path / "images", [(s.key, s.label, s.predictions[name]) for s in stages]
        )
        for name, kind in chosen
    ]
