"""The synthetic release: answers true of the pictures, reasoning that passes the reward's own checks."""

import hashlib
import json
import random

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from data_prep.cvsbench import read_release
from data_prep.data_root import DataRoot
from data_prep.rows import Row
from data_prep.synthetic import composites, draw, pairs, questions, write_release
from data_prep.synthetic.release import _places
from data_prep.synthetic.scene import COLOURS, draw_scene
from rewards import check_format, compute_score


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("release")
    write_release(root, seed=3, train_groups=40, test_groups=20)
    return root


def rows_of(root, split):
    items = list(read_release(DataRoot(root), ["cvusa", "fov"], ["g2s", "s2g"], split))
    assert all(isinstance(item, Row) for item in items), items
    return items


def files(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_the_same_arguments_give_the_same_bytes(release, tmp_path):
    write_release(tmp_path, seed=3, train_groups=40, test_groups=20)
    assert files(tmp_path) == files(release)


def test_the_reader_takes_every_question(release):
    train, test = rows_of(release, "train"), rows_of(release, "test")
    assert (len(train), len(test)) == (180, 90)
    assert not {r.group for r in train} & {r.group for r in test}
    assert {(r.subset, r.task) for r in train} == {
        ("cvusa", "g2s"),
        ("cvusa", "s2g"),
        ("fov", "g2s"),
        ("fov", "s2g"),
    }


@pytest.mark.parametrize("response_format", ["imagination_cot", "structured_cot"])
def test_the_oracle_is_paid_in_full(release, response_format):
    lines = (release / "teacher" / f"{response_format}.jsonl").read_text().splitlines()
    taught = {record["id"]: record["reasoning"] for record in map(json.loads, lines)}
    for row in rows_of(release, "train"):
        assert check_format(taught[row.id], response_format, "full"), taught[row.id]
        extra = {"options": row.options, "response_format": response_format}
        assert compute_score("cvsbench", taught[row.id], row.answer, extra)["score"] == 1.0


def pixels_of(picture, colour):
    """Positions (x, y) of pixels whose colour is nearest to `colour`, within a small distance."""
    distance = np.abs(np.asarray(picture, dtype=int) - COLOURS[colour]).sum(axis=2)
    rows, columns = np.nonzero(distance < 30)
    return list(zip(columns.tolist(), rows.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_true_of_the_drawn_pictures(seed):
    """An oracle that looks at pixels only, not at the scene's fields, comes to the same answers."""
    scene = draw_scene(random.Random(seed))
    rng = random.Random(seed)
    top = draw.satellite(scene)
    red = pixels_of(top, "red")
    x, y = (sum(values) / len(red) - draw.SATELLITE_SIZE / 2 for values in zip(*red, strict=True))
    side = (2 if y > 0 else 0) if abs(y) > abs(x) else (1 if x > 0 else 3)
    assert questions.location(scene, rng, 1).answer == "ACDB"[side]

    blue = pixels_of(top, "blue")
    bx, by = (sum(values) / len(blue) - draw.SATELLITE_SIZE / 2 for values in zip(*blue, strict=True))
    for view, (dx, dy) in enumerate(((0, -1), (1, 0), (0, 1), (-1, 0)), start=1):
        ahead, right = bx * dx + by * dy, bx * -dy + by * dx
        expected = ("C" if ahead > 0 else "D") if abs(ahead) > abs(right) else ("B" if right > 0 else "A")
        assert questions.relative_position(scene, rng, view).answer == expected

    around = draw.panorama(scene)
    heights = {}
    for colour in ("red", "blue"):
        rows = [py for _, py in pixels_of(around, colour)]
        heights[colour] = max(rows) - min(rows)
    nearer = "A" if heights["red"] > heights["blue"] else "B"
    assert questions.distance_to_camera(scene, rng, 1).answer == nearer


def test_every_letter_that_a_class_offers_occurs():
    letters: dict[str, set[str]] = {}
    for seed in range(300):
        rng = random.Random(seed)
        scene = draw_scene(rng)
        for maker in (*questions.CVUSA, *questions.FOV):
            question = maker(scene, rng, rng.randint(1, 4))
            letters.setdefault(question.category, set()).add(question.answer)
    assert letters == {
        "location": set("ABCD"), "vegetation": set("ABCD"), "distance_to_camera": set("AB"),
        "roof_form": set("ABCD"), "relative_position": set("ABCD"), "vegetation_sector": set("ABCD"),
        "facade": set("AB"), "symmetry": set("AB"),
    }  # fmt: skip


PAIRS = ("gs_grounding", "gs_view")
SIZES = {"seed": 3, "train_groups": 40, "test_groups": 20}
# Of the JSON lines of `write_release(root, **SIZES)`; how pictures are encoded is the library's affair.
TEXTS = "a9d0cee7a79c53dd425576c914060da3d074e537590871429cdc2078f13a00ef"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same release with grounding and viewpoint tasks."""
    root = tmp_path_factory.mktemp("whole")
    write_release(root, **SIZES, tasks=["g2s", *PAIRS])
    return root


def pair_rows(root, split):
    items = list(read_release(DataRoot(root), ["cvusa", "fov"], PAIRS, split))
    assert all(isinstance(item, Row) for item in items), items
    return items


def test_the_questions_of_the_default_release_stay_what_they_are(release):
    found = hashlib.sha256()
    for name, content in files(release).items():
        if name.endswith(".jsonl"):
            found.update(name.encode() + b"\0" + content)
    assert found.hexdigest() == TEXTS


def test_more_tasks_change_no_file_that_is_there_without_them(release, whole):
    before, after = files(release), files(whole)
    for name, content in before.items():
        if name.startswith("teacher/"):
            assert after[name].startswith(content)
        else:
            assert after[name] == content, name
    added = {name.split("/")[1] for name in after.keys() - before.keys()}
    assert added == {"gs_grounding", "gs_view", "data"}


def test_a_task_asked_for_alone_is_the_same_as_with_the_other(whole, tmp_path):
    write_release(tmp_path, **SIZES, tasks=["ge_view"])
    alone, both = files(tmp_path), files(whole)
    assert "fov/gs_view/arrow_select_train.jsonl" in alone
    assert not any("gs_grounding" in name for name in alone)
    assert all(both[name] == content for name, content in alone.items() if not name.startswith("teacher/"))


@pytest.mark.parametrize(("split", "groups"), [("train", 40), ("test", 20)])
def test_the_reader_takes_every_grounding_and_viewpoint_question(whole, split, groups):
    counts: dict[tuple[str, ...], int] = {}
    for row in pair_rows(whole, split):
        key = (row.subset, row.category, row.meta.get("direction", ""))
        counts[key] = counts.get(key, 0) + 1
    assert counts == {
        **{(subset, level, direction): groups // 2 for subset in ("cvusa", "fov")
           for level in ("level3", "level4") for direction in ("g2s", "s2g")},
        ("fov", "view_arrow", ""): groups // 2,
        ("fov", "view_image", ""): groups // 2,
    }  # fmt: skip


@pytest.mark.parametrize("response_format", ["imagination_cot", "structured_cot"])
def test_the_oracle_of_grounding_and_viewpoints_is_paid_in_full(whole, response_format):
    lines = (whole / "teacher" / f"{response_format}.jsonl").read_text().splitlines()
    taught = {record["id"]: record["reasoning"] for record in map(json.loads, lines)}
    for row in pair_rows(whole, "train"):
        extra = {"answer_type": row.answer_type, "options": row.options, "response_format": response_format}
        paid = compute_score("cvsbench", taught[row.id], row.answer, extra, format_mode="full")
        assert paid["score"] == 1.0, (row.id, taught[row.id])


def shown_box(picture, colour):
    columns, rows = zip(*pixels_of(picture, colour), strict=True)
    return [min(columns), min(rows), max(columns), max(rows)]


def test_boxes_are_true_of_the_pictures(whole):
    """The building named in the description, found by its colour, fills the box of the answer, and the box
    that is drawn in red and stated stands around it in the source picture."""
    rows = [row for row in pair_rows(whole, "train") if row.answer_type == "box"]
    described = {row.id.replace("L4.q1", "L3.q0"): row for row in rows if row.category == "level4"}
    assert len(described) == len(rows) / 2 == 80
    for row in rows:
        if row.category == "level4":
            continue
        colour = described[row.id].question.split('"A ')[1].split()[0]
        marked, target = (Image.open(whole / image.path).convert("RGB") for image in row.images)
        assert shown_box(target, colour) == pytest.approx(row.answer, abs=2.5)
        stated = json.loads(row.question.split("inside ")[1].split(" (")[0])
        plain = Image.open(whole / described[row.id].images[0].path).convert("RGB")
        assert shown_box(plain, colour) == pytest.approx(stated, abs=2.5)
        drawn = np.abs(np.asarray(marked, int) - composites.RED).sum(axis=2) < 90
        ys, xs = np.nonzero(drawn & (np.abs(np.asarray(plain, int) - composites.RED).sum(axis=2) >= 90))
        assert [xs.min(), ys.min(), xs.max(), ys.max()] == pytest.approx(stated, abs=1.5)


def asked_views(seed):
    """(scene, record, composite) of every viewpoint question of a small release."""
    places = [place for place, _ in _places(seed, 60, 0)]
    for place, asked in pairs.ask(places, seed, ["gs_view"]):
        [picture] = asked.pictures.values()
        yield place.scene, asked.record, picture


def test_the_answer_of_view_image_is_the_photo_of_the_arrows_view():
    letters = set()
    for scene, record, picture in asked_views(5):
        if record["task"] != "arrow_street":
            continue
        letters.add(record["answer"])
        heading, side = record["view_id"] - 1, draw.SATELLITE_SIZE
        assert picture.crop((0, 0, side, side)).tobytes() == draw.satellite(scene, heading).tobytes()
        same = []
        for place, letter in enumerate("ABCD"):
            x, y = side + place % 2 * 48, place // 2 * 62
            photo = draw.street_photo(scene, heading).resize((48, 48))
            if picture.crop((x, y, x + 48, y + 48)).tobytes() == photo.tobytes():
                same.append(letter)
        assert same == [record["answer"]]
    assert letters == set("ABCD")


def test_the_answer_of_view_arrow_is_the_letter_at_the_tail_of_the_photos_view():
    letters = set()
    for scene, record, picture in asked_views(5):
        if record["task"] != "arrow_select":
            continue
        letters.add(record["answer"])
        heading = record["view_id"] - 1
        width = draw.PHOTO_SIZE[0]
        assert picture.crop((0, 0, *draw.PHOTO_SIZE)).tobytes() == draw.street_photo(scene, heading).tobytes()
        dx, dy = ((0, -1), (1, 0), (0, 1), (-1, 0))[heading]
        tail = (width + 48 + 9 * dx, 48 + 9 * dy)
        red = np.abs(np.asarray(picture, int) - (255, 0, 0)).sum(axis=2) < 200
        covered = {}
        for letter in "ABCD":
            glyph = Image.new("L", picture.size)
            ImageDraw.Draw(glyph).text(tail, letter, fill=255, anchor="mm", font=ImageFont.load_default(12))
            covered[letter] = red[np.asarray(glyph) > 150].mean()
        assert max(covered, key=covered.__getitem__) == record["answer"], covered
        assert covered[record["answer"]] == 1.0
    assert letters == set("ABCD")
