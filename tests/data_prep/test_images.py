"""Clean pictures: one pixel array whatever the file's mode, tag or format; refusals; resuming."""

import io
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from data_prep.images import MAX_PIXELS, PictureError, clean, clean_all

ORIENTATION = 0x0112


def encode(image: Image.Image, form: str = "PNG", **options) -> bytes:
    content = io.BytesIO()
    image.save(content, form, **options)
    return content.getvalue()


def noise(size=(12, 8), seed=0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


# What Pillow reports of a JPEG's own header.
JPEG_HEADER = {"jfif", "jfif_version", "jfif_unit", "jfif_density", "progressive", "progression"}


def pixels(content: bytes) -> np.ndarray:
    """The cleaned pixels, with every property that all clean pictures share checked on the way."""
    encoded, extension, width, height = clean(content)
    image = Image.open(io.BytesIO(encoded))
    image.load()
    assert image.format == {"jpg": "JPEG", "png": "PNG"}[extension]
    assert (image.mode, image.size) == ("RGB", (width, height))
    assert not image.getexif()
    assert not set(image.info) - JPEG_HEADER
    assert clean(encoded) == (encoded, extension, width, height)
    return np.asarray(image)


def rgba(alpha: int) -> Image.Image:
    image = noise().convert("RGBA")
    image.putalpha(alpha)
    return image


WHITE = np.full((8, 12, 3), 255, dtype=np.uint8)
GREY = noise().convert("L")
PALETTE = noise().quantize(8)
DEEP = Image.fromarray((np.arange(96, dtype=np.uint16) * 680).reshape(8, 12))


def grey_as_rgb(image: Image.Image) -> np.ndarray:
    return np.repeat(np.asarray(image)[:, :, None], 3, axis=2)


KINDS = {
    "RGB": (encode(noise()), np.asarray(noise())),
    "RGB BMP": (encode(noise(), "BMP"), np.asarray(noise())),
    "RGB WEBP": (encode(noise(), "WEBP", lossless=True), np.asarray(noise())),
    "1": (encode(GREY.convert("1")), grey_as_rgb(GREY.convert("1").convert("L"))),
    "L": (encode(GREY), grey_as_rgb(GREY)),
    "LA opaque": (encode(Image.merge("LA", (GREY, Image.new("L", GREY.size, 255)))), grey_as_rgb(GREY)),
    "LA clear": (encode(Image.merge("LA", (GREY, Image.new("L", GREY.size, 0)))), WHITE),
    "P": (encode(PALETTE), np.asarray(PALETTE.convert("RGB"))),
    "P clear": (encode(PALETTE, transparency=bytes(256)), WHITE),
    "RGB one clear colour": (encode(Image.new("RGB", (12, 8), (1, 2, 3)), transparency=(1, 2, 3)), WHITE),
    "RGBA opaque": (encode(rgba(255)), np.asarray(noise())),
    "RGBA clear": (encode(rgba(0)), WHITE),
    "RGBA WEBP clear": (encode(rgba(0), "WEBP", lossless=True), WHITE),
    "CMYK": (
        encode(noise().convert("CMYK"), "JPEG", quality=100, subsampling=0),
        np.asarray(
            Image.open(
                io.BytesIO(encode(noise().convert("CMYK"), "JPEG", quality=100, subsampling=0))
            ).convert("RGB")
        ),
    ),
    "I;16": (encode(DEEP), grey_as_rgb(Image.fromarray(((np.asarray(DEEP) + 128) // 257).astype(np.uint8)))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_mode_becomes_rgb_on_white(kind):
    content, expected = KINDS[kind]
    assert np.array_equal(pixels(content), expected)


def test_half_transparent_pixels_are_mixed_with_white():
    black = Image.new("RGBA", (4, 4), (0, 0, 0, 51))
    assert {tuple(pixel) for pixel in pixels(encode(black)).reshape(-1, 3)} == {(204, 204, 204)}


def test_16_bit_white_stays_white_and_black_black():
    ends = Image.fromarray(np.array([[0, 65535]] * 4, dtype=np.uint16))
    assert np.array_equal(pixels(encode(ends))[:, :, 0], [[0, 255]] * 4)


STORED_FOR = {  # orientation tag -> what a camera stores so that the tag makes the picture upright
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("tag", STORED_FOR)
def test_orientations_1_to_8_give_one_pixel_array(tag, form):
    # Flat quarters of 16 pixels survive JPEG's blocks in every orientation.
    quarters = np.kron(np.array([[0, 80], [160, 240]], dtype=np.uint8), np.ones((16, 32), dtype=np.uint8))
    upright = Image.fromarray(np.repeat(quarters[:, :, None], 3, axis=2))
    stored = upright if STORED_FOR[tag] is None else upright.transpose(STORED_FOR[tag])
    exif = Image.Exif()
    exif[ORIENTATION] = tag
    options = {
        "exif": exif,
        **({"quality": 100} if form == "JPEG" else {"lossless": True} if form == "WEBP" else {}),
    }
    got = pixels(encode(stored, form, **options)).astype(int)
    assert got.shape == (32, 64, 3)
    assert np.abs(got - np.asarray(upright)).max() <= 1


def text_chunk() -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    info.add_text("owner", "somebody@example.org")
    return info


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (encode(noise(), "JPEG"), True),
        (encode(noise(), "JPEG", progressive=True), True),
        (encode(noise()), True),
        (encode(noise(), "JPEG", comment="taken by somebody"), False),
        (encode(noise(), "JPEG", icc_profile=b"profile"), False),
        (encode(noise(), "JPEG") + b"trailing", False),
        (encode(noise().convert("L"), "JPEG"), False),
        (encode(noise(), pnginfo=text_chunk()), False),
        (encode(noise(), icc_profile=b"profile"), False),
        (encode(noise()) + b"trailing", False),
        (encode(noise(), "WEBP"), False),
    ],
)
def test_clean_files_keep_their_bytes_and_no_others_do(content, kept):
    before = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    assert np.array_equal(pixels(content), before)
    assert (clean(content)[0] == content) is kept


def png_of_declared_size(width: int, height: int) -> bytes:
    """A PNG whose header promises more pixels than it holds."""
    content = bytearray(encode(noise()))
    content[16:24] = width.to_bytes(4) + height.to_bytes(4)
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"GIF89a", "no picture"),
        (b"<html>404</html>", "no picture"),
        (encode(noise(), "TIFF"), "no picture"),
        (encode(noise((64, 64)))[:-400], "cannot be decoded"),
        (encode(noise((64, 64)), "JPEG")[:-400], "cannot be decoded"),
        (encode(noise())[:20], "no picture|cannot be decoded"),
        (encode(noise((1, 1))), "too few"),
        (encode(noise((1, 8))), "too few"),
        (encode(noise((402, 2))), "200 times"),
        (encode(noise((2, 402)), "JPEG"), "200 times"),
        (png_of_declared_size(9000, 9000), "more than"),
        (png_of_declared_size(30_000, 30_000), "too many pixels"),
    ],
)  # fmt: skip
def test_refused_pictures(content, message):
    with pytest.raises(PictureError, match=message):
        clean(content)


def test_the_widest_picture_that_is_taken():
    assert clean(encode(noise((400, 2))))[2:] == (400, 2)
    assert MAX_PIXELS < 9000 * 9000


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=8),
    st.floats(0.05, 1),
)
def test_damaged_files_are_cleaned_or_refused_never_fatal(kind, changes, share):
    content = bytearray(KINDS[kind][0])
    for place, value in changes:
        content[place % len(content)] = value
    try:
        encoded, _, width, height = clean(bytes(content[: max(1, round(share * len(content)))]))
    except PictureError:
        return
    assert Image.open(io.BytesIO(encoded)).size == (width, height)


