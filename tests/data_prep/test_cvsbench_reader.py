"""The released layout: files, rows, ids, pictures by path and by naming rule, and what is set aside."""

import json
import os

import pytest
from miniature import FACADE, LOCATION, put_lines, put_picture, put_vqa, question

from data_prep.cvsbench import read_release
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.quarantine import Quarantined
from data_prep.rows import Row


def read(root, subset, task, split="test"):
    return list(read_release(root, [subset], [task], split))


def only(items):
    assert len(items) == 1, items
    return items[0]


@pytest.fixture
def root(tmp_path):
    """Pictures of CVUSA scene 0000001 and FOV scene 0007, no rows."""
    for name in ("cvusa/data/streetview/0000001.jpg", "cvusa/data/bingmap/input0000001.png"):
        put_picture(tmp_path / name)
    for view in (0, 1, 2, 3, 4):
        put_picture(tmp_path / f"fov/data/street/0007/{view}.jpg")
    put_picture(tmp_path / "fov/data/satellite/0007.jpg")
    put_picture(tmp_path / "fov/data/satellite_arrow/0007/view_2_annotated.jpg")
    return tmp_path


def test_a_row_in_full(root):
    record = {
        "img_id": "0000001",
        "dataset": "cvusa",
        "source_image": "cvusa/data/streetview/0000001.jpg",
        "target_image": "cvusa/data/bingmap/input0000001.png",
        "category": "x",
        "questions": [
            question(),
            question(question="And?", answer="B) Not visible in Satellite", category="facade"),
        ],
    }
    put_vqa(root, "cvusa", "g2s", record)
    first, second = read(root, "cvusa", "g2s")
    assert second == Row.from_json(
        {
            "id": "cvsbench/cvusa/g2s/0000001.NA.q1",
            "benchmark": "cvsbench",
            "subset": "cvusa",
            "task": "g2s",
            "category": "facade",
            "group": "cvusa/0000001",
            "images": [{"path": "cvusa/data/streetview/0000001.jpg", "role": "panorama"}],
            "question": "And?",
            "options": {"A": "Visible in Satellite", "B": "Not visible in Satellite"},
            "answer": "B",
            "meta": {
                "file": "cvusa/g2s/Ground2Sat_VQA_test.jsonl",
                "line": 1,
                "view": "NA",
                "hidden_images": [{"path": "cvusa/data/bingmap/input0000001.png", "role": "satellite"}],
            },
        }
    )
    assert (first.id, first.category, first.answer) == ("cvsbench/cvusa/g2s/0000001.NA.q0", "x", "A")


@pytest.mark.parametrize(
    ("record", "row_id", "group"),
    [
        ({"img_id": "0000001", "view_id": 3}, "0000001.3.q0", "cvusa/0000001"),
        ({"img_id": "0000001_2", "view": "v"}, "0000001_2.v.q0", "cvusa/0000001"),
        ({"sample": 1, "q_index": 4}, "1.NA.q4", "cvusa/0000001"),
        ({"id": "0000001", "view_id": None, "view": 2}, "0000001.2.q0", "cvusa/0000001"),
        (
            {"id": "place-9", "image_path": "cvusa/data/streetview/0000001.jpg"},
            "place-9.NA.q0",
            "cvusa/place-9",
        ),
        ({"street": "elsewhere/0000001.jpg"}, "0000001.NA.q0", "cvusa/0000001"),
    ],
)
def test_ids_and_groups(root, record, row_id, group):
    put_vqa(root, "cvusa", "g2s", question(**record))
    row = only(read(root, "cvusa", "g2s"))
    assert isinstance(row, Row), row
    assert (row.id, row.group) == (f"cvsbench/cvusa/g2s/{row_id}", group)


def test_flat_questions_on_one_view_are_counted_and_nothing_else_is(root):
    same, other = question(img_id="0000001"), question(img_id="0000001", view=1)
    put_vqa(root, "cvusa", "g2s", same, other, same, "", {"img_id": "0000001", "q_index": 1, **question()})
    items = read(root, "cvusa", "g2s")
    assert [item.id.rpartition("/")[2] for item in items] == [
        "0000001.NA.q0", "0000001.1.q0", "0000001.NA.q1", "0000001.NA.q1",
    ]  # fmt: skip
    assert isinstance(items[3], Quarantined)
    assert "used twice" in items[3].reason
    assert items[3].line == 5


