"""The pictures that are drawn from annotations: one arrow, View-Arrow, View-Image, a red box.

View-Arrow is the street photo on the left and the satellite picture with four red arrows, letters at their
tails, on the right; View-Image is the satellite picture with one red arrow on the left, and two by two street
photos with letters below them on the right (CVSBench figure 9). The same arguments give the same pixels.
"""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont, ImageOps

from data_prep.generation.arrows import LABEL, Arrow, Point

RED, HALO, INK, PAPER = (255, 0, 0), (255, 255, 255), (0, 0, 0), (255, 255, 255)
SIDE = 512  # pixels of one half of a composite
LETTERS = "ABCD"
_FINE = 4  # arrows are drawn this much larger and scaled down, for smooth edges
# Shares of the picture's smaller side.
_SHAFT, _HEAD, _HEAD_HALF, _RIM = 1 / 128, 1 / 24, 1 / 55, 1 / 256


def with_arrows(
    satellite: Image.Image, arrows: Sequence[tuple[Arrow, float, str]], label_size: float = 0.09
) -> Image.Image:
    """The picture with red arrows on it.

    Args:
        arrows: arrow, its length as a share of the picture's sides, and its letter ("" for none).
        label_size: height of a letter as a share of the picture's smaller side.
    """
    picture = satellite.convert("RGB")
    font = ImageFont.load_default(size=label_size * min(picture.size) * _FINE)
    for arrow, length, letter in arrows:
        _draw_arrow(picture, arrow, length, letter, font)
    return picture


def _draw_arrow(
    picture: Image.Image, arrow: Arrow, length: float, letter: str, font: ImageFont.FreeTypeFont
) -> None:
    """Shaft from the tail, a head whose tip is the arrow's end, the letter; all with a white rim.

    Only the part of the picture around the arrow is drawn large.
    """
    size, side = picture.size, min(picture.size) * _FINE
    points = [(arrow.x, arrow.y), arrow.head(length), arrow.label()]
    margin = max(_HEAD_HALF + _RIM, 1.5 * LABEL)
    corner = [max(0, int((min(p[k] for p in points) - margin) * size[k])) for k in (0, 1)]
    end = [min(size[k], int((max(p[k] for p in points) + margin) * size[k]) + 1) for k in (0, 1)]
    tail, tip, label = (tuple((p[k] * size[k] - corner[k]) * _FINE for k in (0, 1)) for p in points)
    layer = Image.new("RGBA", ((end[0] - corner[0]) * _FINE, (end[1] - corner[1]) * _FINE))
    pen = ImageDraw.Draw(layer)
    for colour, rim in ((HALO, _RIM * side), (RED, 0.0)):
        _stroke(pen, tail, tip, colour, side, rim)
    pen.text(label, letter, RED, font, anchor="mm", stroke_width=round(_RIM * side), stroke_fill=HALO)
    small = layer.resize((end[0] - corner[0], end[1] - corner[1]), Image.Resampling.BOX)
    picture.paste(small, tuple(corner), small)


def _stroke(
    pen: ImageDraw.ImageDraw, tail: Point, tip: Point, colour: tuple[int, int, int], side: int, rim: float
) -> None:
    """An arrow in pixels, `rim` of them larger all round."""
    dx, dy = tip[0] - tail[0], tip[1] - tail[1]
    reach = (dx * dx + dy * dy) ** 0.5
    dx, dy = dx / reach, dy / reach
    long, half, wide = _HEAD * side + rim, _HEAD_HALF * side + 1.5 * rim, _SHAFT * side / 2 + rim
    base = (tip[0] - long * dx, tip[1] - long * dy)
    end = (tip[0] + rim * dx, tip[1] + rim * dy)
    pen.line((tail, base), fill=colour, width=round(2 * wide))
    pen.ellipse((tail[0] - wide, tail[1] - wide, tail[0] + wide, tail[1] + wide), fill=colour)
    sides = [(base[0] - half * dy, base[1] + half * dx), (base[0] + half * dy, base[1] - half * dx)]
    pen.polygon([end, *sides], fill=colour)


def view_arrow(
    photo: Image.Image, satellite: Image.Image, arrows: Sequence[Arrow], length: float
) -> Image.Image:
    """View-Arrow: `arrows` get the letters A to D in their order."""
    letters = [(arrow, length, letter) for arrow, letter in zip(arrows, LETTERS, strict=True)]
    return _beside(_to_height(photo), with_arrows(_to_height(satellite), letters))


def view_image(
    satellite: Image.Image, arrow: Arrow, length: float, photos: Sequence[Image.Image]
) -> Image.Image:
    """View-Image: `photos` get the letters A to D in their order, A and B above C and D."""
    panel = Image.new("RGB", (SIDE, SIDE), PAPER)
    pen = ImageDraw.Draw(panel)
    font = ImageFont.load_default(size=SIDE / 17)
    cell, text, gap = SIDE // 2, SIDE // 13, SIDE // 64
    for place, (photo, letter) in enumerate(zip(photos, LETTERS, strict=True)):
        left, top = cell * (place % 2), cell * (place // 2)
        small = ImageOps.contain(photo, (cell - 2 * gap, cell - text - gap), Image.Resampling.LANCZOS)
        panel.paste(small, (left + (cell - small.width) // 2, top + gap))
        pen.text((left + cell / 2, top + cell - text / 2), letter, INK, font, anchor="mm")
    return _beside(with_arrows(_to_height(satellite), [(arrow, length, "")]), panel)


def with_box(picture: Image.Image, box: Sequence[float]) -> Image.Image:
    """The picture with a red frame around [x_min, y_min, x_max, y_max] (pixels)."""
    marked = picture.convert("RGB")
    width = max(2, round(min(picture.size) / 128))
    left, top, right, bottom = box
    outer = (max(0, left - width), max(0, top - width), min(picture.width, right + width) - 1,
             min(picture.height, bottom + width) - 1)  # fmt: skip
    ImageDraw.Draw(marked).rectangle(outer, outline=RED, width=width)
    return marked


def _to_height(picture: Image.Image) -> Image.Image:
    width = max(1, round(picture.width * SIDE / picture.height))
    return picture.convert("RGB").resize((width, SIDE), Image.Resampling.LANCZOS)


def _beside(left: Image.Image, right: Image.Image) -> Image.Image:
    both = Image.new("RGB", (left.width + right.width, SIDE), PAPER)
    both.paste(left, (0, 0))
    both.paste(right, (left.width, 0))
    return both
