"""Fingerprints: the same scene in another file is recognised, another scene is not."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_prep.fingerprints import fingerprint, fingerprint_all, look_alikes
from data_prep.images import PictureError

PAIRS = Path(__file__).parents[3] / "shared/samples/crossview/cvusa_crossnet"


def photograph(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    rng = np.random.default_rng(seed)
    shapes = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(size, Image.BICUBIC)
    noise = rng.integers(-12, 13, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.asarray(shapes) + noise, 0, 255).astype(np.uint8))


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    content = io.BytesIO()
    image.save(content, "JPEG", quality=quality)
    return Image.open(content).convert("RGB")


def alike(one: Image.Image, other: Image.Image) -> bool:
    return bool(list(look_alikes([fingerprint(one)], [fingerprint(other)])))


@pytest.mark.parametrize("seed", range(5))
def test_another_file_of_the_same_picture_looks_alike(seed):
    picture = photograph(seed)
    assert alike(picture, jpeg(picture, 60))
    assert alike(picture, picture.resize((400, 300), Image.BICUBIC))
    assert alike(picture, jpeg(picture.resize((107, 80)), 80))
    brighter = Image.fromarray((np.asarray(picture).astype(int) + 3).clip(0, 255).astype(np.uint8))
    assert alike(picture, brighter)


def test_other_pictures_do_not_look_alike():
    prints = [fingerprint(photograph(seed)) for seed in range(60)]
    assert list(look_alikes(prints[:30], prints[30:])) == []
    assert not alike(photograph(1), photograph(1).transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    assert not alike(photograph(1), photograph(1).rotate(180))


def test_plain_pictures_of_two_colours_do_not_look_alike():
    """A gradient hash alone takes them for one."""
    red, blue = (Image.new("RGB", (64, 64), colour) for colour in ("red", "blue"))
    assert fingerprint(red).gradients == fingerprint(blue).gradients
    assert not alike(red, blue)
    assert alike(red, Image.new("RGB", (20, 20), "red"))


def test_the_content_tells_pixels_not_files():
    picture = photograph(3)
    png = io.BytesIO()
    picture.save(png, "PNG")
    assert fingerprint(Image.open(png).convert("RGB")).content == fingerprint(picture).content
    assert fingerprint(jpeg(picture, 95)).content != fingerprint(picture).content
    halves = Image.new("RGB", (4, 2)), Image.new("RGB", (2, 4))
    assert fingerprint(halves[0]).content != fingerprint(halves[1]).content


def test_pairs_come_for_every_two_of_many():
    """More pictures than one block compares at once, each with its twin at the mirrored place."""
    first = [fingerprint(photograph(seed, (24, 18))) for seed in range(700)]
    assert list(look_alikes(first, first[::-1])) == [(n, 699 - n) for n in range(700)]
    assert list(look_alikes(first, [])) == list(look_alikes([], first)) == []


@pytest.mark.skipif(not PAIRS.is_dir(), reason=f"the sample pictures are not at {PAIRS}")
def test_real_places_do_not_look_alike_and_a_place_again_does():
    views = [Image.open(path).convert("RGB") for path in sorted(PAIRS.glob("*.jpg"))]
    turned = [view.rotate(angle) for view in views if view.width == view.height for angle in (90, 180, 270)]
    prints = [fingerprint(view) for view in [*views, *turned]]
    assert len(prints) > 20
    assert list(look_alikes(prints, prints)) == [(n, n) for n in range(len(prints))]
    again = [fingerprint(jpeg(view.resize((view.width // 2, view.height // 2)), 60)) for view in views]
    assert list(look_alikes(prints[: len(views)], again)) == [(n, n) for n in range(len(views))]


def test_files_are_decoded_to_the_end_and_faults_are_told(tmp_path):
    for number in range(230):  # enough for worker processes
        photograph(number, (20, 16)).save(tmp_path / f"{number}.png")
    whole = (tmp_path / "7.png").read_bytes()
    (tmp_path / "7.png").write_bytes(whole[: len(whole) // 2])
    names = [f"{number}.png" for number in range(230)] + ["absent.png"]
    done: list[int] = []
    found = fingerprint_all(tmp_path, names, done.append)
    assert list(found) == names
    assert done[-1] == len(names)
    faults = {name: str(f) for name, f in found.items() if isinstance(f, PictureError)}
    assert faults.keys() == {"7.png", "absent.png"}
    assert faults["absent.png"].startswith("cannot be read")
    assert found["3.png"] == fingerprint(photograph(3, (20, 16)))
