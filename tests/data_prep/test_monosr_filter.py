"""The observability filter: every limit, which stage an object falls at, and a report that adds up."""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from omni3d import SAMPLES, K, annotation, image, open_files, open_samples, put_file
from PIL import Image

from data_prep.errors import UserError
from data_prep.monosr import geometry
from data_prep.monosr.filter import REASONS, Judged, Thresholds, observe
from data_prep.monosr.filter_report import FilterTally, write_report
from data_prep.monosr.scene import Scene, project
from data_prep.monosr.synthetic.world import scenes

THREE = [annotation(i, 1, center=(1.2 * i - 2.4, 0.1, 5.0)) for i in (1, 2, 3)]


def judge(tmp_path, annotations, source="SUNRGBD", **limits) -> list[Judged]:
    put_file(tmp_path, [image(1)], annotations, f"{source}_train")
    release = open_files(tmp_path, f"{source}_train")
    return list(observe(release.scenes(), Thresholds(**limits)))


def fallen(judged: Judged) -> dict[str, str]:
    return {
        i: REASONS[number] for i, number in zip(judged.full.ids, judged.reasons, strict=True) if number >= 0
    }


# A fourth annotation -> why it falls, None where it stays
FOURTH = {
    "as the others": ({}, None),
    "cut off by a third": ({"truncation": 0.35}, None),
    "cut off by half": ({"truncation": 0.45}, "truncated"),
    "cut off, by its projection": ({"center": (2.55, 0.1, 4.0)}, "truncated"),
    "half hidden": ({"visibility": 0.45}, None),
    "hidden": ({"visibility": 0.35}, "occluded"),
    "behind another one": ({"center": (0.0, 0.1, 8.0)}, "occluded"),
    "far away": ({"center": (0.6, -12.0, 40.0)}, "small"),
    "around the camera": ({"center": (0.0, 0.5, 0.2)}, "behind_camera"),
    "without a box": ({"valid3D": False}, "unusable"),
    "21 m long": ({"center": (30.0, 0.0, 60.0), "dimensions": (1, 1, 21), "yaw": 0.0}, "too_large"),
    "flat": ({"center": (0.6, -0.8, 5.0), "dimensions": (0.5, 0.005, 0.6)}, "degenerate"),
    "seen elsewhere": ({"bbox2D_tight": [10, 10, 90, 120], "center": (0.6, -1.0, 5)}, "inconsistent"),
    "far wider in 2D": ({"bbox2D_tight": [300, 30, 500, 250], "center": (0.6, -1.0, 5)}, "inconsistent"),
    "a third of it seen, and known to be hidden": (
        {"bbox2D_tight": [350, 95, 382, 190], "center": (0.6, -1.0, 5), "visibility": 0.45}, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), FOURTH.values(), ids=FOURTH)
def test_an_object_falls_at_its_stage(tmp_path, change, reason):
    fourth = annotation(4, 1, **{"center": (0.6, -1.0, 5.0), **change})
    (judged,) = judge(tmp_path, [*THREE, fourth])
    assert fallen(judged) == ({} if reason is None else {"4": reason})
    assert judged.scene.ids == (("1", "2", "3", "4") if reason is None else ("1", "2", "3"))
    assert judged.full.ids == ("1", "2", "3", "4")


def test_limits_are_configuration(tmp_path):
    half = annotation(4, 1, center=(0.6, -1.0, 5.0), truncation=0.45)
    (judged,) = judge(tmp_path, [*THREE, half], max_truncation=0.5)
    assert fallen(judged) == {}
    (judged,) = judge(tmp_path, [*THREE, half], min_objects=4)
    assert fallen(judged) == {"1": "too_few", "2": "too_few", "3": "too_few", "4": "truncated"}
    assert judged.scene is None
    (judged,) = judge(tmp_path, THREE, max_objects=3, min_objects=3)
    assert len(judged.scene) == 3
    (judged,) = judge(tmp_path, THREE, max_objects=2, min_objects=1)
    assert set(fallen(judged).values()) == {"too_many"}


