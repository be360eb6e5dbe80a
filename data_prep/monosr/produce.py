"""Balanced questions of a whole set of images, in files of a few hundred images each.

    questions-00012.jsonl   rows (`data_prep.rows`), in the order of the images
    candidates/             what they are picked from; removed when all is done
    settings.json           what the files were made with; another run may not go on from them
    balance.json            the report, written last

Files and their content depend on images, options and seed alone, not on the number of processes, nor on how
often the run was killed: whole files are kept, and the rest is made by the same command.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.atomic import digest, read_jsonl, write_json
from data_prep.errors import UserError
from data_prep.monosr.balance import LEVEL_SHARES, TASK_SHARES, plan, report
from data_prep.monosr.chunks import FOLDER, Chunks, Read, write_missing
from data_prep.monosr.options import Options
from data_prep.monosr.selection import copy_all, copying, limits, take_census
from data_prep.rows import Row

CHUNK = 500  # images a file
VERSION = 1  # of the questions: one more where the same options make other ones
SETTINGS, REPORT = "settings.json", "balance.json"


def produce(
    read: Read,
    images: int,
    folder: Path,
    options: Options,
    seed: int,
    *,
    source: str = "",
    workers: int = 1,
    total: int | None = None,
    levels: Mapping[str, float] = LEVEL_SHARES,
    tasks: Mapping[str, float] = TASK_SHARES,
    chunk: int = CHUNK,
    progress: Callable[[str, int, int], None] = lambda step, done, of: None,
) -> dict[str, Any]:
    """Fill `folder` and return the report of `balance.json`.

    Args:
        read: gives the scenes of a range of images (`data_prep.monosr.chunks.Read`).
        images: how many there are.
        source: a hash of what is read, so that files of another set are not taken up.
        total: questions that are wanted, at most; None takes all that balance lets stay.
        levels, tasks: shares of levels and weights of tasks (`data_prep.monosr.balance.plan`).
        progress: told the step, the chunks done, and how many there are.

    Raises:
        UserError: `folder` holds files that were made from something else, or a process was killed.
    """
    chunks = Chunks(folder, images, chunk)
    settings = {
        "version": VERSION, "images": images, "chunk": chunk, "seed": seed, "total": total, "source": source,
        "options": asdict(options), "levels": dict(levels), "tasks": dict(tasks),
    }  # fmt: skip
    _claim(folder, settings)
    if (folder / REPORT).exists():
        return json.loads((folder / REPORT).read_text(encoding="utf-8"))
    write_missing(chunks, read, options, seed, workers, lambda done: progress("questions", done, len(chunks)))
    census = take_census(chunks)
    counts = census.counts
    chosen = plan(counts, total, levels, tasks)
    copies, kept = copying(chunks, limits(chunks, census, chosen.quotas), seed)
    letters = copy_all(copies, workers, lambda done: progress("balance", done, len(chunks)))
    found = {
        "images": images,
        "candidates": sum(counts.values()),
        **report(kept, letters),
        "left_out": [f"{task}/{asked}" for task, asked in chosen.left_out],
    }
    write_json(folder / REPORT, found)
    shutil.rmtree(folder / FOLDER, ignore_errors=not images)
    return found


def rows_of(folder: Path) -> Iterator[Row]:
    """The rows of a folder that `produce` has filled, in the order of the images."""
    for path in sorted(folder.glob("questions-*.jsonl")):
        for record in read_jsonl(path):
            yield Row.from_json(record)


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    path = folder / SETTINGS
    mark = digest(settings)
    if not path.exists():
        write_json(path, {"digest": mark, **settings})
    elif json.loads(path.read_text(encoding="utf-8"))["digest"] != mark:
        raise UserError(
            f"{folder} holds questions that were made from other images or options ({SETTINGS} has them). "
            "Take another folder, or remove this one."
        )
