"""Arrows, composites and boxes: geometry reckoned otherwise, constraints, the same bytes every time."""

import itertools
import math
import random

import numpy as np
import pytest
from image_pairs import town
from PIL import Image

from data_prep.cvsbench.annotations import BoxPair, NormalisedBox
from data_prep.generation.arrows import (
    LABEL,
    Arrow,
    NoRoomError,
    Rules,
    drawn_length,
    false_arrows,
    flat_ground,
    without_boxes,
)
from data_prep.generation.composites import SIDE, view_arrow, view_image, with_arrows, with_box
from data_prep.generation.grounding import grounding_row, mark_things, region
from data_prep.generation.pairs import Scene, View
from data_prep.generation.release_folder import ReleaseFolder
from data_prep.generation.viewpoints import viewpoint_rows

RULES = Rules(length=0.2, axis_margin=10.0, separation=0.15, flat_share=0.35)
GREY = Image.new("RGB", (400, 400), (90, 110, 90))


def red(picture, x, y, reach=2):
    """Whether there is pure red within `reach` pixels of (x, y)."""
    left, top = max(0, round(x) - reach), max(0, round(y) - reach)
    area = np.asarray(picture)[top : round(y) + reach + 1, left : round(x) + reach + 1].reshape(-1, 3)
    return bool(((area[:, 0] > 200) & (area[:, 1] < 60) & (area[:, 2] < 60)).any())


@pytest.mark.parametrize(
    ("angle", "step"),
    [(0, (0, -1)), (90, (1, 0)), (180, (0, 1)), (270, (-1, 0)), (45, (0.5**0.5, -(0.5**0.5)))],
)
def test_an_angle_turns_clockwise_from_the_top(angle, step):
    """0.A.1, checked against the pixels: red from the tail to the head, none beyond either."""
    picture = with_arrows(GREY, [(Arrow(0.5, 0.5, angle), 0.2, "")])
    for share in np.linspace(0, 0.2, 20):
        assert red(picture, 200 + 400 * share * step[0], 200 + 400 * share * step[1])
    for share in (-0.03, 0.23):
        assert not red(picture, 200 + 400 * share * step[0], 200 + 400 * share * step[1])
    tip, tail = ((200 + 400 * s * step[0], 200 + 400 * s * step[1]) for s in (0.17, 0.02))
    across = (-step[1], step[0])
    assert red(picture, tip[0] + 4 * across[0], tip[1] + 4 * across[1], 0)  # the head is wide
    assert not red(picture, tail[0] + 6 * across[0], tail[1] + 6 * across[1], 0)  # the tail is not


def test_the_papers_example_arrow_stands_where_its_numbers_say():
    arrow = Arrow(0.79, 0.96, 340.2)
    x, y = arrow.head(0.2)
    turned = complex(0, -0.2) * np.exp(1j * math.radians(340.2))  # the plane's y points down
    assert (x, y) == pytest.approx((0.79 + turned.real, 0.96 + turned.imag))
    picture = with_arrows(GREY, [(arrow, 0.2, "")])
    assert red(picture, 0.79 * 400, 0.96 * 400)
    assert red(picture, x * 400, y * 400)


def test_an_arrow_at_the_rim_is_shortened_or_refused():
    assert drawn_length(Arrow(0.5, 0.5, 33), 0.2) == 0.2
    assert drawn_length(Arrow(0.5, 0.1, 0), 0.2) == pytest.approx(0.1)
    assert drawn_length(Arrow(0.9, 0.5, 90), 0.2) == pytest.approx(0.1)
    with pytest.raises(NoRoomError, match="points out of the picture"):
        drawn_length(Arrow(0.5, 0.02, 0), 0.2)


def annotated(count):
    """(seed, arrow, length, satellite picture) of random annotations whose arrow can be drawn."""
    rng = random.Random(11)
    towns = [town(number) for number in range(20)]
    found = 0
    while found < count:
        arrow = Arrow(rng.random(), rng.random(), rng.uniform(0, 360))
        try:
            length = drawn_length(arrow, RULES.length)
        except NoRoomError:
            continue
        found += 1
        yield found, arrow, length, towns[found % 20]


def to_segment(point, start, end):
    """Distance of a point to a segment, by trying many places on it."""
    places = np.linspace(start, end, 400)
    return float(np.hypot(*(places - point).T).min())