@pytest.fixture
def folder(tmp_path):
    """Three readable pictures, two of them alike, and a broken one."""
    for name, seed in (("a.png", 1), ("b.jpg", 2), ("sub/same.png", 1)):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        noise(seed=seed).save(tmp_path / "root" / name)
    (tmp_path / "root/broken.png").write_bytes(b"\x89PNG")
    return tmp_path


NAMES = ["a.png", "broken.png", "b.jpg", "sub/same.png", "absent.png"]


def run(folder: Path, names=NAMES):
    done = []
    results = clean_all(folder / "root", names, folder / "images", folder / "images.jsonl", done.append)
    assert done[-1] == len(names)
    return results


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_store_is_named_by_content(folder):
    results = run(folder)
    assert list(results) == NAMES
    assert isinstance(results["broken.png"], PictureError)
    assert "No such file" in str(results["absent.png"])
    assert results["a.png"] == results["sub/same.png"]
    assert results["a.png"].path == f"{results['a.png'].sha256[:2]}/{results['a.png'].sha256}.png"
    assert (results["a.png"].width, results["a.png"].height) == (12, 8)
    assert len(tree(folder / "images")) == 2


def test_a_second_run_decodes_nothing_and_changes_nothing(folder, monkeypatch):
    first, before = run(folder), tree(folder)
    monkeypatch.setattr("data_prep.images.clean", lambda content: pytest.fail("decoded again"))
    names = [name for name in NAMES if name != "broken.png"]
    assert {name: run(folder, names)[name] for name in names[:-1]} == {
        name: first[name] for name in names[:-1]
    }
    assert tree(folder) == before


