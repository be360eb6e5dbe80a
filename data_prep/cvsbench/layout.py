"""Which files of a CVSBench release hold which rows.

The test files' names are the release's own; train files have never been described, so `*_train.jsonl` is
taken by analogy, and the manifest says which file it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from data_prep.data_root import DataRoot
from data_prep.errors import UserError

Split = Literal["train", "test"]

SUBSETS = ("cvusa", "fov")
# Task -> folder and usual file stem. The release's own configuration calls s2g "s2s".
TASKS = {"g2s": ("g2s", "Ground2Sat_VQA"), "s2g": ("s2g", "Sat2Ground_VQA")}
_TASK_ALIASES = {"s2s": "s2g"}


@dataclass(frozen=True)
class SourceFile:
    """One JSON-lines file of the release; `path` is relative to the data root."""

    path: str
    subset: str
    task: str
    split: Split


def find_files(
    root: DataRoot, subsets: Sequence[str], tasks: Sequence[str], split: Split
) -> list[SourceFile]:
    """One file for every subset and task asked for.

    Raises:
        UserError: an unknown subset or task, a folder without a file for `split`, or one with several.
    """
    wanted = [_TASK_ALIASES.get(task, task) for task in tasks]
    for subset in subsets:
        _check("subsets", subset, SUBSETS)
    for task in wanted:
        _check("tasks", task, tuple(TASKS))
    return [
        SourceFile(_file(root, subset, task, split), subset, task, split)
        for subset in subsets
        for task in wanted
    ]


def _file(root: DataRoot, subset: str, task: str, split: Split) -> str:
    name, stem = TASKS[task]
    folder = f"{subset}/{name}"
    files = [name for name in root.files(folder) if name.endswith(f"_{split}.jsonl")]
    usual = f"{stem}_{split}.jsonl"
    if usual in files:
        return f"{folder}/{usual}"
    if len(files) == 1:
        return f"{folder}/{files[0]}"
    if files:
        raise UserError(
            f"{root.path / folder} holds several {split} files ({', '.join(files)}). "
            f"Keep one, or name it {usual}."
        )
    raise UserError(
        f"{root.path / folder} has no {usual} (nor another *_{split}.jsonl). "
        "Complete the release, or leave this part out with data.subsets= or data.tasks=."
    )


def _check(key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"data.{key}: {value!r} is not one of {', '.join(known)}.")
