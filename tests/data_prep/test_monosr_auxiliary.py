"""Auxiliary information: the variants, numbers that are the scene's, the place in the prompt."""

import re
from dataclasses import replace

import numpy as np
import pytest
from monosr_boxes import SAMPLES, random_scene, sample_scenes, turn
from omegaconf import OmegaConf
from PIL import Image

from data_prep.errors import UserError
from data_prep.monosr.auxiliary import objects_from_left, with_auxiliary
from data_prep.monosr.auxiliary_rows import all_with_auxiliary
from data_prep.monosr.auxiliary_text import box_words, orientation, rotation
from data_prep.monosr.auxiliary_words import MARKS, SCENES, VARIANTS
from data_prep.prompts import build_messages, load_prompt, placeholder_prompt, prompt_of_set, prompt_text
from data_prep.rows import ImageRef, Row
from data_prep.sets import placeholder_fault

PROMPT = OmegaConf.create({"format": "answer_only", "file": None})
OBJECT = re.compile(
    r"(?:\[(?P<number>\d+)\]|-) (?P<name>.+): centre \((?P<centre>[^)]*)\), length (?P<length>[\d.]+), "
    r"height (?P<height>[\d.]+), width (?P<width>[\d.]+), yaw (?P<yaw>-?\d+)"
    r"(?:, pitch (?P<pitch>-?\d+))?(?:, roll (?P<roll>-?\d+))?"
)


def row_of(scene, objects, viewpoint=None, **meta) -> Row:
    return Row(
        id=f"monosr/{scene.id}/pr.0", benchmark="monosr", subset=scene.domain, task="pr", category="yes_no",
        group=scene.id, images=(ImageRef("photo.png", "frame", "", scene.width, scene.height),),
        question="Is it on your left?", options=None, answer="yes", answer_type="yes_no",
        meta={"objects": objects, "viewpoint": viewpoint, "level": "mid", **meta},
    )  # fmt: skip


@pytest.fixture
def scene():
    return random_scene(4, "indoor")


@pytest.fixture
def store(tmp_path, scene):
    Image.new("RGB", (scene.width, scene.height), (90, 120, 60)).save(tmp_path / "photo.png")
    return tmp_path


def lines_of(row: Row) -> list[re.Match]:
    text = row.meta.get("aux", {}).get("text", "")
    return [match for line in text.split("\n") if (match := OBJECT.fullmatch(line))]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_gives_what_its_name_says(variant, scene, store):
    row = row_of(scene, ["102", "100"], ["100", "101"], names=["the red lamp", "the chair"])
    told = with_auxiliary(row, scene, variant, store)
    text = told.meta.get("aux", {}).get("text", "")
    assert (told.images[0].role == "numbered") == ("vp2d" in variant) == (MARKS in text)
    assert (told.images == row.images) == ("vp2d" not in variant)
    assert (SCENES["indoor"] == text) == (variant == "si")
    expected = len(scene) if variant.endswith("_all") else 3 if "bbox3d" in variant else 0
    assert len(lines_of(told)) == expected
    assert ("the red lamp" in text) == (variant not in ("none", "si"))
    same = ("id", "question", "options", "answer", "task", "group", "unit")
    assert all(getattr(told, name) == getattr(row, name) for name in same)
    assert (told == row) == (variant == "none")


def test_numbers_follow_the_question_or_with_all_objects_the_picture(scene, store):
    row = row_of(scene, ["102", "100"], ["100", "101"])
    assert with_auxiliary(row, scene, "vp2d", store).meta["aux"]["objects"] == ["102", "100", "101"]
    told = with_auxiliary(row, scene, "vp2d_bbox3d_all", store)
    other = with_auxiliary(row_of(scene, ["101"]), scene, "vp2d_bbox3d_all", store)
    assert told.images == other.images, "the numbers would tell what is asked about"
    middle = (scene.box2d[:, 0] + scene.box2d[:, 2]) / 2
    left_to_right = [scene.ids[index] for index in np.argsort(middle)]
    assert told.meta["aux"]["objects"] == left_to_right
    assert [int(line["number"]) for line in lines_of(told)] == list(range(1, len(scene) + 1))


