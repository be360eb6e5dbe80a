"""Synthetic Omni3D releases: geometry that is exact, the same for a seed, and read like a real one."""

from itertools import combinations

import numpy as np
import pytest

from data_prep.data_root import DataRoot
from data_prep.monosr import geometry
from data_prep.monosr.filter import REASONS, Thresholds, observe
from data_prep.monosr.reader import Release, find_annotations
from data_prep.monosr.scene import SOURCES, Scene
from data_prep.monosr.synthetic import write_release
from data_prep.monosr.synthetic.render import render
from data_prep.monosr.synthetic.things import THINGS
from data_prep.monosr.synthetic.world import camera, scenes


def read(root, folder, split="train", pictures=True) -> list[Scene]:
    files = find_annotations(DataRoot(root), list(SOURCES), [split])
    release = Release(DataRoot(root), files, folder, pictures)
    assert list(release.faults()) == []
    return list(release.scenes())


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("synthetic")
    write_release(root, 7, {"train": 18, "test": 6}, side=256)
    return root


def test_a_release_reads_without_a_fault(release, tmp_path):
    found = read(release, tmp_path)
    assert len(found) == 18
    assert {scene.domain for scene in found} == {"indoor", "outdoor", "object_centric"}
    assert {scene.source for scene in found} == set(SOURCES)
    assert not {scene.id for scene in found} & {scene.id for scene in read(release, tmp_path / "t", "test")}


def test_the_files_say_what_the_scenes_say(release, tmp_path):
    """Files with pictures and scenes without come from one geometry; visibility is by pixels or by rays."""
    for drawn in read(release, tmp_path):
        number = int(drawn.id.partition("/")[2])
        (told,) = scenes(drawn.source, 7, range(number, number + 1), side=256)
        assert (drawn.id, drawn.ids, drawn.categories) == (told.id, told.ids, told.categories)
        assert (drawn.width, drawn.height, drawn.image) == (told.width, told.height, told.image)
        np.testing.assert_allclose(drawn.corners, told.corners, atol=1e-5)
        np.testing.assert_allclose(drawn.truncation, told.truncation, atol=1e-4)
        large = geometry.area(told.box2d) > 150
        assert np.abs(drawn.visibility - told.visibility)[large].max(initial=0) < 0.15


def test_nothing_of_it_is_inconsistent(release, tmp_path):
    reasons = np.concatenate([j.reasons for j in observe(read(release, tmp_path), Thresholds())])
    assert not {REASONS[n] for n in reasons if n >= 0} & {
        "unusable",
        "too_large",
        "degenerate",
        "inconsistent",
    }
    assert (reasons < 0).sum() > 40


def test_the_same_seed_gives_the_same_bytes_and_more_pictures_change_none(release, tmp_path):
    write_release(tmp_path, 7, {"train": 24, "test": 6}, side=256)
    before = {p.relative_to(release): p.read_bytes() for p in release.rglob("*.png")}
    after = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*.png")}
    assert len(before) == 24
    assert before.items() < after.items()
    tests = "Omni3D/KITTI_test.json"
    assert (release / tests).read_bytes() == (tmp_path / tests).read_bytes()
    other = [s.center for s in scenes("KITTI", 8, range(2))]
    same = [s.center for s in scenes("KITTI", 7, range(2))]
    assert not np.array_equal(other[0], same[0])


def test_a_scene_is_the_same_alone_and_among_others():
    many = list(scenes("SUNRGBD", 3, range(150)))
    for number in (0, 77, 149):
        (alone,) = scenes("SUNRGBD", 3, range(number, number + 1))
        for name in ("center", "size", "R", "box2d", "truncation", "visibility"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(many[number], name))