@pytest.mark.parametrize(
    ("subset", "task", "record", "shown", "hidden"),
    [
        # The row's own path strings, the first that is present.
        ("cvusa", "g2s", {"source_image": "cvusa/data/streetview/0000001.jpg"},
         ["cvusa/data/streetview/0000001.jpg"], ["cvusa/data/bingmap/input0000001.png"]),
        ("cvusa", "g2s", {"source_image": "gone.jpg", "street": "cvusa/data/streetview/0000001.jpg"},
         ["cvusa/data/streetview/0000001.jpg"], ["cvusa/data/bingmap/input0000001.png"]),
        ("cvusa", "g2s", {"source_image": "{root}/cvusa/data/streetview/0000001.jpg"},
         ["cvusa/data/streetview/0000001.jpg"], ["cvusa/data/bingmap/input0000001.png"]),
        # By file name in the data folder, wherever the path string points.
        ("cvusa", "g2s", {"street_path": "/home/someone/pano/0000001.jpg"},
         ["cvusa/data/streetview/0000001.jpg"], ["cvusa/data/bingmap/input0000001.png"]),
        ("cvusa", "s2g", {"sat_path": "bing/input0000001.png"},
         ["cvusa/data/bingmap/input0000001.png"], ["cvusa/data/streetview/0000001.jpg"]),
        # By id alone.
        ("cvusa", "s2g", {}, ["cvusa/data/bingmap/input0000001.png"], ["cvusa/data/streetview/0000001.jpg"]),
        ("cvusa", "g2s", {"view_id": 0}, ["cvusa/data/streetview/0000001.jpg"],
         ["cvusa/data/bingmap/input0000001.png"]),
        ("fov", "g2s", {"view_id": 3}, ["fov/data/street/0007/3.jpg"], ["fov/data/satellite/0007.jpg"]),
        # The four rewritten folders.
        ("fov", "g2s", {"view_id": 1, "source_image": "fov/train_street/0007/4.jpg"},
         ["fov/data/street/0007/4.jpg"], ["fov/data/satellite/0007.jpg"]),
        ("fov", "g2s", {"view_id": 1, "street_path": "./fov/test_street/0007/4.jpg",
                        "sat_path": "fov/train_satellite/0007.jpg"},
         ["fov/data/street/0007/4.jpg"], ["fov/data/satellite/0007.jpg"]),
        # View 0 shows every photograph but 0.jpg.
        ("fov", "g2s", {"view_id": 0, "source_image": "fov/data/street/0007/1.jpg"},
         [f"fov/data/street/0007/{view}.jpg" for view in (1, 2, 3, 4)], ["fov/data/satellite/0007.jpg"]),
        # The satellite with the arrow wins over the plain one.
        ("fov", "s2g", {"view": 2}, ["fov/data/satellite_arrow/0007/view_2_annotated.jpg"],
         ["fov/data/street/0007/2.jpg"]),
        ("fov", "s2g", {"view": 2, "target_image": "fov/test_satellite/0007.jpg"},
         ["fov/data/satellite_arrow/0007/view_2_annotated.jpg"], ["fov/data/street/0007/2.jpg"]),
        ("fov", "s2g", {"view": 1, "satellite_path": "fov/test_satellite/0007.jpg"},
         ["fov/data/satellite/0007.jpg"], ["fov/data/street/0007/1.jpg"]),
        ("fov", "s2g", {"view": 9, "image_path": "fov/data/satellite_arrow/0007/view_2_annotated.jpg"},
         ["fov/data/satellite_arrow/0007/view_2_annotated.jpg"], []),
    ],
)  # fmt: skip
def test_pictures_are_found(root, subset, task, record, shown, hidden):
    record = {
        key: value.format(root=root) if isinstance(value, str) else value for key, value in record.items()
    }
    put_vqa(root, subset, task, {"img_id": "0000001" if subset == "cvusa" else "7_2", **question(), **record})
    row = only(read(root, subset, task))
    assert isinstance(row, Row), row
    role = "satellite" if task == "s2g" else {"cvusa": "panorama", "fov": "street"}[subset]
    assert [(image.path, image.role) for image in row.images] == [(path, role) for path in shown]
    assert [image["path"] for image in row.meta["hidden_images"]] == hidden


def test_a_question_overrides_the_pictures_of_its_row(root):
    nested = [question(street="fov/data/street/0007/4.jpg"), question()]
    put_vqa(root, "fov", "g2s", {"img_id": "0007", "view": 1, "questions": nested})
    assert [row.images[0].path for row in read(root, "fov", "g2s")] == [
        "fov/data/street/0007/4.jpg",
        "fov/data/street/0007/1.jpg",
    ]


@pytest.mark.parametrize("key", ["question", "options", "answer"])
def test_a_nested_question_never_takes_its_words_or_answer_from_the_record(root, key):
    record = {"img_id": "0000001", **question(), "questions": [question(**{key: None})]}
    put_vqa(root, "cvusa", "g2s", record)
    item = only(read(root, "cvusa", "g2s"))
    assert isinstance(item, Quarantined), item


