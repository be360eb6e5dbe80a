"""Image pairs in the layout that `launch generate` reads, drawn here; and a run on them."""

import json
import random
from pathlib import Path

from miniature import put_picture
from PIL import Image, ImageDraw

SIDE = 128


def put_pairs(root: Path, cvusa: int = 4, fov: int = 3, views: int = 4) -> None:
    """Scenes with pictures, an arrow for every view but the last scene's last, and a box pair in each."""
    for number in range(1, cvusa + 1):
        name = f"{number:07d}"
        put_picture(root / f"cvusa/data/streetview/{name}.jpg", (154, 28), number)
        put_picture(root / f"cvusa/data/bingmap/input{name}.png", (60, 60), number)
    boxes = {f"{n:07d}": {"rs": [_box(n)], "sv": [_box(n + 1)]} for n in range(1, cvusa + 1)}
    write(root / "cvusa/boxes.json", boxes)
    rng = random.Random(5)
    arrows = []
    for number in range(1, fov + 1):
        name = f"{number:04d}"
        path = root / f"fov/data/satellite/{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        town(number).save(path, quality=95)
        for view in range(views + 1):  # 0.jpg is none of the photos
            put_picture(root / f"fov/data/street/{name}/{view}.jpg", (64, 64), 10 * number + view)
        arrows.append(
            {
                "sample_id": name,
                "annotations": [
                    {
                        "view_id": view,
                        "x": round(rng.uniform(0.3, 0.7), 3),
                        "y": round(rng.uniform(0.3, 0.7), 3),
                        "angle": round(rng.uniform(0, 360), 1),
                    }
                    for view in range(1, views + (number < fov))
                ],
            }
        )
    write(root / "fov/arrows.json", arrows)
    write(
        root / "fov/boxes.json", {f"{n:04d}_1": {"rs": [_box(n)], "sv": [_box(n)]} for n in range(1, fov + 1)}
    )


def town(seed: int) -> Image.Image:
    """A satellite picture of plain ground, smooth streets and cluttered lots."""
    rng = random.Random(seed)
    picture = Image.new("RGB", (SIDE, SIDE), (112, 116, 110))
    pen = ImageDraw.Draw(picture)
    for _ in range(6):
        x, y = rng.randrange(SIDE), rng.randrange(SIDE)
        for _ in range(60):
            dx, dy = rng.randrange(20), rng.randrange(20)
            pen.point((x + dx, y + dy), fill=tuple(rng.choices(range(0, 200), k=3)))
    return picture


def _box(seed: int) -> dict[str, float]:
    rng = random.Random(seed)
    return {"x": round(rng.uniform(0.05, 0.5), 2), "y": round(rng.uniform(0.05, 0.5), 2), "w": 0.3, "h": 0.2}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
