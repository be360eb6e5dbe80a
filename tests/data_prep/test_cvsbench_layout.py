"""Which files are taken for which task, and what the manifest is told about it."""

import pytest
from miniature import put_lines

from data_prep.cvsbench.layout import TASKS, find_files, task_names
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from launch.values import CHOICES


def find(root, subsets, tasks, split="test"):
    return find_files(DataRoot(root), subsets, tasks, split)


@pytest.mark.parametrize(
    ("split", "names", "task", "taken", "assumed"),
    [
        ("test", ["g2s/Ground2Sat_VQA_test.jsonl"], "g2s", 0, ""),
        ("test", ["s2s/Sat2Ground_VQA_test.jsonl"], "s2g", 0, "the one test file"),
        ("train", ["g2s/Ground2Sat_VQA_train.jsonl"], "g2s", 0, "named like its test file"),
        ("train", ["g2s/train.jsonl"], "g2s", 0, "the one train file"),
        ("train", ["g2s/Ground2Sat-VQA-Train.jsonl"], "g2s", 0, "the one train file"),
        ("test", ["gs_grounding/Ground2Sat_5level_test.jsonl"], "gs_grounding/g2s", 0, ""),
        ("train", ["gs_grounding/Ground2Sat_5level_train.jsonl"], "gs_grounding/g2s", 0, "its test file"),
        ("train", ["gs_grounding/s2g_train.jsonl", "gs_grounding/g2s_train.jsonl"], "gs_grounding/s2g", 0,
         "the one train file that there is for s2g"),
        ("train", ["grounding/Sat2Ground_train.jsonl"], "gs_grounding/s2g", 0, "the one train file"),
        ("test", ["gs_view/arrow_street_test.jsonl"], "gs_view/arrow_street", 0, ""),
        ("train", ["gs_view/view-image_train.jsonl", "gs_view/arrow_select_train.jsonl"],
         "gs_view/arrow_street", 0, "the one train file that there is for arrow_street"),
        ("test", ["ge_view/arrow_select_test.jsonl"], "gs_view/arrow_select", 0, "the one test file"),
        ("train", ["gs_grounding/boxes_train.json"], "gs_grounding/s2g", 0, "box pairs"),
        ("train", ["gs_grounding/boxes_train.json", "gs_grounding/Sat2Ground_5level_train.jsonl"],
         "gs_grounding/s2g", 1, "like its test file"),
    ],
)  # fmt: skip
def test_a_file_by_its_name_or_by_an_alternative(tmp_path, split, names, task, taken, assumed):
    for name in names:
        put_lines(tmp_path / "fov" / name)
    [source] = find(tmp_path, ["fov"], [task], split)
    assert source.path == f"fov/{names[taken]}"
    assert (source.task, source.part) == (task.partition("/")[0], task.partition("/")[2])
    assert source.form == ("boxes" if source.path.endswith(".json") else "rows")
    assert assumed in source.assumed
    assert bool(source.assumed) == bool(assumed)


@pytest.mark.parametrize(
    ("names", "task", "message"),
    [
        ([], "gs_grounding", r"has no Ground2Sat_5level_train.jsonl .*data.tasks=\[gs_grounding/...\]"),
        (["gs_grounding/Ground2Sat_5level_train.jsonl"], "gs_grounding", "has no Sat2Ground_5level_train"),
        (
            ["gs_grounding/g2s_a_train.jsonl", "gs_grounding/g2s_b_train.jsonl"],
            "gs_grounding",
            "several train",
        ),
        (["gs_grounding/a_train.json", "gs_grounding/b_train.json"], "gs_grounding", "several train"),
        (["gs_view/arrow_select_train.jsonl"], "gs_view", "has no arrow_street_train.jsonl"),
        (["g2s/boxes_train.json"], "g2s", "has no Ground2Sat_VQA_train.jsonl"),
        (["g2s/constrained.jsonl"], "g2s", "has no Ground2Sat_VQA_train.jsonl"),
    ],
)
def test_files_that_are_missing_or_unclear(tmp_path, names, task, message):
    for name in names:
        put_lines(tmp_path / "fov" / name)
    with pytest.raises(UserError, match=message):
        find(tmp_path, ["fov"], [task], "train")


@pytest.mark.parametrize(
    ("subsets", "tasks", "message"),
    [
        (["fov"], ["gs"], "'gs' is not one of g2s, s2g, gs_grounding, gs_view"),
        (["fov"], ["gs_view/arrows"], "is not one of gs_view/arrow_select, gs_view/arrow_street"),
        (["fov"], ["g2s/g2s"], "is not one of g2s"),
        (["cvusa"], ["gs_view"], "gs_view is in fov alone"),
        (["cvsua"], ["g2s"], "'cvsua' is not one of cvusa, fov"),
    ],
)
def test_what_cannot_be_asked_for(tmp_path, subsets, tasks, message):
    with pytest.raises(UserError, match=message):
        find(tmp_path, subsets, tasks)


def test_every_subset_gives_the_files_that_it_has(tmp_path):
    for subset in ("cvusa", "fov"):
        for stem in ("Ground2Sat", "Sat2Ground"):
            put_lines(tmp_path / subset / f"gs_grounding/{stem}_5level_test.jsonl")
    for part in ("arrow_select", "arrow_street"):
        put_lines(tmp_path / f"fov/gs_view/{part}_test.jsonl")
    found = find(tmp_path, ["cvusa", "fov"], ["gs_grounding", "ge_view"])
    assert [(source.subset, source.task, source.part) for source in found] == [
        ("cvusa", "gs_grounding", "g2s"),
        ("cvusa", "gs_grounding", "s2g"),
        ("fov", "gs_grounding", "g2s"),
        ("fov", "gs_grounding", "s2g"),
        ("fov", "gs_view", "arrow_select"),
        ("fov", "gs_view", "arrow_street"),
    ]


def test_task_names():
    assert task_names(["s2s", "s2g", "gs_view/arrow_select", "ge_view"]) == ["s2g", "gs_view"]


def test_the_command_line_takes_every_task_and_part():
    parts = {f"{name}/{part}" for name, task in TASKS.items() for part in task.parts if part}
    assert set(CHOICES["data.tasks"]) == {*TASKS, *parts}