def test_view_0_finds_the_folder_by_a_path_where_the_row_has_no_id(root):
    put_vqa(root, "fov", "g2s", question(view_id=0, street_path="fov/test_street/0007/2.jpg"))
    row = only(read(root, "fov", "g2s"))
    assert row.group == "fov/0007"
    assert [image.path for image in row.images] == [f"fov/data/street/0007/{v}.jpg" for v in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"img_id": None}, "row", "no image id"),
        ({"img_id": ["0000001"]}, "row", "whole number"),
        ({"question": None}, "row", "no question"),
        ({"options": None}, "row", "options"),
        ({"options": "A) yes"}, "row", "options"),
        ({"answer": None}, "row", "no answer"),
        ({"answer": "C"}, "row", "not among the options"),
        ({"questions": []}, "row", "`questions`"),
        ({"questions": ["what"]}, "row", "`questions`"),
        ({"img_id": "0000002"}, "picture", "the row names none"),
        ({"img_id": "0000002", "street": "a/b.jpg"}, "picture", "'a/b.jpg' is not in the data root"),
        ({"img_id": "0000002", "street": "../b.jpg"}, "picture", "climbs"),
        ({"img_id": "0000002", "street": "/etc/passwd"}, "picture", "outside the data root"),
        ({"img_id": "../../0000002"}, "picture", "no picture"),
    ],
)
def test_faulty_questions_are_set_aside_and_the_rest_is_read(root, fields, kind, reason):
    good = question(img_id="0000001", view=1)
    put_vqa(
        root,
        "cvusa",
        "g2s",
        good,
        question(**{"img_id": "0000001", **fields}),
        question(img_id="0000001", view=2),
    )
    before, faulty, after = read(root, "cvusa", "g2s")
    assert isinstance(before, Row)
    assert isinstance(after, Row)
    assert isinstance(faulty, Quarantined)
    assert (faulty.kind, faulty.file, faulty.line) == (kind, "cvusa/g2s/Ground2Sat_VQA_test.jsonl", 2)
    assert reason in faulty.reason


def test_a_link_out_of_the_root_is_set_aside(root, tmp_path_factory):
    outside = tmp_path_factory.mktemp("elsewhere") / "secret.jpg"
    put_picture(outside)
    os.symlink(outside, root / "cvusa/data/streetview/0000002.jpg")
    put_vqa(root, "cvusa", "g2s", question(img_id="0000002"))
    assert "link that leaves" in only(read(root, "cvusa", "g2s")).reason


def test_view_0_without_photographs(root):
    put_vqa(root, "fov", "g2s", question(img_id="0009", view=0))
    assert "view 0" in only(read(root, "fov", "g2s")).reason


@pytest.mark.parametrize(
    "line", ['{"img_id": "1",', "[1, 2]", "not json", b'{"img_id": "\xff"}', "[" * 100_000]
)
def test_a_broken_line_ends_the_reading_and_is_named(root, line):
    path = put_vqa(root, "cvusa", "g2s", question(img_id="0000001"), line)
    with pytest.raises(UserError, match=r"line 2: .*not (a )?JSON") as error:
        read(root, "cvusa", "g2s")
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 600


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(root):
    line = json.dumps(question(img_id="0000001")).encode()
    put_lines(root / "cvusa/g2s/Ground2Sat_VQA_test.jsonl", b"\xef\xbb\xbf" + line + b"\r")
    assert isinstance(only(read(root, "cvusa", "g2s")), Row)


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["Ground2Sat_VQA_train.jsonl"], "Ground2Sat_VQA_train.jsonl"),
        (["g2s_train.jsonl", "Ground2Sat_VQA_test.jsonl"], "g2s_train.jsonl"),
        (["Ground2Sat_VQA_train.jsonl", "old_train.jsonl"], "Ground2Sat_VQA_train.jsonl"),
    ],
)
def test_train_files_under_plausible_names(root, names, taken):
    for name in names:
        put_lines(root / "cvusa/g2s" / name, question(img_id="0000001"))
    assert only(read(root, "cvusa", "g2s", "train")).meta["file"] == f"cvusa/g2s/{taken}"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no Ground2Sat_VQA_train.jsonl"),
        (["Ground2Sat_VQA_test.jsonl"], "has no Ground2Sat_VQA_train.jsonl"),
        (["a_train.jsonl", "b_train.jsonl"], "several train files"),
    ],
)
def test_train_files_that_are_missing_or_unclear(root, names, message):
    for name in names:
        put_lines(root / "cvusa/g2s" / name, question(img_id="0000001"))
    with pytest.raises(UserError, match=message):
        read(root, "cvusa", "g2s", "train")


@pytest.mark.parametrize(("subset", "task"), [("cvusaa", "g2s"), ("fov", "gs")])
def test_unknown_subsets_and_tasks_are_named(root, subset, task):
    with pytest.raises(UserError, match="is not one of"):
        read(root, subset, task)


def test_s2s_is_another_name_of_s2g(root):
    put_vqa(root, "cvusa", "s2g", question(img_id="0000001", options=LOCATION))
    assert only(read(root, "cvusa", "s2s")).task == "s2g"


def test_reading_opens_no_picture(root):
    (root / "cvusa/data/streetview/0000001.jpg").write_bytes(b"not a picture")
    put_vqa(root, "cvusa", "g2s", question(img_id="0000001", options=FACADE))
    assert isinstance(only(read(DataRoot(root), "cvusa", "g2s")), Row)