def test_an_object_centric_picture_holds_one(tmp_path):
    (one,) = judge(tmp_path, THREE[:1], "Objectron")
    assert one.scene.ids == ("1",)
    (two,) = judge(tmp_path / "two", THREE[:2], "Objectron")
    assert set(fallen(two).values()) == {"too_many"}


@pytest.mark.parametrize(
    "limits", [{"max_truncation": 1.5}, {"min_area": -1}, {"min_objects": 9, "max_objects": 8}]
)
def test_limits_out_of_range_are_refused(limits):
    with pytest.raises(UserError, match=r"data\.observability"):
        Thresholds(**limits)


def test_what_becomes_of_a_scene_depends_on_no_other():
    found = [s for source in ("SUNRGBD", "KITTI", "Objectron") for s in scenes(source, 5, range(12))]
    blind = [replace(s, visibility=np.full(len(s), np.nan)) for s in found]
    together = [j.reasons.tolist() for j in observe(blind, Thresholds())]
    alone = [next(observe([s], Thresholds())).reasons.tolist() for s in blind]
    assert together == alone
    assert {number for reasons in together for number in reasons} >= {-1, REASONS.index("occluded")}


def test_hidden_shares_are_those_of_pixels():
    """A near box hides a known part of a far one: its right half, to a ray."""
    center = np.array([[0.0, 0.0, 10.0], [1.0, 0.0, 5.0]])
    size = np.array([[2.0, 2.0, 0.01], [2.0, 4.0, 0.01]])
    R = np.stack([np.eye(3)] * 2)
    cameras = np.stack([np.array(K)] * 2)
    corners = Scene("KITTI/1", "KITTI", "train", "", 640, 480, cameras[0], ("1", "2"), ("car",) * 2, center,
                    size, R, np.zeros((2, 4)), np.zeros(2), np.zeros(2)).corners  # fmt: skip
    shown = geometry.rectangles(corners, cameras)
    shares = geometry.seen_shares(
        np.zeros(2, int), cameras, shown, center, size, R, np.ones(2, bool), rays=20
    )
    assert shares.tolist() == [0.5, 1.0]


RAYS = {
    "straight at the middle": ((0, 0, 1), 4.0, 2),
    "at an edge of the front": ((0.2, 0, 1), 4.0, 2),
    "past the side, along it": ((0.3, 0, 1), np.inf, None),
    "over the top": ((0, -0.4, 1), np.inf, None),
    "the other way": ((0, 0, -1), np.inf, None),
}


@pytest.mark.parametrize(("ray", "depth", "axis"), RAYS.values(), ids=RAYS)
@pytest.mark.parametrize("yaw", [0, 180])
def test_where_a_ray_enters_a_box(ray, depth, axis, yaw):
    """A box of 2 x 2 x 2 metres at 5 m, whose faces are square to the camera: rays run along its axes."""
    c = np.cos(np.radians(yaw))
    turned = np.array([[c, 0, 0], [0, 1, 0], [0, 0, c]])
    found, face = geometry.entry(
        np.array([[ray]], float), np.array([[0.0, 0, 5]]), np.full((1, 3), 2.0), turned[None]
    )
    assert found[0, 0] == depth
    assert axis is None or face[0, 0] == axis


def test_a_ray_from_inside_a_box_enters_nothing():
    found, _ = geometry.entry(
        np.array([[[0.0, 0, 1]]]), np.zeros((1, 3)), np.full((1, 3), 2.0), np.eye(3)[None]
    )
    assert np.isinf(found).all()


