"""Grounding rows: levels, directions, every key of the box, pictures, hints, and what is set aside."""

import pytest
from miniature import put_picture, put_vqa

from data_prep.cvsbench import read_release
from data_prep.quarantine import Quarantined
from data_prep.rows import Row

BOX = [175.0, 301.0, 189.0, 357.0]
STREET, SATELLITE = "fov/data/street/0842/1.jpg", "fov/data/satellite/0842.jpg"
MARKED_STREET = "fov/gs_grounding/bbox_images/street/0842_1_S2G_bbox.jpg"
MARKED_SATELLITE = "fov/gs_grounding/bbox_images/satellite/0842_1_G2S_bbox.jpg"
PANORAMA, BING = "cvusa/data/streetview/0000973.jpg", "cvusa/data/bingmap/input0000973.png"


@pytest.fixture
def root(tmp_path):
    for name in (STREET, SATELLITE, MARKED_STREET, MARKED_SATELLITE, PANORAMA, BING):
        put_picture(tmp_path / name)
    return tmp_path


def asked(**fields):
    """A question of level 4; fields of None are left out."""
    record = {"level": 4, "question": "Where?", "answer": BOX, **fields}
    return {key: value for key, value in record.items() if value is not None}


def line(*questions, direction="g2s", **fields):
    names = {"g2s": "Ground2Sat_5level", "s2g": "Sat2Ground_5level"}
    source, target = (STREET, SATELLITE) if direction == "g2s" else (SATELLITE, STREET)
    record = {
        "img_id": "0842_1", "view_id": 1, "task": names[direction], "dataset": "fov", "source_image": source,
        "target_image": target, "questions": list(questions), **fields,
    }  # fmt: skip
    return {key: value for key, value in record.items() if value is not None}


def read(root, *records, subset="fov", direction="g2s"):
    task = f"gs_grounding/{direction}"
    put_vqa(root, subset, task, *records)
    return list(read_release(root, [subset], [task], "test"))


def only(items):
    assert len(items) == 1, items
    return items[0]


def test_a_row_in_full(root):
    first, second = read(root, line(asked(level=3), asked(region_hint="bottom-left"), category="roof"))
    assert first == Row.from_json(
        {
            "id": "cvsbench/fov/gs_grounding/g2s/0842_1.1.L3.q0",
            "benchmark": "cvsbench",
            "subset": "fov",
            "task": "gs_grounding",
            "category": "level3",
            "group": "fov/0842",
            "images": [{"path": MARKED_STREET, "role": "marked"}, {"path": SATELLITE, "role": "satellite"}],
            "question": "Where?",
            "options": None,
            "answer": BOX,
            "answer_type": "box",
            "meta": {
                "file": "fov/gs_grounding/Ground2Sat_5level_test.jsonl",
                "line": 1,
                "view": "1",
                "hidden_images": [],
                "level": 3,
                "direction": "g2s",
            },
        }
    )
    assert second.id == "cvsbench/fov/gs_grounding/g2s/0842_1.1.L4.q1"
    assert (second.category, second.meta["level"]) == ("level4", 4)
    assert [(i.path, i.role) for i in second.images] == [(STREET, "street"), (SATELLITE, "satellite")]


@pytest.mark.parametrize("subset", ["cvusa", "fov"])
def test_both_files_are_read_and_their_ids_differ(root, subset):
    for direction in ("g2s", "s2g"):
        pictures = {"source_image": None, "target_image": None}
        if subset == "cvusa":
            pictures["img_id"] = "0000973_1"
        put_vqa(root, subset, f"gs_grounding/{direction}", line(asked(), direction=direction, **pictures))
    rows = list(read_release(root, [subset], ["gs_grounding"], "test"))
    assert [row.meta["direction"] for row in rows] == ["g2s", "s2g"]
    assert len({row.id for row in rows}) == 2
    street = ("panorama", PANORAMA) if subset == "cvusa" else ("street", STREET)
    satellite = ("satellite", BING if subset == "cvusa" else SATELLITE)
    assert [[(i.role, i.path) for i in row.images] for row in rows] == [
        [street, satellite], [satellite, street],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "file", "direction"),
    [
        ("Sat2Ground_5level", "g2s", "s2g"),
        ("s2g_grounding", "g2s", "s2g"),
        ("Ground2Sat_5level", "s2g", "g2s"),
        ("g2s", "s2g", "g2s"),
        ("gs_grounding", "s2g", "s2g"),
        (None, "s2g", "s2g"),
        (None, "g2s", "g2s"),
    ],
)
def test_the_direction_is_the_rows_task_and_else_the_files(root, task, file, direction):
    record = line(asked(level=3), direction=direction, task=task)
    row = only(read(root, record, direction=file))
    assert row.meta["direction"] == direction
    assert row.images[0].path == {"g2s": MARKED_STREET, "s2g": MARKED_SATELLITE}[direction]


