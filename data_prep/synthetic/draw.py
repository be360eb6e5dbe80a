"""Draw a scene as CVSBench's pictures: satellite, satellite with an arrow, panorama, street photo."""

import random

from PIL import Image, ImageDraw

from data_prep.synthetic.scene import COLOURS, SIDE_VECTORS, Building, Scene

GROUND, ROAD, SKY, EDGE = (108, 116, 104), (76, 76, 78), (156, 192, 228), (24, 24, 24)
ARROW = (255, 96, 0)
TILES, METAL = (128, 60, 28), (196, 200, 208)  # pitched and arched roofs, seen from the ground
VEGETATION_COLOURS = {"trees": (20, 92, 36), "shrubs": (120, 170, 60), "grass": (150, 214, 120)}
SATELLITE_SIZE = 96
PANORAMA_SIZE = (256, 64)
PHOTO_SIZE = (96, 96)
# Pixels a whole unit of offset moves a facade, and the height of its foot as a share of the photo.
PHOTO_SHIFT, PHOTO_BASE = 40, 0.72


def satellite(scene: Scene, heading: int | None = None) -> Image.Image:
    """Top view, `SATELLITE_SIZE` square. With a heading, an arrow whose tail is the camera."""
    size = SATELLITE_SIZE
    half = size / 2
    picture = Image.new("RGB", (size, size), GROUND)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((half - 4, 0, half + 4, size), fill=ROAD)
    pen.rectangle((0, half - 4, size, half + 4), fill=ROAD)
    for corner, kind in enumerate(scene.vegetation):
        x = half + half * 0.68 * (1 if corner in (0, 1) else -1)
        y = half + half * 0.68 * (1 if corner in (1, 2) else -1)
        _vegetation(pen, kind, x, y)
    for building in scene.buildings:
        x, y = (half + half * c for c in building.centre)
        reach = building.half_width * half
        box = (x - reach, y - reach, x + reach, y + reach)
        pen.rectangle(box, fill=COLOURS[building.colour], outline=EDGE)
        _roof_from_above(pen, building, box)
    if heading is None:
        pen.ellipse((half - 3, half - 3, half + 3, half + 3), fill=ARROW)
    else:
        _arrow(pen, half, heading)
    return picture


def footprint(building: Building) -> list[int]:
    """The building's box [x_min, y_min, x_max, y_max] in pixels of the satellite picture."""
    half = SATELLITE_SIZE / 2
    x, y = (half + half * c for c in building.centre)
    reach = building.half_width * half
    return [round(x - reach), round(y - reach), round(x + reach), round(y + reach)]


def panorama(scene: Scene) -> Image.Image:
    """All round view of a camera facing the top: centre is top, quarters left and right, edges bottom."""
    width, height = PANORAMA_SIZE
    picture = Image.new("RGB", (width, height), SKY)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, height * 0.62, width, height), fill=GROUND)
    for building in sorted(scene.buildings, key=lambda b: -b.distance):
        centre = panorama_centre(building)
        for wrapped in (centre - width, centre, centre + width):
            _facade(pen, building, wrapped, height * 0.68, height)
    return picture


def panorama_centre(building: Building) -> float:
    """Horizontal pixel of the building's middle in the panorama."""
    width = PANORAMA_SIZE[0]
    return (width * (0.5 + building.side / 4) + building.offset * width / 6) % width


def panorama_box(building: Building) -> list[int]:
    """The facade's box in the panorama, cut at the right edge where it wraps round."""
    width, height = PANORAMA_SIZE
    wide, tall = _facade_size(building, height)
    centre, base = panorama_centre(building), height * 0.68
    return [round(max(0, centre - wide)), round(base - tall), round(min(width, centre + wide)), round(base)]


def street_photo(scene: Scene, heading: int) -> Image.Image:
    """What lies ahead of a camera that faces `heading`; to the sides only an edge shows."""
    width, height = PHOTO_SIZE
    picture = Image.new("RGB", PHOTO_SIZE, SKY)
    pen = ImageDraw.Draw(picture)
    pen.rectangle((0, height * 0.62, width, height), fill=GROUND)
    building = scene.on_side(heading)
    if building is not None:
        _facade(pen, building, width / 2 + building.offset * PHOTO_SHIFT, height * PHOTO_BASE, height)
    return picture


def photo_box(building: Building | None) -> list[int]:
    """The facade's box in the photo that faces it; where nothing stands, the whole photo."""
    width, height = PHOTO_SIZE
    if building is None:
        return [0, 0, width, height]
    wide, tall = _facade_size(building, height)
    centre, base = width / 2 + building.offset * PHOTO_SHIFT, height * PHOTO_BASE
    return [round(centre - wide), round(base - tall), round(centre + wide), round(base)]


def _facade_size(building: Building, height: int) -> tuple[float, float]:
    tall = height * (0.5 if building.near else 0.2)
    return building.half_width * height * (1.1 if building.near else 0.7), tall


def _facade(pen: ImageDraw.ImageDraw, building: Building, x: float, base: float, height: int) -> None:
    wide, tall = _facade_size(building, height)
    colour = COLOURS[building.colour]
    pen.rectangle((x - wide, base - tall, x + wide, base), fill=colour, outline=EDGE)
    rise = tall * 0.6
    top = base - tall
    if building.roof == "gabled":
        pen.polygon([(x - wide, top), (x, top - rise), (x + wide, top)], fill=TILES, outline=EDGE)
    elif building.roof == "arched":
        pen.pieslice((x - wide, top - rise, x + wide, top + rise), 180, 360, fill=METAL, outline=EDGE)
    elif building.roof == "mixed":
        pen.polygon([(x - wide, top), (x - wide / 2, top - rise), (x, top)], fill=TILES, outline=EDGE)


def _roof_from_above(
    pen: ImageDraw.ImageDraw, building: Building, box: tuple[float, float, float, float]
) -> None:
    x0, y0, x1, y1 = box
    if building.roof in ("gabled", "mixed"):
        end = x1 if building.roof == "gabled" else (x0 + x1) / 2
        pen.line((x0, (y0 + y1) / 2, end, (y0 + y1) / 2), fill=EDGE)
    elif building.roof == "arched":
        pen.ellipse((x0 + 3, y0 + 3, x1 - 3, y1 - 3), outline=EDGE)


def _vegetation(pen: ImageDraw.ImageDraw, kind: str, x: float, y: float) -> None:
    if kind == "none":
        return
    colour = VEGETATION_COLOURS[kind]
    if kind == "grass":
        pen.rectangle((x - 12, y - 12, x + 12, y + 12), fill=colour)
        return
    spots = random.Random(f"{kind}{x}{y}")
    count, reach = (5, 5.5) if kind == "trees" else (12, 2.5)
    for _ in range(count):
        cx, cy = x + spots.uniform(-9, 9), y + spots.uniform(-9, 9)
        pen.ellipse((cx - reach, cy - reach, cx + reach, cy + reach), fill=colour)


def _arrow(pen: ImageDraw.ImageDraw, half: float, heading: int) -> None:
    dx, dy = SIDE_VECTORS[heading]
    tip, neck = (half + dx * 14, half + dy * 14), (half + dx * 5, half + dy * 5)
    pen.line((half, half, *neck), fill=ARROW, width=6)
    pen.polygon([tip, (neck[0] - dy * 9, neck[1] + dx * 9), (neck[0] + dy * 9, neck[1] - dx * 9)], fill=ARROW)
