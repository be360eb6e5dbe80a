"""Under which circumstances each row of predictions.jsonl was answered.

    attempts.jsonl   a line for every set of circumstances: commit, recipe, engine, pixels, seed, rows,
    date, ...

A prediction names its line by `run`, so a run that was taken up by another commit says which row is whose.
The name leaves out the date: the same circumstances give the same predictions.jsonl, byte by byte.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from data_prep.atomic import JsonlLog, digest, read_jsonl

NAME = "attempts.jsonl"


def note(run: Path, facts: Mapping[str, Any]) -> str:
    """Keep `facts` (the `provenance` of scores.json) in the run directory, once, and return their name."""
    name = digest({key: value for key, value in facts.items() if key != "date"})[:8]
    with JsonlLog(run / NAME) as log:
        if all(kept["run"] != name for kept in read_jsonl(run / NAME)):
            log.append({"run": name, **facts})
    return name


def read(run: Path) -> dict[str, dict[str, Any]]:
    """Every set of circumstances of a run directory by its name."""
    return {facts["run"]: facts for facts in read_jsonl(run / NAME)} if (run / NAME).exists() else {}


def results(run: Path) -> Iterator[dict[str, Any]]:
    """The predictions of a run directory, each with all of its circumstances under `run`."""
    known = read(run)
    for prediction in read_jsonl(run / "predictions.jsonl"):
        yield {**prediction, "run": known[prediction["run"]]}
