"""2D visual prompts: numbered frames drawn on a picture, legible at any size and with many of them.

A frame is a bright line between two black ones, so one of them stands out from whatever is below; it runs
outside its box and hides nothing of the object. Its label is black on the frame's colour. Lines and letters
grow with the picture; where labels would lie on one another they get smaller, and one that finds no place at
its box is tied to it by a line.
"""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from data_prep.atomic import digest, replacing
from data_prep.images import PNG_LEVEL
from data_prep.monosr.auxiliary_layout import Layout, place_labels
from data_prep.rows import ImageRef

ROLE = "numbered"
PALETTE = (
    (255, 235, 60), (80, 235, 255), (255, 165, 220), (150, 255, 90), (255, 170, 60), (150, 200, 255),
    (255, 255, 255), (215, 180, 255), (110, 255, 200), (255, 150, 140),
)  # fmt: skip
"""Colours of the marks 1, 2, ...; each is bright enough for black letters (contrast above 9 to 1)."""
BLACK = (0, 0, 0)
QUALITY = 95
_LETTERS, _LINE = 0.028, 0.0025  # of the geometric mean of the picture's sides
_MIN_LETTERS, _LEAST_LETTERS = 10, 7  # pixels: at first, and where labels must get smaller
_SHRINK = 0.85
_VERSION = 1  # of the drawing: pictures are kept by it


@dataclass(frozen=True)
class Style:
    """Pixels: `letters` is the font's size, `line` the width of the bright line, `rim` of the black ones."""

    letters: int
    line: int
    rim: int
    padding: int


