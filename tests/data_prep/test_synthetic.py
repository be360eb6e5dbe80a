"""The synthetic release: answers true of the pictures, reasoning that passes the reward's own checks."""

import json
import random

import numpy as np
import pytest

from data_prep.cvsbench import read_release
from data_prep.data_root import DataRoot
from data_prep.rows import Row
from data_prep.synthetic import draw, questions, write_release
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
