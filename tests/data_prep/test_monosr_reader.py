"""Omni3D files as scenes: what is sound comes through as it is, what is bad is named and never used."""

import json
import pickle
import tracemalloc

import numpy as np
import pytest
from omni3d import CATEGORIES, SAMPLES, K, annotation, changed, image, open_files, open_samples, put_file

from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.monosr import geometry, reader
from data_prep.monosr.filter import Thresholds, observe
from data_prep.monosr.reader import Release, find_annotations

NAN = float("nan")
TURNED = [[1.0, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
MIRRORED = [[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

# What is changed in annotation 7 of image 1 -> what is said of it
BAD_ANNOTATIONS = {
    "NaN in the centre": ({"center_cam": [0.0, NAN, 5.0]}, "center_cam, dimensions or R_cam is not finite"),
    "infinite size": ({"dimensions": [0.5, float("inf"), 0.6]}, "is not finite"),
    "NaN in the rotation": ({"R_cam": [[NAN, 0, 0], [0, 1, 0], [0, 0, 1]]}, "is not finite"),
    "negative size": ({"dimensions": [0.5, -0.9, 0.6]}, "a dimension is zero or negative"),
    "no height": ({"dimensions": [0.5, 0.0, 0.6]}, "a dimension is zero or negative"),
    "sheared": ({"R_cam": TURNED}, "R_cam is no rotation"),
    "mirrored": ({"R_cam": MIRRORED}, "R_cam is no rotation"),
    "another box": ({"bbox3D_cam": [[0, 0, 9]] * 8}, "bbox3D_cam is not the box"),
    "NaN in a corner": ({"bbox3D_cam": [[0, 0, NAN]] * 8}, "bbox3D_cam is not the box"),
    "corners of a rectangle": ({"bbox3D_cam": [[0, 0, 9]] * 4}, "bbox3D_cam is not the box"),
    "NaN in a 2D box": ({"bbox2D_tight": [1.0, NAN, 5.0, 5.0]}, "a 2D box is not finite"),
    "truncation above 1": ({"truncation": 1.5}, "truncation or visibility is neither"),
    "visibility NaN": ({"visibility": NAN}, "truncation or visibility is neither"),
    "no centre": ({"center_cam": None}, "center_cam is not 3 numbers but None"),
    "a flat rotation": ({"R_cam": [1, 0, 0]}, "R_cam is not 3 x 3 numbers but [1, 0, 0]"),
    "text for a number": ({"dimensions": ["0.5", "0.9", "0.6"]}, "dimensions is not 3 numbers but ['0.5'"),
    "no category": ({"category_id": None}, "category_id is no integer but None"),
    "unknown category": ({"category_id": 77}, "its category_id is that of no category (77)"),
    "unknown image": ({"image_id": 55}, "its image_id is that of no image (55)"),
    "id used before": ({"id": 5}, "its id is used twice"),
    "id no number": ({"id": "seven"}, "id is no integer but 'seven'"),
    "a huge id": ({"id": 2**70}, "id is no integer"),
}  # fmt: skip


def sound(image_id=1, first=4, count=3):
    return [annotation(first + i, image_id, center=(i - 1.0, 0.1, 4.0 + i)) for i in range(count)]


@pytest.mark.parametrize(("change", "reason"), BAD_ANNOTATIONS.values(), ids=BAD_ANNOTATIONS)
def test_a_bad_annotation_is_named_and_never_asked_about(tmp_path, change, reason):
    bad = changed(annotation(7, 1), change)
    put_file(tmp_path, [image(1), image(2)], [*sound(), bad, *sound(2, 20)])
    release = open_files(tmp_path)
    (fault,) = release.faults()
    assert (fault.file, fault.line) == ("Omni3D/SUNRGBD_train.json", 4)
    assert reason in fault.reason
    assert fault.id == f"monosr/SUNRGBD_train/annotation {str(bad['id'])[:60]}"
    for judged, expected in zip(
        observe(release.scenes(), Thresholds()), (sound(), sound(2, 20)), strict=True
    ):
        assert judged.scene.ids == tuple(str(a["id"]) for a in expected)
        assert np.isfinite(judged.scene.corners).all()


def test_an_object_without_a_sound_box_is_still_in_the_picture(tmp_path):
    """A second chair makes "the chair" ambiguous, whether or not its box is known."""
    none = dict.fromkeys(("center_cam", "dimensions", "R_cam", "bbox3D_cam"))
    blind = changed(annotation(8, 1, valid3D=False), none)
    unseen = annotation(9, 1, lidar_pts=0, category_id=5)
    put_file(
        tmp_path, [image(1)], [*sound(), changed(annotation(7, 1), {"dimensions": [0, 1, 1]}), blind, unseen]
    )
    release = open_files(tmp_path)
    (scene,) = release.scenes()
    assert scene.categories == ("chair",) * 5 + ("table",)
    assert np.isnan(scene.center[3:]).all()
    assert np.isfinite(scene.center[:3]).all()
    assert len(list(release.faults())) == 1
    assert release.indexes[0].summary["left_out"] == {"fault": 1, "no_3d_box": 1, "unreliable": 1}


BAD_IMAGES = {
    "K missing": ({"K": None}, "K is missing"),
    "K of 2 x 2": ({"K": [[1, 0], [0, 1]]}, "K is not 3 x 3 numbers"),
    "K NaN": ({"K": [[NAN, 0, 1], [0, 500, 1], [0, 0, 1]]}, "K is no camera matrix"),
    "K without a focal length": ({"K": [[0, 0, 1], [0, 500, 1], [0, 0, 1]]}, "K is no camera matrix"),
    "K transposed": ({"K": np.array(K).T.tolist()}, "K is no camera matrix"),
    "no width": ({"width": 0}, "width is no size in pixels but 0"),
    "height in words": ({"height": "480"}, "height is no size in pixels but '480'"),
    "no path": ({"file_path": None}, "file_path is no path but None"),
    "no id": ({"id": None}, "id is no integer but None"),
}


@pytest.mark.parametrize(("change", "reason"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_a_bad_image_is_named_and_gives_no_scene(tmp_path, change, reason):
    put_file(tmp_path, [image(1), changed(image(2), change)], [*sound(), *sound(2, 20)])
    release = open_files(tmp_path)
    faults = list(release.faults())
    assert reason in faults[0].reason
    assert (faults[0].file, faults[0].line) == ("Omni3D/SUNRGBD_train.json", 2)
    assert faults[0].id == f"monosr/SUNRGBD_train/image {'?' if 'id' in change else 2}"
    # Without an id nothing is known to be this image's.
    assert len(faults) == (4 if "id" in change else 1)
    assert [scene.id for scene in release.scenes()] == ["SUNRGBD/1"]


def test_an_image_id_used_twice_gives_no_scene(tmp_path):
    put_file(
        tmp_path, [image(1), image(2), image(2, file_path="pictures/other.png")], [*sound(), *sound(2, 20)]
    )
    release = open_files(tmp_path)
    assert [(f.line, "its id is used twice" in f.reason) for f in release.faults()] == [(2, True), (3, True)]
    assert [scene.id for scene in release.scenes()] == ["SUNRGBD/1"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("pictures/none.png", 'no picture "pictures/none.png"'),
        ("../outside.png", "climbs"),
        ("/etc/hosts", "outside"),
    ],
)
def test_a_picture_that_is_not_there_gives_no_scene(tmp_path, path, reason):
    put_file(tmp_path, [image(1), image(2)], [*sound(), *sound(2, 20)])
    put_file(tmp_path, [image(1), image(2, file_path=path)], [*sound(), *sound(2, 20)], pictures=False)
    release = open_files(tmp_path)
    (fault,) = release.faults()
    assert (fault.id, fault.kind, fault.group) == ("monosr/SUNRGBD/2", "picture", "SUNRGBD/2")
    assert reason in fault.reason
    assert [scene.id for scene in release.scenes()] == ["SUNRGBD/1"]
    assert len(list(open_files(tmp_path, pictures=False).scenes())) == 2


def test_a_file_that_is_cut_short_gives_nothing_and_the_others_go_on(tmp_path):
    broken = put_file(tmp_path, [image(1)], sound())
    put_file(tmp_path, [image(1)], sound(), "Hypersim_train")
    broken.write_bytes(broken.read_bytes()[:-40])
    release = open_files(tmp_path, "SUNRGBD_train", "Hypersim_train")
    (fault,) = release.faults()
    assert (fault.id, fault.file) == ("monosr/SUNRGBD_train/file", "Omni3D/SUNRGBD_train.json")
    assert "the file is cut short" in fault.reason
    assert "Download it again" in fault.reason
    assert [scene.id for scene in release.scenes()] == ["Hypersim/1"]


def test_a_file_without_annotations_is_named(tmp_path):
    put_file(tmp_path, [image(1)], [])
    assert [fault.reason for fault in open_files(tmp_path).faults()] == ["the file has no annotations"]


def test_elements_that_are_no_objects_and_categories_without_names(tmp_path):
    categories = [*CATEGORIES, {"id": 4}, {"id": 3, "name": "stool"}, "sofa"]
    put_file(tmp_path, [image(1), None], [*sound(), 5, [1]], categories=categories)
    release = open_files(tmp_path)
    assert sorted(fault.id.rpartition("/")[2] for fault in release.faults()) == [
        "annotation ?", "annotation ?", "category 3", "category 4", "category ?", "image ?",
    ]  # fmt: skip
    assert [len(scene) for scene in release.scenes()] == [3]


def test_a_scene_holds_what_the_file_says(tmp_path):
    one = annotation(
        5, 1, center=(0.4, 0.2, 6.0), dimensions=(0.5, 0.9, 1.6), visibility=0.75, truncation=0.125
    )
    tight = annotation(6, 1, bbox2D_tight=[300, 200, 900, 300], category_id=9)
    rounded = annotation(7, 1, visibility=1.00001, truncation=-0.00001)
    put_file(tmp_path, [image(1)], [one, tight, rounded])
    (scene,) = open_files(tmp_path).scenes()
    assert (scene.id, scene.source, scene.split, scene.domain) == ("SUNRGBD/1", "SUNRGBD", "train", "indoor")
    assert (scene.image, scene.width, scene.height) == ("pictures/1.png", 640, 480)
    assert (scene.ids, scene.categories) == (("5", "6", "7"), ("chair", "car", "chair"))
    assert scene.K.tolist() == K
    assert scene.size[0].tolist() == [1.6, 0.9, 0.5]
    np.testing.assert_allclose(scene.corners[0], one["bbox3D_cam"])
    assert (scene.visibility[0], scene.truncation[0]) == (0.75, 0.125)
    assert np.isnan([scene.visibility[1], scene.truncation[1]]).all()
    assert (scene.visibility[2], scene.truncation[2]) == (1.0, 0.0)
    np.testing.assert_allclose(scene.box2d[:2], [one["bbox2D_trunc"], [300, 200, 640, 300]])


def test_an_image_without_annotations_is_an_empty_scene(tmp_path):
    put_file(tmp_path, [image(1), image(2), image(3)], sound(2))
    release = open_files(tmp_path)
    assert [len(scene) for scene in release.scenes()] == [0, 3, 0]
    assert [judged.scene and judged.scene.id for judged in observe(release.scenes(), Thresholds())] == [
        None, "SUNRGBD/2", None,
    ]  # fmt: skip
    assert list(release.faults()) == []


def test_any_order_and_any_range_give_the_same_scenes(tmp_path):
    images = [image(i) for i in range(600)]
    annotations = [
        annotation(10 * i + k, i, center=(k - 1.0, 0.0, 5.0 + k)) for i in range(600) for k in range(3)
    ]
    put_file(tmp_path / "a", images, annotations, pictures=False)
    shuffled = [annotations[i] for i in np.random.default_rng(0).permutation(len(annotations))]
    path = put_file(tmp_path / "b", images, shuffled, pictures=False)
    content = json.loads(path.read_text())
    path.write_text(
        json.dumps({key: content[key] for key in ("annotations", "categories", "images", "info")})
    )
    releases = [open_files(tmp_path / name, pictures=False) for name in "ab"]

    def listed(scenes):
        return [(scene.id, sorted(zip(scene.ids, scene.center.tolist(), strict=True))) for scene in scenes]

    whole = listed(releases[0].scenes())
    assert [scene_id for scene_id, _ in whole] == [f"SUNRGBD/{i}" for i in range(600)]
    assert listed(releases[1].scenes()) == whole
    again = pickle.loads(pickle.dumps(releases[1]))
    assert [s for start in range(0, 600, 70) for s in listed(again.scenes(start, start + 70))] == whole


def test_files_are_indexed_by_several_processes_as_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "PARALLEL_FROM", 0)
    names = ["SUNRGBD_train", "KITTI_train", "Hypersim_train"]
    for number, name in enumerate(names):
        put_file(tmp_path, [image(number)], sound(number), name)
    files = [(name.partition("_")[0], f"Omni3D/{name}.json") for name in names]
    done = []
    found = [
        Release(DataRoot(tmp_path), files, tmp_path / str(workers), workers=workers, on_file=done.append)
        for workers in (1, 2)
    ]
    assert [[scene.id for scene in release.scenes()] for release in found] == 2 * [
        ["SUNRGBD/0", "KITTI/1", "Hypersim/2"]
    ]
    assert done == [1, 2, 3, 1, 2, 3]


def test_an_index_is_made_once_for_a_file(tmp_path):
    put_file(tmp_path, [image(1)], sound())
    open_files(tmp_path)
    mark = tmp_path / "index/SUNRGBD_train/mark"
    mark.touch()
    assert [len(scene) for scene in open_files(tmp_path).scenes()] == [3]
    assert mark.exists()
    put_file(tmp_path, [image(1)], sound(count=2))
    assert [len(scene) for scene in open_files(tmp_path).scenes()] == [2]


def test_an_index_that_was_begun_is_made_anew(tmp_path):
    put_file(tmp_path, [image(1)], sound())
    begun = tmp_path / "index/SUNRGBD_train.part"
    begun.mkdir(parents=True)
    (begun / "annotations.bin").write_bytes(b"half")
    assert [len(scene) for scene in open_files(tmp_path).scenes()] == [3]
    assert not begun.exists()


def test_files_are_found_by_source_and_split(tmp_path):
    for name in ("SUNRGBD_train", "SUNRGBD_test", "KITTI_val"):
        put_file(tmp_path, [image(1)], sound(), name)
    root = DataRoot(tmp_path)
    assert find_annotations(root, ["KITTI", "SUNRGBD"], ["train", "val"]) == [
        ("KITTI", "Omni3D/KITTI_val.json"), ("SUNRGBD", "Omni3D/SUNRGBD_train.json"),
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"has no KITTI_test\.json.*data\.sources"):
        find_annotations(root, ["KITTI"], ["test"])
    with pytest.raises(UserError, match="'COCO' is not one of SUNRGBD"):
        find_annotations(root, ["COCO"], ["test"])


@pytest.mark.slow
def test_memory_hardly_grows_with_the_annotations(tmp_path):
    """Ten times the file; held as objects, an annotation would take more than 3 KB."""
    peaks = []
    for count in (4_000, 40_000):
        images = [image(n) for n in range(count // 20)]
        own = annotation(0, 0)
        annotations = [{**own, "id": n, "image_id": n // 20} for n in range(count)]
        root = tmp_path / str(count)
        put_file(root, images, annotations, pictures=False)
        del images, annotations
        tracemalloc.start()
        release = open_files(root, pictures=False)
        assert sum(len(scene) for scene in release.scenes()) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 36_000 < 150  # bytes


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the real samples do not lie beside this checkout")
def test_projected_boxes_of_the_real_samples_meet_the_annotated_ones(tmp_path):
    """The format notes give an IoU of 0.81 to 0.99 over the 97 boxes."""
    release = open_samples(tmp_path)
    assert list(release.faults()) == []
    overlaps = []
    for scene in release.scenes():
        size = np.broadcast_to([scene.width, scene.height], (len(scene), 2))
        ours = geometry.clipped(
            geometry.rectangles(scene.corners, np.broadcast_to(scene.K, (len(scene), 3, 3))), size
        )
        common = geometry.area(geometry.overlap(ours, scene.box2d))
        overlaps.append(common / (geometry.area(ours) + geometry.area(scene.box2d) - common))
    found = np.concatenate(overlaps)
    assert len(found) == 97
    assert found.min() > 0.81
    assert found.mean() > 0.95
    assert {scene.source for scene in release.scenes()} == {"KITTI", "nuScenes", "SUNRGBD"}


def test_a_merged_file_needs_its_sources(tmp_path):
    put_file(tmp_path, [image(1), image(2, dataset_id=8)], [*sound(), *sound(2, 20)])
    release = Release(DataRoot(tmp_path), [({1: "KITTI"}, "Omni3D/SUNRGBD_train.json")], tmp_path / "index")
    assert [scene.id for scene in release.scenes()] == ["KITTI/1"]
    assert [fault.reason for fault in release.faults()] == ["dataset_id 8 is that of no source"]