@pytest.mark.parametrize("source", ["SUNRGBD", "nuScenes"])
def test_no_two_boxes_meet(source):
    """Sampled points of one box lie in no other one; touching is allowed."""
    steps = np.linspace(-0.499, 0.499, 7)
    grid = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(-1, 3)
    met = 0
    for scene in scenes(source, 11, range(12)):
        for i, j in combinations(range(len(scene)), 2):
            points = grid * scene.size[i] @ scene.R[i].T + scene.center[i]
            local = np.abs((points - scene.center[j]) @ scene.R[j])
            met += bool((local < scene.size[j] / 2 - 1e-6).all(1).any())
    assert met == 0


def test_things_stand_upright_on_the_ground_or_on_another():
    """Where the camera's pitch is undone, every box's bottom is the ground or another's top, or it hangs."""
    for scene in scenes("Hypersim", 2, range(10)):
        up = -scene.R[:, :, 1]
        np.testing.assert_allclose(up, np.broadcast_to(up[0], up.shape), atol=1e-9)
        bottoms = scene.center @ up[0] - scene.size[:, 1] / 2
        tops = bottoms + scene.size[:, 1]
        ground = bottoms.min()
        for name, bottom in zip(scene.categories, bottoms, strict=True):
            stands = abs(bottom - ground) < 1e-6 or np.abs(tops - bottom).min() < 1e-6
            assert stands != (name == "ceiling lamp")
        assert 1.1 < -ground < 1.8


def test_every_class_comes_and_some_are_rare():
    seen: dict[str, int] = {}
    for source in SOURCES:
        for scene in scenes(source, 1, range(100)):
            for name in scene.categories:
                seen[name] = seen.get(name, 0) + 1
    assert seen.keys() == {thing.name for things in THINGS.values() for thing in things}
    ranked = sorted(seen.values())
    assert ranked[-1] > 8 * ranked[len(ranked) // 5]


def test_a_rendered_box_is_where_it_projects_and_hides_what_is_behind():
    K, width, height = camera("KITTI", 320)
    center, size = np.array([[0.0, 0, 8], [0.6, 0, 4]]), np.array([[2.0, 1, 1], [1.0, 2, 1]])
    R = np.stack([np.eye(3)] * 2)
    scene = Scene("KITTI/1", "KITTI", "train", "", width, height, K, ("1", "2"), ("car",) * 2, center, size,
                  R, np.zeros((2, 4)), np.zeros(2), np.zeros(2))  # fmt: skip
    rectangles = geometry.rectangles(scene.corners, np.stack([K] * 2))
    shown = geometry.clipped(rectangles, np.array([[width, height]] * 2, float))
    colours = np.array([[200.0, 0, 0], [0, 200, 0]])
    made = render(K, width, height, center, size, R, shown, colours, "outdoor", (np.array([0.0, -1, 0]), 1.5))
    assert made.visibility[1] == 1.0
    assert 0.3 < made.visibility[0] < 0.8
    np.testing.assert_allclose(made.tight[1], shown[1], atol=1.0)
    pixels = made.picture.astype(int)
    green = (pixels[..., 1] > 90) & (pixels[..., 0] == 0)
    red = (pixels[..., 0] > 90) & (pixels[..., 1] == 0)
    columns = np.nonzero(green)[1]
    assert abs(columns.min() - shown[1, 0]) <= 1
    assert abs(columns.max() + 1 - shown[1, 2]) <= 1
    assert abs(red.sum() / (red | green).sum()) > 0.1
    assert columns.min() > np.nonzero(red)[1].min()


def test_annotations_alone(tmp_path):
    """Without pictures: the same boxes, and nothing but the files."""
    write_release(tmp_path, 7, {"train": 12}, draw=False)
    assert {p.suffix for p in tmp_path.rglob("*") if p.is_file()} == {".json"}
    for scene in read(tmp_path, tmp_path / "index", pictures=False):
        number = int(scene.id.partition("/")[2])
        (told,) = scenes(scene.source, 7, range(number, number + 1))
        np.testing.assert_allclose(scene.visibility, told.visibility, atol=1e-4)
        np.testing.assert_allclose(scene.box2d, told.box2d, atol=2e-3)
