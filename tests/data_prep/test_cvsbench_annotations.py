"""The paper's annotation files: what is read, what is refused, and the rows that box pairs become."""

import json
import math

import pytest
from miniature import put_picture
from PIL import Image

from data_prep.cvsbench import read_release
from data_prep.cvsbench.annotations import NormalisedBox, Viewpoint, read_viewpoints
from data_prep.errors import UserError
from data_prep.quarantine import Quarantined
from data_prep.rows import Row

# The examples of appendix 0.A.1.
VIEWPOINTS = {"sample_id": "0001", "annotations": [{"view_id": 1, "x": 0.79, "y": 0.96, "angle": 340.2}]}
PAIR = {
    "rs": [{"x": 0.75, "y": 0.33, "w": 0.16, "h": 0.10}],
    "sv": [{"x": 0.19, "y": 0.12, "w": 0.25, "h": 0.16}],
}


def viewpoints(tmp_path, content, name="arrows.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return list(read_viewpoints(path))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (VIEWPOINTS, "arrows.json"),
        ([VIEWPOINTS], "arrows.json"),
        (json.dumps(VIEWPOINTS) + "\n\n", "arrows.jsonl"),
    ],
)
def test_the_papers_viewpoint(tmp_path, content, name):
    [found] = viewpoints(tmp_path, content, name)
    assert found == Viewpoint("0001", "1", 0.79, 0.96, 340.2)
    assert found.position(512, 512) == pytest.approx((404.48, 491.52))


@pytest.mark.parametrize(
    ("angle", "direction"),
    [(0, (0, -1)), (90, (1, 0)), (180, (0, 1)), (270, (-1, 0)), (-90, (-1, 0)), (45, (0.7071, -0.7071))],
)
def test_angles_turn_clockwise_from_the_top(angle, direction):
    [view] = [Viewpoint("1", "1", 0.5, 0.5, angle)]
    assert view.direction == pytest.approx(direction, abs=1e-4)
    assert math.hypot(*view.direction) == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x": 1.2}, "x is a share from 0 to 1, not 1.2"),
        ({"y": -0.1}, "y is a share"),
        ({"y": None}, "y is no number"),
        ({"x": "0.5"}, "x is no number"),
        ({"angle": None}, "angle is no number"),
        ({"angle": True}, "angle is no number"),
        ({"view_id": None}, "no view_id"),
    ],
)
def test_a_faulty_viewpoint_is_set_aside_and_the_rest_is_read(tmp_path, change, reason):
    [good] = VIEWPOINTS["annotations"]
    first, second = viewpoints(tmp_path, [{**VIEWPOINTS, "annotations": [{**good, **change}, good]}])
    assert isinstance(first, Quarantined)
    assert (first.file, first.line) == ("arrows.json", 1)
    assert reason in first.reason
    assert isinstance(second, Viewpoint)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ([1], "entry 1 is not"),
        ([VIEWPOINTS, {"sample_id": "2"}], "entry 2 is not"),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, content, message):
    with pytest.raises(UserError, match=rf"arrows\.json.*{message}"):
        viewpoints(tmp_path, content)


def test_a_viewpoint_without_a_sample(tmp_path):
    [item] = viewpoints(tmp_path, {"annotations": VIEWPOINTS["annotations"]})
    assert "no sample_id" in item.reason


@pytest.mark.parametrize(
    ("box", "size", "pixels"),
    [
        ((0.75, 0.33, 0.16, 0.10), (512, 512), [384.0, 168.96, 465.92, 220.16]),
        ((0, 0, 1, 1), (1232, 224), [0, 0, 1232, 224]),
        ((0.5, 0.5, 0.5004, 0.5), (100, 10), [50, 5, 100, 10]),
    ],
)
def test_shares_become_pixels(box, size, pixels):
    assert NormalisedBox(*box).pixels(*size) == pytest.approx(pixels)


@pytest.fixture
def root(tmp_path):
    put_picture(tmp_path / "fov/data/street/0842/1.jpg", (500, 400))
    put_picture(tmp_path / "fov/data/satellite/0842.jpg", (512, 512))
    put_picture(tmp_path / "cvusa/data/streetview/0000973.jpg", (1232, 224))
    put_picture(tmp_path / "cvusa/data/bingmap/input0000973.png", (370, 370))
    return tmp_path


def rows(root, content, subset="fov", tasks=("gs_grounding",)):
    path = root / subset / "gs_grounding/boxes_train.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return list(read_release(root, [subset], tasks, "train"))