def test_false_arrows_keep_every_constraint_for_500_annotations():
    grounds: dict[int, np.ndarray] = {}
    refused = 0
    for seed, truth, length, picture in annotated(500):
        ground = grounds.setdefault(id(picture), flat_ground(picture, RULES.flat_share))
        try:
            three = false_arrows(truth, length, ground, RULES, random.Random(seed))
        except NoRoomError:
            refused += 1
            continue
        assert len({truth, *three}) == 4
        for arrow in three:
            assert min(abs(arrow.angle % 90 - edge) for edge in (0, 90)) >= RULES.axis_margin
            row, column = int(arrow.y * ground.shape[0]), int(arrow.x * ground.shape[1])
            assert ground[row, column]
            assert all(0 <= v <= 1 for v in (arrow.x, arrow.y, *arrow.head(length)))
            assert all(LABEL <= v <= 1 - LABEL for v in arrow.label())
        for one, other in itertools.permutations([truth, *three], 2):
            assert math.hypot(one.x - other.x, one.y - other.y) >= RULES.separation
            shaft = (np.array([other.x, other.y]), np.array(other.head(length)))
            assert to_segment(np.array(one.label()), *shaft) > LABEL
    assert refused < 10


def test_flat_ground_leaves_out_what_is_cluttered_and_known_things():
    values = np.full((120, 120), 120, dtype=np.uint8)
    values[:, 60:] = np.random.default_rng(0).integers(0, 255, (120, 60))
    ground = flat_ground(Image.fromarray(values), 0.4)
    assert not ground[:, 66:].any()
    assert ground[:, :50].all()
    cut = without_boxes(np.ones((100, 100), dtype=bool), [NormalisedBox(0.1, 0.2, 0.3, 0.4)])
    assert not cut[20:60, 10:40].any()
    assert cut.sum() == 100 * 100 - 40 * 30


def test_where_nothing_is_flat_there_is_no_view_arrow():
    with pytest.raises(NoRoomError, match="no flat ground"):
        false_arrows(Arrow(0.5, 0.5, 20), 0.2, np.zeros((50, 50), dtype=bool), RULES, random.Random(0))


def test_view_arrow_has_the_photo_left_and_the_four_arrows_with_letters_right():
    photo, satellite = Image.new("RGB", (300, 300), (10, 20, 200)), GREY
    arrows = [Arrow(0.3, 0.3, 45), Arrow(0.7, 0.3, 130), Arrow(0.3, 0.75, 30), Arrow(0.7, 0.7, 300)]
    picture = view_arrow(photo, satellite, arrows, 0.2)
    assert picture.size == (2 * SIDE, SIDE)
    left = np.asarray(picture)[:, :SIDE].reshape(-1, 3)
    assert (np.abs(left.astype(int) - (10, 20, 200)).max(axis=1) < 3).all()
    for arrow in arrows:
        for x, y in ((arrow.x, arrow.y), arrow.head(0.2), arrow.label()):
            assert red(picture, SIDE + x * SIDE, y * SIDE, 12)
    swapped = view_arrow(photo, satellite, arrows[::-1], 0.2)
    assert picture.tobytes() != swapped.tobytes()


def test_view_image_has_the_photos_in_their_order_with_letters_below():
    colours = [(200, 30, 30), (30, 200, 30), (30, 30, 200), (200, 200, 30)]
    photos = [Image.new("RGB", (120, 120), colour) for colour in colours]
    picture = view_image(GREY, Arrow(0.5, 0.5, 45), 0.2, photos)
    assert picture.size == (2 * SIDE, SIDE)
    pixels = np.asarray(picture)
    for place, colour in enumerate(colours):
        x, y = SIDE + SIDE // 4 + SIDE // 2 * (place % 2), SIDE // 5 + SIDE // 2 * (place // 2)
        assert tuple(pixels[y, x]) == colour
        below = pixels[
            SIDE // 2 * (place // 2 + 1) - SIDE // 13 : SIDE // 2 * (place // 2 + 1), x - 12 : x + 12
        ]
        assert (below.max(axis=2) < 80).sum() > 10, "no letter"
    assert red(picture, SIDE / 2, SIDE / 2)


def test_a_red_frame_surrounds_the_box_and_leaves_its_inside():
    picture = with_box(GREY, [100, 50, 200, 150])
    pixels = np.asarray(picture)
    assert (pixels[50:150, 100:200] == (90, 110, 90)).all()
    assert all(tuple(pixels[y, x]) == (255, 0, 0) for x, y in ((98, 100), (201, 100), (150, 48), (150, 151)))
    whole = np.asarray(with_box(GREY, [0, 0, 400, 400]))
    assert tuple(whole[0, 0]) == tuple(whole[399, 399]) == (255, 0, 0)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ([0, 0, 10, 10], "top-left"),
        ([45, 45, 55, 55], "center"),
        ([90, 45, 100, 55], "right"),
        ([45, 90, 55, 100], "bottom"),
        ([90, 90, 100, 100], "bottom-right"),
    ],
)
def test_a_region_is_named_after_the_boxs_middle(box, words):
    assert region(box, (100, 100)) == words