OTHER = [1, 2, 30, 40]


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ({"answer": BOX, "target_bbox": OTHER}, {"target_bbox": OTHER}),
        ({"answer": None, "target_bbox": BOX}, {"target_bbox": OTHER}),
        ({"answer": [], "target_bbox": BOX}, {}),
        ({"answer": ""}, {"target_bbox": BOX, "gt_bbox": OTHER}),
        ({"answer": None}, {"gt_bbox": BOX, "answer_bbox": OTHER}),
        ({"answer": None}, {"answer_bbox": BOX, "answer": OTHER}),
        ({"answer": None}, {"answer": BOX}),
        ({"answer": "[175.0, 301.0, 189.0, 357.0]"}, {}),
        ({"answer": [189.0, 357.0, 175.0, 301.0]}, {}),
        ({"answer": [175, 301, 189, 357]}, {}),
    ],
)
def test_the_first_key_that_holds_a_box_gives_the_answer(root, question, row):
    assert only(read(root, line(asked(**question), **row))).answer == BOX


@pytest.mark.parametrize(
    ("question", "row", "reason"),
    [
        ({"answer": None}, {}, "no box"),
        ({"answer": [], "target_bbox": []}, {"gt_bbox": ""}, "no box"),
        ({"answer": [None] * 4}, {}, "answer is no box of four numbers"),
        ({"answer": [1, 2, 3]}, {}, "no box of four numbers"),
        ({"answer": [1, 2, 3, 4, 5]}, {}, "no box of four numbers"),
        ({"answer": ["1", "2", "3", "4"]}, {}, "no box of four numbers"),
        ({"answer": [1, 2, 3, float("nan")]}, {}, "no box of four numbers"),
        ({"answer": [1, 2, 3, True]}, {}, "no box of four numbers"),
        ({"answer": {"x": 1}}, {}, "no box of four numbers"),
        ({"answer": "A"}, {}, "answer is no box"),
        ({"answer": "A"}, {"target_bbox": BOX}, "answer is no box"),
        ({"answer": [5, 5, 5, 9]}, {}, "without area"),
        ({"answer": [0.1, 0.2, 0.3, 0.4]}, {}, "not in pixels"),
        ({"answer": None, "target_bbox": 7}, {}, "target_bbox is no box"),
        ({"source_bbox": "?"}, {}, "source_bbox is no box"),
        ({"region_hint": ["left"]}, {}, "region_hint is not a text"),
        ({"question": None}, {}, "no question"),
        ({"level": None}, {}, "no level"),
        ({"level": "high"}, {}, "no level"),
        ({"level": True}, {}, "no level"),
    ],
)
def test_faulty_questions_are_set_aside_and_the_rest_is_read(root, question, row, reason):
    before, faulty = read(root, line(asked()), line(asked(**question), view_id=2, **row))
    assert isinstance(before, Row)
    assert isinstance(faulty, Quarantined)
    assert (faulty.kind, faulty.line, faulty.group) == ("row", 2, "fov/0842")
    assert reason in faulty.reason
    assert faulty.category == ("" if "level" in question else "level4")


@pytest.mark.parametrize(
    ("level", "category", "marked"),
    [(3, "level3", True), ("3", "level3", True), ("L4", "level4", False), (1, "level1", False)],
)
def test_levels(root, level, category, marked):
    row = only(read(root, line(asked(level=level))))
    assert row.category == category
    assert (row.images[0].role == "marked") is marked