def test_box_pairs_become_rows_of_both_directions(root):
    to_satellite, to_street = rows(root, {"0842_1": PAIR})
    street, satellite = [95, 48, 220, 112], [384.0, 168.96, 465.92, 220.16]
    assert to_satellite.answer == pytest.approx(satellite)
    assert to_street.answer == pytest.approx(street)
    assert to_satellite.question.endswith(
        "inside [95, 48, 220, 112] (x_min, y_min, x_max, y_max in its pixels)."
    )
    assert "[384, 168.96, 465.92, 220.16]" in to_street.question
    assert "street-level photo" in to_satellite.question
    assert "satellite image" in to_street.question
    assert [image.role for image in to_satellite.images] == ["street", "satellite"]
    assert [image.role for image in to_street.images] == ["satellite", "street"]
    assert [r.id for r in (to_satellite, to_street)] == [
        f"cvsbench/fov/gs_grounding/{direction}/0842_1.1.L3.q0" for direction in ("g2s", "s2g")
    ]
    assert {(r.group, r.category, r.answer_type, r.meta["level"]) for r in (to_satellite, to_street)} == {
        ("fov/0842", "level3", "box", 3)
    }


def test_cvusa_pairs_and_one_direction(root):
    [row] = rows(root, {"0000973": PAIR}, "cvusa", ["gs_grounding/s2g"])
    assert row.answer == pytest.approx([234.08, 26.88, 542.08, 62.72])
    assert row.id == "cvsbench/cvusa/gs_grounding/s2g/0000973.NA.L3.q0"
    assert [image.role for image in row.images] == ["satellite", "panorama"]


def test_several_things_in_one_pair_of_pictures(root):
    other = {"x": 0, "y": 0, "w": 0.5, "h": 0.5}
    found = rows(root, {"0842_1": {"rs": [*PAIR["rs"], other], "sv": [*PAIR["sv"], other]}})
    assert [row.id[-2:] for row in found] == ["q0", "q1", "q0", "q1"]
    assert found[1].answer == [0, 0, 256, 256]


def test_a_turned_picture_counts_as_it_will_be_shown(root):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (400, 500)).save(root / "fov/data/street/0842/1.jpg", exif=exif)
    assert rows(root, {"0842_1": PAIR})[1].answer == pytest.approx([95, 48, 220, 112])


@pytest.mark.parametrize(
    ("entry", "kind", "reason"),
    [
        (None, "row", "no lists of boxes"),
        ({"rs": PAIR["rs"]}, "row", "no lists of boxes"),
        ({"rs": [], "sv": []}, "row", "no lists of boxes"),
        ({"rs": PAIR["rs"] * 2, "sv": PAIR["sv"]}, "row", "make no pairs"),
        ({"rs": [None], "sv": PAIR["sv"]}, "row", "a box under rs is an object"),
        ({"rs": PAIR["rs"], "sv": [{"x": 0.1, "y": 0.1, "w": None, "h": 0.1}]}, "row", "w is no number"),
        (
            {"rs": PAIR["rs"], "sv": [{"x": 0.9, "y": 0.1, "w": 0.2, "h": 0.1}]},
            "row",
            "over the picture's edge",
        ),
        ({"rs": PAIR["rs"], "sv": [{"x": 0.9, "y": 0.1, "w": 0, "h": 0.1}]}, "row", "no area"),
        ({"rs": PAIR["rs"], "sv": [{"x": 90, "y": 10, "w": 20, "h": 10}]}, "row", "x is a share"),
    ],
)
def test_faulty_pairs_are_set_aside_and_the_rest_is_read(root, entry, kind, reason):
    faulty, good = rows(root, {"0842_2": entry, "0842_1": PAIR}, tasks=["gs_grounding/g2s"])
    assert isinstance(good, Row)
    assert (faulty.kind, faulty.line, faulty.group) == (kind, 1, "fov/0842")
    assert reason in faulty.reason


def test_a_picture_that_is_missing_or_broken_is_named(root):
    missing, _ = rows(root, {"0842_2": PAIR, "0842_1": PAIR}, tasks=["gs_grounding/g2s"])
    assert (missing.kind, "no picture" in missing.reason) == ("picture", True)
    (root / "fov/data/satellite/0842.jpg").write_bytes(b"cut")
    [broken] = rows(root, {"0842_1": PAIR}, tasks=["gs_grounding/g2s"])
    assert (broken.kind, "0842.jpg cannot be read" in broken.reason) == ("picture", True)


@pytest.mark.parametrize("content", ["[1]", '"text"', "{"])
def test_a_file_that_holds_no_pairs_is_named(root, content):
    with pytest.raises(UserError, match=r"boxes_train\.json"):
        rows(root, content)