@pytest.mark.parametrize("domain", ["indoor", "outdoor", "object_centric"])
@pytest.mark.parametrize("tilt", [0.0, 60.0])
def test_the_numbers_of_the_text_are_the_scenes_at_the_stated_rounding(domain, tilt, store):
    for seed in range(20):
        one = random_scene(seed, domain, tilt=tilt)
        told = with_auxiliary(row_of(one, list(one.ids)), one, "bbox3d", store)
        header = told.meta["aux"]["text"].split("\n")[0]
        step, scale = (0.1, 100) if domain == "object_centric" else (0.01, 1)
        assert f"in {'centimetres' if scale == 100 else 'metres'} rounded to {step}" in header
        lines = lines_of(told)
        assert len(lines) == len(one)
        for index, line in enumerate(lines):
            centre = np.array([float(value) for value in line["centre"].split(", ")])
            size = np.array([float(line[name]) for name in ("length", "height", "width")])
            half = step / 2 + 1e-9
            assert np.abs(centre - one.center[index] * scale).max() <= half
            assert np.abs(size - one.size[index] * scale).max() <= half
            angles = [float(line[name] or 0) for name in ("yaw", "pitch", "roll")]
            assert np.abs(rotation(*angles) - one.R[index]).max() < np.radians(0.5) * 3
            assert line["name"] == one.categories[index]
            if tilt == 0:
                assert line["pitch"] is None
                assert line["roll"] is None


def test_yaw_is_the_direction_of_the_length_seen_from_above():
    # A point on the length axis of a box that is turned by yaw: right at 0, away at 90, towards us at -90.
    for yaw, direction in [(0, (1, 0, 0)), (90, (0, 0, 1)), (-90, (0, 0, -1)), (180, (-1, 0, 0))]:
        assert np.allclose(rotation(yaw, 0, 0) @ [1, 0, 0], direction)
        assert np.allclose(rotation(yaw, 0, 0) @ [0, -1, 0], (0, -1, 0)), "up stays up"
    assert (rotation(0, 30, 0) @ [1, 0, 0])[1] < 0, "pitch rises, and y points down"
    for upright in (90, -90):
        R = turn(1, 33) @ turn(2, upright) @ turn(0, 12)
        assert np.allclose(rotation(*orientation(R)), R)


def test_zero_has_no_sign_and_half_a_turn_has_one_name(scene):
    flat = replace(scene, center=np.full((len(scene), 3), -0.001), R=np.array([turn(1, 179.9)] * len(scene)))
    words = box_words(flat, 0)
    assert "centre (0.00, 0.00, 0.00)" in words
    assert words.endswith("yaw 180")
    assert box_words(replace(flat, R=np.array([turn(1, -179.9)] * len(scene))), 0).endswith("yaw 180")


def test_every_stage_reads_it_at_the_same_place(scene, store):
    told = with_auxiliary(row_of(scene, ["100", "101"]), scene, "vp2d_bbox3d", store)
    prompt = load_prompt(PROMPT, aux="vp2d_bbox3d")
    text = prompt_text(told, prompt)
    assert "You see a photo with numbered marks.\n" + told.meta["aux"]["text"] + "\nIs it on your" in text
    (message,) = build_messages(told, prompt)
    assert message["content"][-1]["text"] == text
    assert placeholder_prompt(told, prompt)[0]["content"] == "<image>" + text
    assert Row.from_json(told.to_json()) == told
    hashes = {load_prompt(PROMPT, aux=aux).hash for aux in VARIANTS}
    assert len(hashes) == len(VARIANTS)
    set_config = OmegaConf.create({"prompt": PROMPT, "data": {"aux": "si"}})
    assert prompt_of_set(set_config) == load_prompt(PROMPT, aux="si")


