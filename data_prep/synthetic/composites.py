"""Pictures of the tasks that show both views: one with a red box drawn, and viewpoint composites."""

from PIL import Image, ImageDraw, ImageFont

from data_prep.synthetic import draw
from data_prep.synthetic.scene import SIDE_VECTORS, Scene

RED = (255, 0, 0)
LETTERS = "ABCD"
_STRIP = 14  # pixels under each small photo, for its letter
_LETTER, _TAIL, _NECK, _TIP = 9, 16, 21, 27  # along an arrow from the picture's middle, in pixels


def boxed(picture: Image.Image, box: list[int]) -> Image.Image:
    """A copy with `box` (pixels) drawn in red."""
    marked = picture.copy()
    ImageDraw.Draw(marked).rectangle(tuple(box), outline=RED, width=2)
    return marked


def view_arrow(scene: Scene, heading: int, order: list[int]) -> Image.Image:
    """View-Arrow: the photo towards `heading` on the left, four lettered arrows on the satellite picture.

    `order[k]` is the heading of the arrow with the k-th letter.
    """
    satellite = draw.satellite(scene)
    pen = ImageDraw.Draw(satellite)
    for letter, side in zip(LETTERS, order, strict=True):
        (dx, dy), middle = SIDE_VECTORS[side], draw.SATELLITE_SIZE / 2
        at, tail, neck, tip = ((middle + dx * d, middle + dy * d) for d in (_LETTER, _TAIL, _NECK, _TIP))
        pen.line((*tail, *neck), fill=RED, width=3)
        pen.polygon(
            [tip, (neck[0] - dy * 4, neck[1] + dx * 4), (neck[0] + dy * 4, neck[1] - dx * 4)], fill=RED
        )
        pen.text(at, letter, fill=RED, anchor="mm", font=ImageFont.load_default(12))
    return _beside(draw.street_photo(scene, heading), satellite)


def view_image(scene: Scene, heading: int, order: list[int]) -> Image.Image:
    """View-Image: the satellite picture with one arrow on the left, four lettered photos on the right.

    `order[k]` is the heading of the photo with the k-th letter.
    """
    width, height = (side // 2 for side in draw.PHOTO_SIZE)
    photos = Image.new("RGB", (2 * width, 2 * (height + _STRIP)), "white")
    pen = ImageDraw.Draw(photos)
    for place, (letter, side) in enumerate(zip(LETTERS, order, strict=True)):
        x, y = place % 2 * width, place // 2 * (height + _STRIP)
        photos.paste(draw.street_photo(scene, side).resize((width, height)), (x, y))
        middle = (x + width / 2, y + height + _STRIP / 2)
        pen.text(middle, letter, fill="black", anchor="mm", font=ImageFont.load_default(12))
    return _beside(draw.satellite(scene, heading), photos)


def _beside(left: Image.Image, right: Image.Image) -> Image.Image:
    both = Image.new("RGB", (left.width + right.width, max(left.height, right.height)), "white")
    both.paste(left, (0, 0))
    both.paste(right, (left.width, 0))
    return both
