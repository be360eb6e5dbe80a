"""Pictures side by side, as CVSBench's evaluation stitches photos and depth maps of symmetry questions."""

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

QUALITY = 95


def side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    """The pictures from left to right, each scaled to the smallest height among them; RGB.

    Raises:
        ValueError: there are none.
    """
    if not pictures:
        raise ValueError("no pictures to put side by side")
    height = min(picture.height for picture in pictures)
    scaled = [_to_height(picture.convert("RGB"), height) for picture in pictures]
    strip = Image.new("RGB", (sum(picture.width for picture in scaled), height))
    left = 0
    for picture in scaled:
        strip.paste(picture, (left, 0))
        left += picture.width
    return strip


def stitched_file(paths: Sequence[Path], lossless: bool) -> tuple[bytes, str]:
    """The files' pictures side by side, encoded, and the extension: PNG where lossless, else JPEG."""
    pictures = []
    for path in paths:
        with Image.open(path) as picture:
            pictures.append(picture.convert("RGB"))
    content = io.BytesIO()
    strip = side_by_side(pictures)
    if lossless:
        strip.save(content, "PNG")
    else:
        strip.save(content, "JPEG", quality=QUALITY, subsampling=0)
    return content.getvalue(), "png" if lossless else "jpg"


def _to_height(picture: Image.Image, height: int) -> Image.Image:
    if picture.height == height:
        return picture
    width = max(1, round(picture.width * height / picture.height))
    return picture.resize((width, height), Image.Resampling.BICUBIC)