def test_a_name_that_would_break_the_prompt_is_found(scene, store):
    row = row_of(scene, ["100"], names=["the <image> lamp"])
    assert placeholder_fault(row) is None
    assert "<image>" in (placeholder_fault(with_auxiliary(row, scene, "bbox3d", store)) or "")


@pytest.mark.parametrize(
    ("objects", "variant", "message"),
    [
        (["999"], "bbox3d", "names object 999, which scene SUNRGBD/4 does not have"),
        ([], "vp2d", "names no object"),
        (["100"], "bbox", "data.aux=bbox is unknown"),
        (["100"], "vp2d", "photo.png is not in"),
    ],
)
def test_what_cannot_be_told_is_a_mistake_that_names_the_row(objects, variant, message, scene, tmp_path):
    with pytest.raises(UserError, match=re.escape(message)):
        with_auxiliary(row_of(scene, objects), scene, variant, tmp_path)


def test_pictures_are_drawn_once_and_the_same_everywhere(scene, store, tmp_path_factory):
    row = row_of(scene, ["100", "101"])
    first = with_auxiliary(row, scene, "vp2d", store).images[0]
    drawn = (store / first.path).stat().st_mtime_ns
    again = with_auxiliary(row, scene, "vp2d_bbox3d", store).images[0]
    assert (again, (store / again.path).stat().st_mtime_ns) == (first, drawn)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "photo.png").write_bytes((store / "photo.png").read_bytes())
    assert with_auxiliary(row, scene, "vp2d", elsewhere).images[0] == first
    assert with_auxiliary(row_of(scene, ["101", "100"]), scene, "vp2d", store).images[0].path != first.path
    assert (first.width, first.height) == (scene.width, scene.height)


def test_many_processes_make_what_one_makes_in_the_same_order(scene, store, tmp_path_factory):
    asked = [[one, other] for one in scene.ids for other in scene.ids if one != other][:9]
    rows = [replace(row_of(scene, asked[n % len(asked)]), id=f"monosr/{n}") for n in range(300)]
    items = [("sft", row, scene) for row in rows]
    items[5:5] = items[290:290] = [("", "set aside", None)]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "photo.png").write_bytes((store / "photo.png").read_bytes())
    alone = list(all_with_auxiliary(items, "vp2d", store, 1))
    assert list(all_with_auxiliary(iter(items), "vp2d", elsewhere, 2)) == alone
    assert [item for _, item in alone if isinstance(item, str)] == ["set aside"] * 2
    assert [item.id for _, item in alone if isinstance(item, Row)] == [row.id for row in rows]
    drawn = [sorted(path.name for path in folder.rglob("marks/*/*")) for folder in (store, elsewhere)]
    assert len(drawn[0]) == len(asked)
    assert drawn[0] == drawn[1]


def test_boxes_go_with_a_picture_of_another_size(scene, store):
    half = Image.new("RGB", (scene.width // 2, scene.height // 2), (0, 0, 0))
    half.save(store / "half.png")
    row = row_of(scene, ["100"])
    row = replace(row, images=(ImageRef("half.png", "frame", "", *half.size),))
    marked = np.asarray(Image.open(store / with_auxiliary(row, scene, "vp2d", store).images[0].path))
    lit = np.argwhere(marked.any(axis=-1))
    x1, y1, x2, y2 = scene.box2d[0] / 2
    assert lit.max(axis=0) == pytest.approx([y2, x2], abs=16)
    assert lit.min(axis=0) == pytest.approx([y1, x1], abs=16)


def test_real_boxes_can_be_told():
    if not (scenes := sample_scenes()):
        pytest.skip(f"the sample boxes are not at {SAMPLES}")
    for scene in scenes:
        assert sorted(objects_from_left(scene)) == list(range(len(scene)))
        for index in range(len(scene)):
            assert OBJECT.fullmatch(f"- {scene.categories[index]}: {box_words(scene, index)}")
