"""Rows that the paper's toolkit drops or asks with other pictures: we read them, and say what it would do."""

import pytest
from miniature import put_picture, put_vqa, question

from data_prep.cvsbench import read_release
from data_prep.rows import Row

STREET, SATELLITE = "fov/data/street/0007/2.jpg", "fov/data/satellite/0007.jpg"
ARROW = "fov/data/satellite_arrow/0007/view_2_annotated.jpg"
PANORAMA, BING = "cvusa/data/streetview/0000001.jpg", "cvusa/data/bingmap/input0000001.png"
MARKED = "fov/gs_grounding/bbox_images/street/0007_1_S2G_bbox.jpg"
COMPOSITES = [f"fov/gs_view/arrow_select/0007_view{view}_L1.jpg" for view in (1, 2)]


@pytest.fixture
def root(tmp_path):
    for name in (STREET, SATELLITE, ARROW, PANORAMA, BING, MARKED, *COMPOSITES):
        put_picture(tmp_path / name)
    for view in (1, 3, 4):
        put_picture(tmp_path / f"fov/data/street/0007/{view}.jpg")
    return tmp_path


def read(root, subset, task, record) -> Row:
    put_vqa(root, subset, task, record)
    [row] = read_release(root, [subset], [task], "test")
    assert isinstance(row, Row), row
    return row


def rules(row: Row) -> list[str]:
    return [found["rule"] for found in row.meta.get("toolkit", ())]


def asked(subset, **fields):
    return question(
        **({"img_id": "0000001"} if subset == "cvusa" else {"sample_id": "0007", "view_id": 2}), **fields
    )


@pytest.mark.parametrize(
    ("subset", "task", "fields", "expected"),
    [
        # seen alike
        ("cvusa", "g2s", {"source_image": PANORAMA}, []),
        ("cvusa", "g2s", {"source_image": "elsewhere/0000001.jpg"}, []),  # found by its name
        ("cvusa", "s2g", {"target_image": BING}, []),
        ("fov", "g2s", {"street_path": STREET}, []),
        ("fov", "g2s", {"street_path": "fov/test_street/0007/2.jpg"}, []),
        ("fov", "g2s", {"street_path": "gone.jpg"}, []),  # sample and view lead there
        ("fov", "s2g", {"sat_path": ARROW}, []),
        ("fov", "s2g", {"sat_path": "gone.jpg"}, []),
        # dropped
        ("cvusa", "s2g", {"target_image": "elsewhere/input0000001.png"}, ["cvusa_s2g_path"]),
        ("cvusa", "g2s", {}, ["no_path"]),
        ("fov", "g2s", {}, ["no_path"]),
        # other pictures
        ("fov", "s2g", {"sat_path": SATELLITE}, ["plain_satellite"]),
    ],
)
def test_single_views(root, subset, task, fields, expected):
    assert rules(read(root, subset, task, asked(subset, **fields))) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"sample_id": "7"}, []),  # the toolkit fills the folder's name with zeros too
        ({"sample_id": None, "id": "0007"}, ["no_picture"]),  # it does not read `id`
        ({"sample_id": "0007_2"}, ["no_picture"]),  # int("0007_2") is 72
    ],
)
def test_the_arrows_folder(root, fields, expected):
    record = {key: value for key, value in {**asked("fov", sat_path="gone.jpg"), **fields}.items() if value}
    row = read(root, "fov", "s2g", record)
    assert row.images[0].path == ARROW
    assert rules(row) == expected


def test_a_null_view_id_hides_the_view(root):
    record = asked("fov", street_path="gone.jpg") | {"view_id": None, "view": 2}
    row = read(root, "fov", "g2s", record)
    assert (row.meta["view"], rules(row)) == ("2", ["no_picture"])


def test_a_photo_numbered_zero_is_sent_too(root):
    everything = asked("fov") | {"view_id": 0}
    assert rules(read(root, "fov", "g2s", everything)) == []
    put_picture(root / "fov/data/street/0007/0.jpg")
    row = read(root, "fov", "g2s", everything)
    assert row.meta["toolkit"] == [
        {"rule": "extra_photo", "toolkit": "sends 0.jpg of fov/data/street/0007 too"}
    ]