def style_of(width: int, height: int, letters: int | None = None) -> Style:
    """How marks are drawn on a picture of this size."""
    mean = (width * height) ** 0.5
    size = letters or max(_MIN_LETTERS, round(_LETTERS * mean))
    line = max(1, round(_LINE * mean))
    return Style(size, line, max(1, line // 2), max(1, size // 6))


def draw_marks(picture: Image.Image, boxes: np.ndarray) -> tuple[Image.Image, Layout, Style]:
    """A copy of `picture` with the marks 1 to n on `boxes`, where the labels stand, and how it was drawn.

    Args:
        picture: RGB.
        boxes: (n, 4) x1, y1, x2, y2 in pixels of the picture, cut to it.
    """
    boxes = np.clip(boxes, 0, [picture.width, picture.height] * 2)
    layout, style = _laid_out(boxes, picture.width, picture.height)
    marked = picture.copy()
    pen = ImageDraw.Draw(marked)
    # The largest first: a small object's frame lies on top of the one around it.
    for index in np.argsort(-(boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), kind="stable"):
        _frame(pen, boxes[index], _colour(index), style, picture.size)
    for index, label in enumerate(layout.labels):
        _leader(pen, label, boxes[index], _colour(index), style)
    for index, label in enumerate(layout.labels):
        _label(pen, label, str(index + 1), _colour(index), style)
    return marked, layout, style


def marked_picture(image: ImageRef, boxes: np.ndarray, store: Path) -> ImageRef:
    """The picture `image` of `store` with the marks drawn on it, as a file of the same store.

    It is named by a hash of the picture and the marks, so questions on the same objects share it, and what
    is there already is not drawn again.

    Args:
        image: `path` is relative to `store`, as in a prepared row.
        boxes: (n, 4) in pixels of the picture.

    Raises:
        OSError: the picture cannot be read, or its file cannot be written.
    """
    source = image.sha256 or hashlib.sha256((store / image.path).read_bytes()).hexdigest()
    key = digest([_VERSION, source, np.round(boxes, 2).tolist()])
    extension = "png" if image.path.endswith(".png") else "jpg"
    path = f"marks/{key[:2]}/{key}.{extension}"
    if not (store / path).exists():
        with Image.open(store / image.path) as opened:
            marked, _, _ = draw_marks(opened.convert("RGB"), boxes)
        with replacing(store / path) as temporary:
            temporary.write_bytes(_encoded(marked, extension))
    content = (store / path).read_bytes()
    with Image.open(io.BytesIO(content)) as stored:
        width, height = stored.size
    return ImageRef(path, ROLE, hashlib.sha256(content).hexdigest(), width, height)


def _laid_out(boxes: np.ndarray, width: int, height: int) -> tuple[Layout, Style]:
    """Labels as large as the picture allows without one on another; the smallest where they fit best."""
    letters = style_of(width, height).letters
    while True:
        style = style_of(width, height, letters)
        sizes = np.array([_label_size(str(number + 1), style) for number in range(len(boxes))])
        sizes = np.minimum(sizes.reshape(-1, 2), [width, height])
        layout = place_labels(boxes, sizes, width, height)
        if layout.overlap == 0 or letters <= _LEAST_LETTERS:
            return layout, style
        letters = max(_LEAST_LETTERS, int(letters * _SHRINK))


def _label_size(text: str, style: Style) -> tuple[int, int]:
    left, top, right, bottom = _font(style).getbbox(text, anchor="ls")
    around = 2 * (style.padding + style.rim)
    return int(right - left) + around, int(bottom - top) + around


def _font(style: Style) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(style.letters)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font


def _colour(index: int) -> tuple[int, int, int]:
    return PALETTE[index % len(PALETTE)]


def _frame(
    pen: ImageDraw.ImageDraw,
    box: np.ndarray,
    colour: tuple[int, int, int],
    style: Style,
    size: tuple[int, int],
) -> None:
    """Black, bright, black from the outside in; pushed inward only at the picture's own edge."""
    outside = 2 * style.rim + style.line
    x1, y1 = (max(0, int(np.floor(value)) - outside) for value in box[:2])
    x2, y2 = (min(size[i] - 1, int(np.ceil(box[2 + i])) - 1 + outside) for i in (0, 1))
    done = 0
    for width, paint in ((style.rim, BLACK), (style.line, colour), (style.rim, BLACK)):
        if x2 - x1 > 2 * done and y2 - y1 > 2 * done:
            pen.rectangle((x1 + done, y1 + done, x2 - done, y2 - done), outline=paint, width=width)
        done += width


def _leader(
    pen: ImageDraw.ImageDraw, label: np.ndarray, box: np.ndarray, colour: tuple[int, int, int], style: Style
) -> None:
    """A line from a label's middle to the nearest point of its box, where the two are apart."""
    middle = (label[:2] + label[2:]) / 2
    target = np.clip(middle, box[:2], box[2:])
    gap = np.maximum(np.maximum(label[:2] - box[2:], box[:2] - label[2:]), 0)
    if gap.max() <= style.line + 2 * style.rim:
        return
    line = [tuple(middle), tuple(target)]
    pen.line(line, fill=BLACK, width=style.line + 2 * style.rim)
    pen.line(line, fill=colour, width=style.line)


def _label(
    pen: ImageDraw.ImageDraw, label: np.ndarray, text: str, colour: tuple[int, int, int], style: Style
) -> None:
    x1, y1, x2, y2 = (int(value) for value in label)
    pen.rectangle((x1, y1, x2 - 1, y2 - 1), fill=colour, outline=BLACK, width=style.rim)
    font = _font(style)
    left, top, right, bottom = font.getbbox(text, anchor="ls")
    at = (x1 + (x2 - x1 - (right - left)) // 2 - left, y1 + (y2 - y1 - (bottom - top)) // 2 - top)
    pen.text(at, text, fill=BLACK, font=font, anchor="ls")


def _encoded(picture: Image.Image, extension: str) -> bytes:
    content = io.BytesIO()
    if extension == "png":
        picture.save(content, "PNG", compress_level=PNG_LEVEL)
    else:
        picture.save(content, "JPEG", quality=QUALITY, subsampling=0)
    return content.getvalue()


def boxes_in_pixels(box2d: np.ndarray, scene: Sequence[int], picture: Sequence[int]) -> np.ndarray:
    """Boxes (n, 4) of a scene of width and height `scene` in pixels of a stored picture of another size."""
    return box2d * np.array([picture[0] / scene[0], picture[1] / scene[1]] * 2)
