"""Rows on their way into a prepared set, whatever the benchmark: pictures, reasoning, files, faults."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from data_prep.atomic import replacing
from data_prep.data_root import DataRoot
from data_prep.images import Picture, PictureError, clean_all
from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef, Row
from data_prep.scoring import box_fault, gold_fault
from data_prep.sets import placeholder_fault
from data_prep.single_view import hidden_view_fault
from data_prep.tally import Tally
from data_prep.teacher.files import Taught, fault
from recipes.progress import StepProgress

SETS = ("sft", "rl", "test")
ASIDE_FOR = {
    "row": "for their own fields",
    "picture": "for a picture",
    "reasoning": "for their reasoning",
    "leak": "for showing a test scene",
    "view": "for lacking an auxiliary view",
    "annotation": "as annotations, images or files that cannot be used",
}


def clean_pictures(run: Path, root: DataRoot, names: list[str]) -> dict[str, Picture | PictureError]:
    """The files `names` of the data root, clean in `run/images`: by name each, or why there is none."""
    with StepProgress("pictures", len(names)) as progress:
        return clean_all(root.path, names, run / "images", run / "images.jsonl", progress.update)


def with_pictures(row: Row, pictures: dict[str, Picture | PictureError]) -> Row | Quarantined:
    """The row with its clean pictures, once its words and its answer are sound."""
    if wrong := placeholder_fault(row) or gold_fault(row) or hidden_view_fault(row):
        return set_aside(row, wrong, "row")
    clean = []
    for image in row.images:
        picture = pictures[image.path]
        if isinstance(picture, PictureError):
            return set_aside(row, f"{image.path}: {picture}", "picture")
        clean.append(ImageRef(picture.path, image.role, picture.sha256, picture.width, picture.height))
    shown = replace(row, images=tuple(clean))
    off = box_fault(shown)
    return set_aside(row, off, "row") if off else shown


def with_reasoning(row: Row, taught: Taught, response_format: str) -> Row | Quarantined:
    """The row with what a teacher wrote for it, where that is sound."""
    with_text = replace(row, reasoning=taught.text(row))
    wrong = (
        taught.reasons.get(row.id)
        or fault(row, with_text.reasoning, response_format)
        or placeholder_fault(with_text)
    )
    return set_aside(row, wrong, "reasoning") if wrong else with_text


def set_aside(row: Row, reason: str, kind: Any) -> Quarantined:
    """The row as set aside, by the file and line that its `meta` names, or else by its picture."""
    place = row.meta.get("file", row.images[0].path if row.images else "")
    return Quarantined(row.id, place, row.meta.get("line", 0), reason, kind, row.group, row.category)


def write_rows(
    run: Path,
    items: Iterator[tuple[str, Row | Quarantined]],
    finish: Callable[[Row | Quarantined, str], Row | Quarantined],
) -> Tally:
    """Write `rows/<set>.jsonl` and `quarantine.jsonl` of a run, all of them whole or none.

    Args:
        items: the set that a row is for, and the row, or what is set aside already, whatever its set.
        finish: makes of an item and its set what is written.

    Returns:
        the counts of what was written.
    """
    tally = Tally(SETS)
    with ExitStack() as stack:

        def writer(path: str) -> Callable[[dict[str, Any]], object]:
            temporary = stack.enter_context(replacing(run / path))
            file = stack.enter_context(open(temporary, "w", encoding="utf-8"))
            return lambda record: file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")

        rows = {name: writer(f"rows/{name}.jsonl") for name in SETS}
        aside = writer("quarantine.jsonl")
        for name, item in items:
            outcome = finish(item, name)
            if isinstance(outcome, Row):
                rows[name](outcome.to_json())
                tally.add(name, outcome)
            else:
                aside(outcome.to_json())
                tally.set_aside(outcome)
    return tally
