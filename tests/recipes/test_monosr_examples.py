"""The page of examples: which pictures it shows, what it says, and that data cannot break out of it."""

import numpy as np
import pytest
from PIL import Image

from data_prep.monosr.scene import Scene
from data_prep.rows import ImageRef, Row
from recipes.monosr_examples import Examples, drawn, edge_in_picture, write_page

K = np.array([[100.0, 0, 80], [0, 100, 60], [0, 0, 1]])


def scene_of(source: str, number: int) -> Scene:
    center = np.array([[-0.5, 0, 3.0], [0.8, 0.2, 4.0]])
    return Scene(
        f"{source}/{number}", source, "train", "photo.png", 160, 120, K, ("7", "9"), ("lamp", "bed"), center,
        np.full((2, 3), 0.5), np.array([np.eye(3)] * 2), np.array([[50.0, 50, 75, 70], [90, 55, 110, 75]]),
        np.zeros(2), np.ones(2),
    )  # fmt: skip


def row_of(scene: Scene, number: int = 0) -> Row:
    return Row(
        f"monosr/{scene.id}/sr.{number}", "monosr", scene.domain, "sr", "yes_no", scene.id,
        (ImageRef("photo.png", "frame", "", 160, 120),), "Is the <b>bed</b> left of the lamp?", None, "no",
        "yes_no",
        meta={"objects": ["9", "7"], "viewpoint": None},
    )  # fmt: skip


@pytest.fixture
def images(tmp_path):
    Image.new("RGB", (160, 120), (90, 90, 90)).save(tmp_path / "photo.png")
    return tmp_path


def test_every_source_has_its_turn_whatever_the_order(images):
    scenes = [scene_of(source, n) for source in ("KITTI", "SUNRGBD") for n in range(30)]
    one, other = Examples(images, 4), Examples(images, 4)
    for examples, order in ((one, scenes), (other, scenes[::-1])):
        for scene in order:
            for number in range(3):
                examples.add(row_of(scene, number), scene)
    chosen = [example.scene.id for example in one.chosen()]
    assert chosen == [example.scene.id for example in other.chosen()]
    assert [name.split("/")[0] for name in chosen] == ["SUNRGBD", "KITTI"] * 2
    assert all(len(example.rows) == 3 for example in one.chosen())


def test_the_page_has_questions_marks_and_boxes_and_nothing_breaks_out(images):
    examples, scene = Examples(images), scene_of("KITTI", 1)
    examples.add(row_of(scene), scene)
    write_page(examples.chosen(), images / "examples.html")
    page = (images / "examples.html").read_text()
    assert "Is the &lt;b&gt;bed&lt;/b&gt; left of the lamp?" in page
    assert "2, 1" in page, "the objects in the order of the question, by their marks from the left"
    assert "[2] bed: centre (0.80, 0.20, 4.00)" in page
    assert page.count("data:image/jpeg;base64,") == 1
    assert "<script" not in page


def test_edges_behind_the_camera_are_cut(images):
    assert edge_in_picture(np.array([[0, 0, -1.0], [0, 0, -2.0]]), K) is None
    whole = edge_in_picture(np.array([[0, 0, 2.0], [1, 0, 2.0]]), K)
    assert np.allclose(whole, [[80, 60], [130, 60]])
    cut = edge_in_picture(np.array([[0, 0.5, -1.0], [0, 0.5, 1.0]]), K, near=0.1)
    assert np.allclose(cut, [[80, 60 + 500], [80, 60 + 50]])
    picture = np.asarray(drawn(scene_of("KITTI", 1), images / "photo.png"))
    assert (picture != 90).any(axis=-1).mean() > 0.02
