"""Marks on pictures, measured: labels inside, none on another, letters and frames that stand out."""

import numpy as np
import pytest
from monosr_boxes import SAMPLES, random_scene, sample_scenes
from PIL import Image

from data_prep.monosr.auxiliary_marks import PALETTE, draw_marks, style_of

SIZES = [(64, 64), (200, 96), (640, 480), (480, 640), (1242, 375), (4000, 3000)]
GROUNDS = [(0, 0, 0), (255, 255, 255), (128, 128, 128), (255, 235, 60), (150, 40, 40)]


def boxes_in(width: int, height: int, count: int, seed: int, crowded: bool) -> np.ndarray:
    """Random boxes; crowded ones all lie in one tenth of the picture's width and height."""
    rng = np.random.default_rng(seed)
    side = np.array([width, height])
    room, origin = (side * 0.25, side * rng.uniform(0, 0.7)) if crowded else (side, np.zeros(2))
    low = origin + rng.uniform(0, 0.8, (count, 2)) * room
    size = np.maximum(rng.uniform(0.05, 0.5, (count, 2)) * room, 3)
    return np.concatenate([low, np.minimum(low + size, side)], axis=1)


def luminance(rgb: np.ndarray) -> np.ndarray:
    part = np.asarray(rgb, float) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """WCAG's ratio, 1 to 21."""
    a, b = luminance(one) + 0.05, luminance(other) + 0.05
    return np.maximum(a, b) / np.minimum(a, b)


def overlaps(labels: np.ndarray) -> np.ndarray:
    low = np.maximum(labels[:, None, :2], labels[None, :, :2])
    high = np.minimum(labels[:, None, 2:], labels[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(axis=-1)
    np.fill_diagonal(common, 0)
    return common / (labels[:, 2:] - labels[:, :2]).prod(axis=-1)[:, None]


# 40 labels of legible size do not fit into the smallest picture: the next test is about that one.
FITTING = [(size, count) for size in SIZES for count in (1, 7, 40) if (size, count) != ((64, 64), 40)]


@pytest.mark.parametrize(("size", "count"), FITTING)
@pytest.mark.parametrize("crowded", [False, True])
def test_labels_lie_inside_and_apart(size, crowded, count):
    boxes = boxes_in(*size, count, seed=count, crowded=crowded)
    picture, layout, style = draw_marks(Image.new("RGB", size, (128, 128, 128)), boxes)
    assert picture.size == size
    assert layout.labels.min() >= 0
    assert (layout.labels[:, 2:] <= size).all()
    assert overlaps(layout.labels).max() == 0 == layout.overlap
    assert style.letters >= 7
    assert (layout.labels[:, 3] - layout.labels[:, 1]).min() >= style.letters * 0.7


def test_in_a_picture_too_small_for_all_labels_none_is_hidden():
    for seed in range(5):
        boxes = boxes_in(64, 64, 40, seed, crowded=bool(seed % 2))
        _, layout, style = draw_marks(Image.new("RGB", (64, 64)), boxes)
        assert style.letters == 7
        assert overlaps(layout.labels).max() < 0.7
        assert len({tuple(label) for label in layout.labels}) == 40


@pytest.mark.parametrize("ground", GROUNDS)
def test_letters_and_frames_stand_out_from_any_ground(ground):
    boxes = np.array([[100.0, 100, 200, 180], [300, 60, 420, 300]])
    picture, layout, style = draw_marks(Image.new("RGB", (640, 480), ground), boxes)
    pixels = np.asarray(picture)
    for number, (x1, y1, x2, y2) in enumerate(layout.labels):
        inner = pixels[y1 + style.rim : y2 - style.rim, x1 + style.rim : x2 - style.rim].reshape(-1, 3)
        ink, paper = inner[luminance(inner).argmin()], np.array(PALETTE[number])
        assert contrast(ink, paper) > 9
        share = (contrast(inner, paper) > 4.5).mean()
        assert 0.05 < share < 0.7, "a digit is there, and is no blot"
    for number, (_, y1, x2, y2) in enumerate(boxes.astype(int)):
        # Across the right side of the frame, half way down: the best contrast of neighbours in the strip.
        strip = pixels[(y1 + y2) // 2, x2 - 1 : x2 + 2 * style.rim + style.line + 2]
        assert contrast(strip, np.array(ground)).max() > 3
        assert (strip == PALETTE[number]).all(axis=1).sum() >= style.line


def test_every_colour_carries_black_letters():
    assert contrast(np.array(PALETTE), np.zeros(3)).min() > 9
    assert len(set(PALETTE)) == len(PALETTE) == 10


def test_frames_run_outside_and_small_objects_stay_seen():
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (480, 640, 3), dtype=np.uint8))
    boxes = np.array([[200.0, 200, 215, 215], [300, 100, 500, 400]])
    marked, _, _ = draw_marks(picture, boxes)
    for x1, y1, x2, y2 in boxes.astype(int):
        assert (np.asarray(marked)[y1:y2, x1:x2] == np.asarray(picture)[y1:y2, x1:x2]).all()


def test_lines_and_letters_grow_with_the_picture():
    styles = [style_of(side, side) for side in (64, 500, 1000, 2000, 4000)]
    letters = [style.letters for style in styles]
    assert letters == sorted(set(letters))
    assert letters[-1] / 4000 == pytest.approx(letters[-2] / 2000, rel=0.05)
    assert [style.line for style in styles] == sorted(style.line for style in styles)


def test_a_label_far_from_its_box_is_tied_to_it():
    # Nine boxes in one spot: some labels must go elsewhere; from each a line in its colour leads to the box.
    boxes = np.array([[300.0 + i, 200 + i, 330 + i, 230 + i] for i in range(9)])
    picture, layout, style = draw_marks(Image.new("RGB", (640, 480), (128, 128, 128)), boxes)
    pixels, tied = np.asarray(picture), 0
    for number, (label, box) in enumerate(zip(layout.labels, boxes, strict=True)):
        middle = (label[:2] + label[2:]) / 2
        target = np.clip(middle, box[:2], box[2:])
        gap = np.maximum(np.maximum(label[:2] - box[2:], box[:2] - label[2:]), 0).max()
        if gap > style.line + 2 * style.rim:
            steps = middle + np.linspace(0, 1, 200)[:, None] * (target - middle)
            on = pixels[steps[:, 1].astype(int), steps[:, 0].astype(int)]
            assert (on == PALETTE[number]).all(axis=1).mean() > 0.3
            tied += 1
    assert tied


@pytest.mark.parametrize("domain", ["indoor", "outdoor", "object_centric"])
def test_scenes_of_all_domains_are_marked_without_overlap(domain):
    for seed in range(8):
        scene = random_scene(seed, domain, most=30)
        picture = Image.new("RGB", (scene.width, scene.height), (90, 90, 90))
        _, layout, _ = draw_marks(picture, scene.box2d)
        assert len(layout.labels) == len(scene)
        assert layout.overlap == 0


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"the sample pictures are not at {SAMPLES}")
def test_the_real_pictures_are_marked_without_overlap():
    scenes = sample_scenes()
    assert len(scenes) == 10
    for scene in scenes:
        with Image.open(SAMPLES / scene.image) as opened:
            _, layout, style = draw_marks(opened.convert("RGB"), scene.box2d)
        assert layout.overlap == 0
        assert style.letters == style_of(scene.width, scene.height).letters, "nothing had to be made smaller"
