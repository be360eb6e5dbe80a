"""The part of the report on what watched over GRPO: probe, monitors, accuracy by task and category."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from recipes import probe
from recipes import report_charts as charts
from recipes.answer_metrics import mean
from recipes.monitor_readings import MONITORS
from recipes.monitors import Review, review
from recipes.run_dir import RunDir


def watched(run: RunDir) -> dict[str, Any] | None:
    """What the template shows of a GRPO run, finished or not; None where it logged no answers."""
    records = _records(run)
    if not records:
        return None
    settings = run.config.grpo.monitors
    seen = review(records, settings)
    found = probe.stored(run)
    return {
        "finished": run.finished,
        "step": records[-1]["step"],
        "probe": probe.words(found) if found else None,
        "alarms": sentences(seen),
        "quiet": [name for name in seen.values if name not in {alarm.monitor for alarm, _ in seen.alarms}],
        "charts": [
            (name, MONITORS[name].says, charts.line_chart(name, points, limit=settings[name]))
            for name, points in seen.values.items()
            if any(value for _, value in points)
        ],
        "window": settings.window,
        "apart": [
            *_apart(records, settings.window, "by_task"),
            *_apart(records, settings.window, "by_category"),
        ],
    }


def alarms_of(run: RunDir) -> list[str]:
    """The alarms of a GRPO run, a sentence each."""
    records = _records(run)
    return sentences(review(records, run.config.grpo.monitors)) if records else []


def _records(run: RunDir) -> list[dict[str, Any]]:
    """The steps that the monitors read, in order; none for a run without monitors."""
    if OmegaConf.select(run.config, "grpo.monitors") is None:
        return []
    found = (record for record in run.metrics() if "by_category" in record)
    return sorted(found, key=lambda record: record["step"])


def sentences(seen: Review) -> list[str]:
    """`steps 5 to 9, letter_collapse: ...` for every alarm."""
    return [
        f"{f'step {alarm.step}' if alarm.step == last else f'steps {alarm.step} to {last}'}, {alarm}"
        for alarm, last in seen.alarms
    ]


def _apart(records: Sequence[Mapping[str, Any]], window: int, key: str) -> list[dict[str, Any]]:
    """Accuracy, format and letters of a task or category in the first and last steps that asked about it."""
    names = sorted({name for record in records for name in record[key]})
    lines = []
    for name in names:
        parts = [record[key][name] for record in records if name in record[key]]
        line = {"name": name.replace("_", " "), "answers": sum(part["answers"] for part in parts)}
        for when, some in (("first", parts[:window]), ("last", parts[-window:])):
            line[when] = {field: mean(part[field] for part in some) for field in ("accuracy", "format")}
        lines.append(line | {"letter": _preferred(parts[-window:])})
    return lines


def _preferred(parts: Sequence[Mapping[str, Any]]) -> tuple[str, float, float] | None:
    """The letter that is given most beyond its due: letter, share of answers, share of right answers."""
    given, gold = Counter[str](), Counter[str]()
    for part in parts:
        given.update(part["letters"])
        gold.update(part["gold_letters"])
    n = given.total()
    if not n:
        return None
    letter = max(sorted(given), key=lambda name: given[name] - gold[name])
    return letter, given[letter] / n, gold[letter] / n
