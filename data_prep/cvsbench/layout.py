"""Which files of a CVSBench release hold which rows.

The test files' names are the release's own. Train files have never been described, so names by analogy are
taken, and some others that leave no doubt; `SourceFile.assumed` says so, and with it the manifest.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from data_prep.data_root import DataRoot
from data_prep.errors import UserError

Split = Literal["train", "test"]

SPLITS: tuple[Split, ...] = ("train", "test")
SUBSETS = ("cvusa", "fov")


@dataclass(frozen=True)
class TaskFiles:
    """Where a task's rows lie.

    - `folders`: below the subset; the first is the release's own name.
    - `parts`: part of the task to the usual stem of its file; a task of one file has the part "".
    - `subsets`: those that have the task.
    - `boxes`: whether the paper's box pairs (0.A.1, `*_{split}.json`) may stand in for the rows.
    """

    folders: tuple[str, ...]
    parts: dict[str, str]
    subsets: tuple[str, ...] = SUBSETS
    boxes: bool = False


TASKS = {
    "g2s": TaskFiles(("g2s",), {"": "Ground2Sat_VQA"}),
    "s2g": TaskFiles(("s2g", "s2s"), {"": "Sat2Ground_VQA"}),
    "gs_grounding": TaskFiles(
        ("gs_grounding", "grounding"), {"g2s": "Ground2Sat_5level", "s2g": "Sat2Ground_5level"}, boxes=True
    ),
    "gs_view": TaskFiles(
        ("gs_view", "ge_view"),
        {"arrow_select": "arrow_select", "arrow_street": "arrow_street"},
        subsets=("fov",),
    ),
}
# The release's own configuration calls s2g "s2s" and gs_view "ge_view".
_TASK_ALIASES = {"s2s": "s2g", "ge_view": "gs_view"}
# What a file's name must hold to be taken for a part whose usual file is not there.
_PART_WORDS = {
    "g2s": ("ground2sat", "g2s"),
    "s2g": ("sat2ground", "s2g", "s2s"),
    "arrow_select": ("arrow_select", "view_arrow"),
    "arrow_street": ("arrow_street", "view_image"),
}


@dataclass(frozen=True)
class SourceFile:
    """One file of the release; `path` is relative to the data root.

    - `part`: the part of the task that it holds: the direction (g2s, s2g) of gs_grounding, arrow_select
      (View-Arrow) or arrow_street (View-Image) of gs_view, else "".
    - `form`: JSON lines of rows, or one JSON object of box pairs.
    - `assumed`: what was taken for granted to take this file; "" for a name that the release documents.
    """

    path: str
    subset: str
    task: str
    split: Split
    part: str = ""
    form: Literal["rows", "boxes"] = "rows"
    assumed: str = ""


def find_files(
    root: DataRoot, subsets: Sequence[str], tasks: Sequence[str], split: Split
) -> list[SourceFile]:
    """One file for every subset, task and part asked for; a task that a subset does not have is no fault.

    Args:
        tasks: names of `TASKS` or their aliases; `gs_view/arrow_select` asks for one part.

    Raises:
        UserError: an unknown subset, task or part, a task that none of the subsets has, a folder without a
            file for `split`, or one with several.
    """
    for subset in subsets:
        _check("subsets", subset, SUBSETS)
    wanted = dict.fromkeys(part for task in tasks for part in _parts(task))
    for task in dict.fromkeys(task for task, _ in wanted):
        if not set(subsets) & set(TASKS[task].subsets):
            only = ", ".join(TASKS[task].subsets)
            raise UserError(f"data.tasks: {task} is in {only} alone. Add it to data.subsets or leave it out.")
    return [
        _source(root, subset, task, part, split)
        for subset in subsets
        for task, part in wanted
        if subset in TASKS[task].subsets
    ]


def parts(subsets: Sequence[str], tasks: Sequence[str]) -> list[tuple[str, str]]:
    """Every (subset, entry of `data.tasks`) pair that asks `find_files` for one file of the release.

    Raises:
        UserError: an unknown task or part.
    """
    wanted = dict.fromkeys(pair for name in tasks for pair in _parts(name))
    return [
        (subset, f"{task}/{part}" if part else task)
        for subset in subsets
        for task, part in wanted
        if subset in TASKS[task].subsets
    ]


def task_names(tasks: Sequence[str]) -> list[str]:
    """The distinct tasks that entries of `data.tasks` ask for, under their own names.

    Raises:
        UserError: an unknown task or part.
    """
    return list(dict.fromkeys(task for name in tasks for task, _ in _parts(name)))


def _parts(name: str) -> list[tuple[str, str]]:
    """The (task, part) pairs that one entry of `data.tasks` asks for."""
    task, _, part = name.partition("/")
    task = _TASK_ALIASES.get(task, task)
    _check("tasks", task, tuple(TASKS))
    if not part:
        return [(task, each) for each in TASKS[task].parts]
    _check("tasks", name, tuple(f"{task}/{each}" for each in TASKS[task].parts if each) or (task,))
    return [(task, part)]


def _source(root: DataRoot, subset: str, task: str, part: str, split: Split) -> SourceFile:
    files = TASKS[task]
    usual = f"{subset}/{files.folders[0]}/{files.parts[part]}_{split}.jsonl"
    there = [
        f"{subset}/{folder}/{name}"
        for folder in files.folders
        for name in root.files(f"{subset}/{folder}")
        if split in re.split(r"[^a-z0-9]+", name.lower())
    ]
    if usual in there:
        assumed = "" if split == "test" else "a train file is named like its test file"
        return SourceFile(usual, subset, task, split, part, assumed=assumed)
    found = [path for path in there if path.endswith(".jsonl") and (not part or _holds(path, part))]
    if len(found) == 1:
        assumed = f"the one {split} file that there is {f'for {part} ' if part else ''}holds these rows"
        return SourceFile(found[0], subset, task, split, part, assumed=assumed)
    pairs = [path for path in there if path.endswith(".json") and files.boxes]
    if not found and len(pairs) == 1:
        assumed = "box pairs made into rows; in FOV the number after _ in an id is the street view's"
        return SourceFile(pairs[0], subset, task, split, part, "boxes", assumed)
    folder, name = (root.path / usual).parent, usual.rpartition("/")[2]
    if found or pairs:
        names = ", ".join(path.rpartition("/")[2] for path in found or pairs)
        raise UserError(f"{folder} holds several {split} files ({names}). Keep one, or name it {name}.")
    part_out = f"data.tasks=[{task}/...]" if part else "data.tasks="
    raise UserError(
        f"{folder} has no {name} (nor another *_{split}.jsonl). "
        f"Complete the release, or leave this part out with data.subsets= or {part_out}."
    )


def _holds(path: str, part: str) -> bool:
    name = path.rpartition("/")[2].lower().replace("-", "_")
    return any(word in name for word in _PART_WORDS[part])


def _check(key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UserError(f"data.{key}: {value!r} is not one of {', '.join(known)}.")