def fov_scene(views=4, arrows=True):
    cameras = [Arrow(0.3 + 0.12 * n, 0.4, 30 + 70 * n) for n in range(views)]
    pair = BoxPair("0001_1", 0, NormalisedBox(0.5, 0.25, 0.25, 0.5), NormalisedBox(0, 0, 0.5, 0.5))
    return Scene(
        "fov",
        "0001",
        "fov/data/satellite/0001.jpg",
        tuple(
            View(
                str(n + 1),
                f"fov/data/street/0001/{n + 1}.jpg",
                camera if arrows else None,
                (pair,) * (n == 0),
            )
            for n, camera in enumerate(cameras)
        ),
    )


def pictures_of(scene):
    photos = {
        v.path: Image.new("RGB", (80, 80), (40 * n, 200 - 40 * n, 90)) for n, v in enumerate(scene.views)
    }
    return {scene.satellite: town(1).resize((256, 256)), **photos}


def compose(scene, path, seed=0):
    aside: list = []
    names = {view.name for view in scene.views if view.arrow}
    folder = ReleaseFolder(path)
    rows = viewpoint_rows(scene, names, pictures_of(scene), RULES, seed, folder, aside)
    return rows, aside, {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*.jpg"))}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    scene = fov_scene()
    first, again, other = (compose(scene, tmp_path / n, seed) for n, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert first == again
    assert first[2].keys() == other[2].keys()
    assert first[2] != other[2]


def test_rows_have_the_released_form_and_letters_vary(tmp_path):
    rows, aside, files = compose(fov_scene(), tmp_path)
    assert aside == []
    assert [row["image_path"] for row in rows["arrow_select"]] == [
        f"fov/gs_view/arrow_select/0001_view{n}_L1.jpg" for n in range(1, 5)
    ]
    assert rows["arrow_street"][0]["image_path"] == "fov/gs_view/arrow_street/0001_view1_arrow_sv.jpg"
    assert {row["image_path"] for kind in rows.values() for row in kind} == set(files)
    assert rows["arrow_select"][0]["options"] == ["A: Arrow A", "B: Arrow B", "C: Arrow C", "D: Arrow D"]
    assert rows["arrow_street"][0]["options"] == ["A", "B", "C", "D"]
    letters = [
        row["answer"]
        for seed in range(6)
        for row in compose(fov_scene(), tmp_path / str(seed), seed)[0]["arrow_select"]
    ]
    assert set(letters) == set("ABCD")


def test_view_images_right_letter_is_the_photo_of_the_arrow(tmp_path):
    scene = fov_scene()
    rows, _, _ = compose(scene, tmp_path)
    for row, view in zip(rows["arrow_street"], scene.views, strict=True):
        with Image.open(tmp_path / row["image_path"]) as picture:
            place = "ABCD".index(row["answer"])
            x, y = SIDE + SIDE // 4 + SIDE // 2 * (place % 2), SIDE // 5 + SIDE // 2 * (place // 2)
            shown = picture.getpixel((x, y))
        assert np.abs(np.array(shown) - pictures_of(scene)[view.path].getpixel((5, 5))).max() < 8


def test_view_image_wants_three_photos_from_elsewhere(tmp_path):
    rows, aside, _ = compose(fov_scene(views=3), tmp_path)
    assert (len(rows["arrow_select"]), rows["arrow_street"]) == (3, [])
    assert {item.reason for item in aside} == {
        "the scene has 2 photos from other viewpoints; three are needed"
    }


def test_a_photo_from_the_same_camera_is_no_false_one(tmp_path):
    scene = fov_scene()
    twin = View("9", scene.views[0].path, Arrow(0.301, 0.4, 35))
    scene = Scene(scene.subset, scene.name, scene.satellite, (*scene.views[:3], twin))
    rows, aside, _ = compose(scene, tmp_path)
    assert [row["view_id"] for row in rows["arrow_street"]] == [2, 3]
    assert len(aside) == 2


def test_grounding_rows_answer_in_pixels_of_the_target(tmp_path):
    scene = fov_scene()
    things = mark_things(scene, pictures_of(scene), ReleaseFolder(tmp_path))
    assert [thing.image_id for thing in things] == ["0001_0"]
    names = ("street/0001_0_S2G_bbox.jpg", "satellite/0001_0_G2S_bbox.jpg")
    assert all((tmp_path / "fov/gs_grounding/bbox_images" / name).is_file() for name in names)
    g2s, s2g = (grounding_row("fov", things[0], d, "A house.") for d in ("g2s", "s2g"))
    assert [q["answer"] for q in g2s["questions"]] == [[128.0, 64.0, 192.0, 192.0]] * 2
    assert [q["answer"] for q in s2g["questions"]] == [[0.0, 0.0, 40.0, 40.0]] * 2
    assert [q["level"] for q in g2s["questions"]] == [3, 4]
    assert "in the center region of the satellite image" in g2s["questions"][1]["question"]
    assert "A house." in g2s["questions"][1]["question"]
    assert "A house." not in g2s["questions"][0]["question"]
    assert len(grounding_row("fov", things[0], "g2s", None)["questions"]) == 1