@pytest.mark.parametrize("harm", ["store", "source", "log"])
def test_what_no_longer_holds_is_done_again(folder, harm):
    before = run(folder)
    stored = folder / "images" / before["a.png"].path
    if harm == "store":
        stored.write_bytes(b"")
    elif harm == "source":
        noise(seed=9).save(folder / "root/a.png")
    else:
        log = folder / "images.jsonl"
        log.write_bytes(log.read_bytes()[:-20])
    (stored.parent / ".half.part").write_bytes(b"left by a kill")
    after = run(folder)
    assert (after["a.png"] == before["a.png"]) is (harm != "source")
    assert after["b.jpg"] == before["b.jpg"]
    shown = np.asarray(Image.open(folder / "images" / after["a.png"].path))
    assert np.array_equal(shown, np.asarray(noise(seed=9 if harm == "source" else 1)))
    assert not list((folder / "images").glob("*/.*"))


def test_a_mended_picture_is_tried_again(folder):
    run(folder)
    noise(seed=5).save(folder / "root/broken.png")
    assert not isinstance(run(folder)["broken.png"], PictureError)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: no worker processes are started")
def test_worker_processes_give_the_same_and_end_with_a_killed_parent(tmp_path):
    picked = random.Random(0)
    root = tmp_path / "root"
    root.mkdir()
    names = [f"{number}.png" for number in range(240)]
    for name in names:
        noise((96, 96), seed=picked.randrange(2**30)).convert("RGBA").save(root / name, compress_level=1)
    code = (
        "import sys, pathlib; from data_prep.images import clean_all; base = pathlib.Path(sys.argv[1]);"
        "clean_all(base / 'root', [f'{n}.png' for n in range(240)], base / 'images', base / 'images.jsonl')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    child = subprocess.Popen(command, start_new_session=True)
    while not (tmp_path / "images").exists():
        assert child.poll() is None
        time.sleep(0.02)
    workers = [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/stat") if parent_of(p) == child.pid]
    assert workers
    child.send_signal(signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
    subprocess.run(command, check=True, timeout=60)
    alone = clean_all(root, names, tmp_path / "alone", tmp_path / "alone.jsonl")
    assert tree(tmp_path / "images") == tree(tmp_path / "alone")
    assert (tmp_path / "images.jsonl").read_bytes() == (tmp_path / "alone.jsonl").read_bytes()
    assert len({picture.sha256 for picture in alone.values()}) == len(names)


def parent_of(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