def test_view_zero_of_cvusa_sends_the_whole_folder(root):
    row = read(root, "cvusa", "g2s", asked("cvusa", source_image=PANORAMA, view_id=0))
    assert [image.path for image in row.images] == [PANORAMA]
    assert rules(row) == ["view_zero"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"image_path": COMPOSITES[1]}, []),
        ({}, ["other_view"]),  # it takes the sample's first file
        ({"view_id": 1}, []),
        ({"satellite_image": SATELLITE}, ["not_the_composite"]),
        ({"street_path": STREET, "image_path": COMPOSITES[1]}, []),  # image_path goes first
    ],
)
def test_composites(root, fields, expected):
    record = asked("fov", options=["A", "B", "C", "D"]) | fields
    row = read(root, "fov", "gs_view/arrow_select", record)
    assert row.images[0].path == COMPOSITES[int(record["view_id"]) - 1]
    assert rules(row) == expected


@pytest.mark.parametrize(
    ("fields", "level", "expected"),
    [
        ({}, 3, []),
        ({}, 4, []),
        ({}, "3", ["level_text"]),
        ({"dataset": None}, 3, ["boxed_picture"]),  # it looks in the other subset's folder
        ({"img_id": "0007_9"}, 3, ["boxed_picture"]),
        ({"img_id": None, "sample_id": "0007_1"}, 3, ["boxed_picture"]),
        ({"target_image": "elsewhere/0007.jpg"}, 4, ["grounding_path"]),
        ({"source_image": "gone.jpg"}, 4, ["grounding_path"]),
        ({"source_image": "gone.jpg"}, 3, []),  # the boxed picture stands in for it
        ({"task": None}, 4, []),
    ],
)
def test_grounding(root, fields, level, expected):
    record = {
        "img_id": "0007_1", "view_id": 2, "task": "Ground2Sat_5level", "dataset": "fov",
        "source_image": STREET, "target_image": SATELLITE,
        "questions": [{"level": level, "question": "?", "answer": [1, 2, 5, 6]}],
    } | fields  # fmt: skip
    if fields.get("img_id") == "0007_9":
        put_picture(root / MARKED.replace("0007_1_S2G", "0007_9_G2S"))
    record = {key: value for key, value in record.items() if value is not None}
    assert rules(read(root, "fov", "gs_grounding/g2s", record)) == expected


def test_a_direction_that_only_the_file_tells_is_missed(root):
    record = {
        "img_id": "0007_1", "view_id": 2, "dataset": "fov", "source_image": SATELLITE, "target_image": STREET,
        "questions": [{"level": 4, "question": "?", "answer": [1, 2, 5, 6]}],
    }  # fmt: skip
    assert rules(read(root, "fov", "gs_grounding/s2g", record)) == ["direction"]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [((None, None, None), [0, 1, 1]), ((0, 1, 2), [0, 0, 0]), ((None, 7, None), [0, 0, 1]), ((None,), [0])],
)
def test_questions_without_a_number_share_a_key_when_the_toolkit_resumes(root, numbers, expected):
    put_vqa(root, "fov", "g2s", *(asked("fov", street_path=STREET, q_index=number) for number in numbers))
    found = [rules(row) for row in read_release(root, ["fov"], ["g2s"], "test")]
    assert found == [["resume_collision"] if collides else [] for collides in expected]


def test_nested_questions_and_other_views_share_no_key(root):
    nested = {"sample_id": "0007", "view_id": 2, "street_path": STREET, "questions": [question(), question()]}
    other = question(sample_id="0007", view_id=3, street_path="fov/data/street/0007/3.jpg")
    put_vqa(root, "fov", "g2s", nested, other)
    assert [rules(row) for row in read_release(root, ["fov"], ["g2s"], "test")] == [[]] * 3