def test_the_report_adds_up_and_shows_examples(tmp_path):
    judged = judge(tmp_path, [*THREE, annotation(4, 1, center=(0.6, -1.0, 5.0), truncation=0.9)])
    tally = FilterTally()
    for one in judged:
        tally.add(one)
    for scene in scenes("KITTI", 5, range(30)):
        tally.add(next(observe([scene], Thresholds())))
    summary = tally.summary(Thresholds(), {"SUNRGBD": {"fault": 2}})
    for part in (*summary["sources"].values(), summary["all"]):
        fell = sum(
            count for stage in ("visibility", "quality", "complexity") for count in part[stage].values()
        )
        assert part["objects"] == part["objects_left"] + fell
    assert summary["sources"]["SUNRGBD"]["visibility"]["truncated"] == 1
    assert summary["all"]["pictures"] == 31
    write_report(
        tmp_path / "out", tally, summary, lambda name: (tmp_path / name) if "pictures/" in name else None
    )
    assert json.loads((tmp_path / "out/observability.json").read_text()) == summary
    page = (tmp_path / "out/observability.md").read_text()
    assert "| truncated | 1 |" in page.replace("  ", " ")
    assert "![SUNRGBD/1](observability/truncated-1.jpg)" in page
    with Image.open(tmp_path / "out/observability/truncated-1.jpg") as picture:
        colours = np.asarray(picture.convert("RGB")).astype(int).reshape(-1, 3)
    red, green = (abs(colours - np.array(c)).sum(1) < 60 for c in ((225, 40, 40), (40, 170, 60)))
    assert red.sum() > 100
    assert green.sum() > 100


def test_pairs_that_are_too_close_for_a_relation_are_counted():
    full = next(scenes("Hypersim", 5, range(1)))
    judged = Judged(full, np.where(np.arange(len(full)) == 0, 1, -1), {})  # the first one fell
    pixels = project(full.center, full.K)[1:]
    apart = [math.dist(one, other) for one, other in itertools.combinations(pixels, 2)]
    limit = sorted(apart)[len(apart) // 3]
    tally = FilterTally(limit)
    tally.add(judged)
    staged = tally.summary(Thresholds(), {})["all"]
    assert staged["pairs"] == len(apart)
    assert staged["pairs_close"] == len(apart) // 3
    assert tally.categories == Counter(full.categories[1:])


def test_tallies_merge_in_any_order():
    names = ("Hypersim", "SUNRGBD", "KITTI", "nuScenes")
    judged = [next(observe([s], Thresholds())) for name in names for s in scenes(name, 5, range(20))]
    whole = FilterTally()
    parts = [FilterTally() for _ in range(3)]
    for number, one in enumerate(judged):
        whole.add(one)
        parts[number % 3].add(one)
    merged = FilterTally()
    for part in reversed(parts):
        merged.merge(part)
    assert merged.counts == whole.counts
    assert merged.categories == whole.categories
    names = [{r: [j.full.id for j in found] for r, found in tally.shown()} for tally in (merged, whole)]
    assert names[0] == names[1]
    assert [i.partition("/")[0] for i in names[0]["occluded"]] == ["SUNRGBD", "nuScenes", "Hypersim"]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the real samples do not lie beside this checkout")
def test_the_real_samples(tmp_path):
    """Looked at: what falls as occluded stands behind a truck or a barrier, what is truncated is cut off."""
    found = list(observe(open_samples(tmp_path).scenes(), Thresholds()))
    assert sum(len(j.full) for j in found) == 97
    assert {j.full.id: len(j.scene) for j in found if j.scene} == {
        "KITTI/2": 5, "nuScenes/3": 27, "nuScenes/4": 10, "nuScenes/6": 7, "nuScenes/8": 4,
    }  # fmt: skip
    assert {reason for j in found for reason in fallen(j).values()} == {"truncated", "occluded", "too_few"}
    for j in (j for j in found if j.scene):
        inside = project(j.scene.center, j.scene.K)
        assert ((inside > -50) & (inside < (j.scene.width + 50, j.scene.height + 50))).all()