@pytest.mark.parametrize(
    ("there", "direction", "taken"),
    [
        (["street/0842_1_S2G_bbox.jpg", "street/0842_S2G_bbox.jpg"], "g2s", 0),
        (["street/0842_S2G_bbox.jpg"], "g2s", 0),
        (["street/0842_1_S2G_bbox.png"], "g2s", 0),
        (["street/0842_1_G2S_bbox.jpg"], "g2s", 0),
        (["satellite/0842_1_G2S_bbox.jpg", "satellite/0842_1_S2G_bbox.jpg"], "s2g", 0),
        (["satellite/0842_S2G_bbox.jpg"], "s2g", 0),
        (["street/0842_1_S2G_bbox.jpg"], "s2g", None),
        (["street/0842_2_S2G_bbox.jpg"], "g2s", None),
    ],
)
def test_the_picture_with_the_box_drawn(root, there, direction, taken):
    (root / MARKED_STREET).unlink()
    (root / MARKED_SATELLITE).unlink()
    for name in there:
        put_picture(root / "fov/gs_grounding/bbox_images" / name)
    item = only(read(root, line(asked(level=3), direction=direction), direction=direction))
    if taken is None:
        assert (item.kind, item.category) == ("picture", "level3")
        assert "box drawn" in item.reason
    else:
        assert item.images[0].path == f"fov/gs_grounding/bbox_images/{there[taken]}"


@pytest.mark.parametrize(
    ("fields", "source", "target"),
    [
        ({"source_image": "fov/train_street/0842/1.jpg", "target_image": "fov/test_satellite/0842.jpg"},
         STREET, SATELLITE),
        ({"source_image": None, "street_path": STREET, "target_image": None, "sat_path": SATELLITE},
         STREET, SATELLITE),
        ({"source_image": "gone.jpg", "target_image": "gone.jpg"}, STREET, SATELLITE),
        ({"source_image": None, "target_image": None}, STREET, SATELLITE),
    ],
)  # fmt: skip
def test_pictures_by_path_and_by_naming_rule(root, fields, source, target):
    row = only(read(root, line(asked(), **fields)))
    assert [image.path for image in row.images] == [source, target]


def test_a_target_that_is_missing_is_a_fault_of_pictures(root):
    (root / SATELLITE).unlink()
    item = only(read(root, line(asked())))
    assert (item.kind, "no picture" in item.reason) == ("picture", True)


@pytest.mark.parametrize(
    ("question", "row", "added"),
    [
        ({"region_hint": "bottom-left"}, {}, ["Region of the second picture to look in: bottom-left."]),
        ({"region_hint": "top."}, {}, ["Region of the second picture to look in: top."]),
        ({"region_hint": ""}, {}, []),
        ({"source_bbox": OTHER, "bbox": BOX}, {}, ["inside [1, 2, 30, 40] ("]),
        ({"bbox": OTHER, "input_bbox": BOX}, {}, ["inside [1, 2, 30, 40] ("]),
        ({"input_bbox": OTHER}, {"source_bbox": BOX}, ["inside [1, 2, 30, 40] ("]),
        ({"source_bbox": []}, {"source_bbox": OTHER}, ["inside [1, 2, 30, 40] ("]),
        ({"source_bbox": OTHER, "region_hint": "left"}, {}, ["look in: left.", "inside [1, 2, 30, 40] ("]),
    ],
)
def test_hints_become_sentences_under_the_question(root, question, row, added):
    first, *hints = only(read(root, line(asked(**question), **row))).question.split("\n")
    assert first == "Where?"
    assert len(hints) == len(added)
    assert all(part in hint for part, hint in zip(added, hints, strict=True))


def test_a_flat_row_is_its_own_question(root):
    record = {**line(), **asked(target_bbox=OTHER)}
    del record["questions"]
    row = only(read(root, record))
    assert (row.id.rpartition("/")[2], row.answer) == ("0842_1.1.L4.q0", BOX)


def test_pictures_and_view_come_from_the_row_alone(root):
    put_picture(root / "fov/data/street/0842/2.jpg")
    row = only(read(root, line(asked(view_id=2, source_image="fov/data/street/0842/2.jpg"))))
    assert (row.images[0].path, row.meta["view"]) == (STREET, "1")
