"""Viewpoint rows: the composite by every key, by view and by name, and options of both forms."""

import pytest
from miniature import put_picture, put_vqa

from data_prep.cvsbench import read_release
from data_prep.cvsbench.pictures import COMPOSITE_KEYS
from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef

LETTERS = ["A", "B", "C", "D"]
ARROWS = [f"{letter}: Arrow {letter}" for letter in LETTERS]
PLAIN = ("fov/data/street/0007/2.jpg", "fov/data/satellite/0007.jpg")


@pytest.fixture
def root(tmp_path):
    for name in PLAIN:
        put_picture(tmp_path / name)
    return tmp_path


def asked(**fields):
    record = {"sample_id": "0007", "view_id": 2, "question": "Which?", "options": ARROWS, "answer": "B"}
    return {key: value for key, value in {**record, **fields}.items() if value is not None}


def read(root, *records, part="arrow_select"):
    put_vqa(root, "fov", f"gs_view/{part}", *records)
    return list(read_release(root, ["fov"], [f"gs_view/{part}"], "test"))


def only(items):
    assert len(items) == 1, items
    return items[0]


@pytest.mark.parametrize(
    ("part", "options", "texts", "end", "category"),
    [
        ("arrow_select", ARROWS, [f"Arrow {letter}" for letter in LETTERS], "L1", "view_arrow"),
        ("arrow_street", LETTERS, LETTERS, "arrow_sv", "view_image"),
    ],
)
def test_a_row_in_full(root, part, options, texts, end, category):
    path = f"fov/gs_view/{part}/0007_view2_{end}.jpg"
    put_picture(root / path)
    row = only(read(root, asked(options=options, category="anything"), part=part))
    assert row.id == f"cvsbench/fov/gs_view/{part}/0007.2.q0"
    assert (row.task, row.category, row.group, row.answer) == ("gs_view", category, "fov/0007", "B")
    assert row.options == dict(zip(LETTERS, texts, strict=True))
    assert row.images == (ImageRef(path, "composite"),)


def test_both_parts_are_read_and_their_ids_differ(root):
    for part, end in (("arrow_select", "L1"), ("arrow_street", "arrow_sv")):
        put_picture(root / f"fov/gs_view/{part}/0007_view2_{end}.jpg")
        put_vqa(root, "fov", f"gs_view/{part}", asked())
    rows = list(read_release(root, ["cvusa", "fov"], ["gs_view"], "test"))
    assert [row.category for row in rows] == ["view_arrow", "view_image"]
    assert len({row.id for row in rows}) == 2


@pytest.mark.parametrize("key", COMPOSITE_KEYS)
def test_every_key_may_name_the_composite(root, key):
    put_picture(root / "elsewhere/0007.png")
    row = only(read(root, asked(**{key: "elsewhere/0007.png"})))
    assert row.images[0].path == "elsewhere/0007.png"


@pytest.mark.parametrize("earlier", range(len(COMPOSITE_KEYS) - 1))
def test_the_first_key_that_leads_to_a_composite_decides(root, earlier):
    for name in ("one.jpg", "two.jpg"):
        put_picture(root / name)
    first, second = COMPOSITE_KEYS[earlier : earlier + 2]
    assert only(read(root, asked(**{second: "two.jpg", first: "one.jpg"}))).images[0].path == "one.jpg"
    assert only(read(root, asked(**{second: "two.jpg", first: "gone.jpg"}))).images[0].path == "two.jpg"
    assert only(read(root, asked(**{second: "two.jpg", first: PLAIN[0]}))).images[0].path == "two.jpg"


@pytest.mark.parametrize(
    ("there", "fields", "taken"),
    [
        # The naming rules, in their order; the extension does not matter.
        (["0007_view2_L1.jpg", "0007_2_L1.jpg"], {}, "0007_view2_L1.jpg"),
        (["0007_2_L1.png"], {}, "0007_2_L1.png"),
        (["0007_view2_L1.webp"], {}, "0007_view2_L1.webp"),
        (["0007_view2_L1.jpg"], {"sample_id": 7}, "0007_view2_L1.jpg"),
        (["0007_view2_L1.jpg"], {"sample_id": "0007_3"}, "0007_view2_L1.jpg"),
        (["0007_view2_L1.jpg"], {"sample_id": None, "img_id": "0007"}, "0007_view2_L1.jpg"),
        # Of files that only begin alike, the one of the view.
        (["0007_view1_L1.jpg", "0007_view2_other.jpg"], {}, "0007_view2_other.jpg"),
        (["0007_view20_L1.jpg", "0007_view2.jpg"], {}, "0007_view2.jpg"),
        (["0007_view1_L1.jpg", "0007_view3_L1.jpg"], {}, None),
        (["0007_view20_L1.jpg"], {}, None),
        (["00072_view2_L1.jpg"], {}, None),
        # A path string that is out of date still names the file.
        (["mine.jpg"], {"image_path": "/data/gs_view/arrow_select/mine.jpg"}, "mine.jpg"),
        # A plain photograph or satellite picture is no composite.
        (["0007_view2_L1.jpg"], {"street_path": PLAIN[0], "satellite_image": PLAIN[1]}, "0007_view2_L1.jpg"),
        (["0007_view2_L1.jpg"], {"source_image": "fov/test_street/0007/2.jpg"}, "0007_view2_L1.jpg"),
    ],
)
def test_the_composite_of_the_view_is_found(root, there, fields, taken):
    for name in there:
        put_picture(root / "fov/gs_view/arrow_select" / name)
    item = only(read(root, asked(**fields)))
    if taken is None:
        assert (item.kind, item.category) == ("picture", "view_arrow")
        assert "none for view 2" in item.reason
    else:
        assert item.images[0].path == f"fov/gs_view/arrow_select/{taken}"


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"image_path": PLAIN[0]}, "picture", f"'{PLAIN[0]}' is one view of it"),
        ({"image_path": "../x.jpg"}, "picture", "climbs"),
        ({"options": None}, "row", "options"),
        ({"answer": "E"}, "row", "not among the options"),
        ({"answer": None}, "row", "no answer"),
    ],
)
def test_what_is_set_aside(root, fields, kind, reason):
    item = only(read(root, asked(**fields)))
    assert isinstance(item, Quarantined)
    assert item.kind == kind
    assert reason in item.reason


def test_nested_questions(root):
    put_picture(root / "fov/gs_view/arrow_select/0007_view2_L1.jpg")
    nested = [{"question": "Which?", "options": ARROWS, "answer": letter} for letter in "AC"]
    rows = read(root, {"sample_id": "0007", "view": 2, "questions": nested})
    assert [(row.id[-2:], row.answer) for row in rows] == [("q0", "A"), ("q1", "C")]
