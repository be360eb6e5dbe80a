"""A page of MonoSR's questions to look at: marked pictures with the edges of 3D boxes, and what is asked.

    examples.html   one file: pictures, questions with their right answers, the objects' boxes as text

Where an answer looks wrong on this page, geometry, annotation or name is at fault.
"""

import base64
import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image, ImageDraw

from data_prep.atomic import write_text
from data_prep.monosr.auxiliary import objects_from_left
from data_prep.monosr.auxiliary_marks import PALETTE, boxes_in_pixels, draw_marks
from data_prep.monosr.auxiliary_text import boxes_header, object_lines
from data_prep.monosr.scene import EDGES, SOURCES, Scene
from data_prep.rows import Row
from data_prep.splits import rank

PICTURES = 12  # on a page
QUESTIONS = 30  # of a picture
SIDE = 1280  # pixels of a picture's longer side, at most
NAME = "examples.html"


@dataclass
class Example:
    """A picture (a file), its scene, and questions about it."""

    scene: Scene
    picture: Path
    rows: list[Row] = field(default_factory=list)


class Examples:
    """Chooses pictures of every source by chance (the same ones each time), while rows pass by.

    Rows of one scene come together.
    """

    def __init__(self, images: Path, most: int = PICTURES) -> None:
        self._images, self._most = images, most
        self._kept: dict[str, dict[str, tuple[float, Example]]] = defaultdict(dict)

    def add(self, row: Row, scene: Scene) -> None:
        """Offer a row with its clean picture, whose path is relative to `images`."""
        own = self._kept[scene.source]
        if scene.id not in own:
            place = rank("page", scene.id, 0)
            if len(own) == self._most:
                last = max(own, key=lambda name: own[name][0])
                if own[last][0] < place:
                    return
                del own[last]
            own[scene.id] = place, Example(scene, self._images / row.images[0].path)
        rows = own[scene.id][1].rows
        if len(rows) < QUESTIONS:
            rows.append(row)

    def chosen(self) -> list[Example]:
        """The examples, one of each source in turn."""
        queues = [sorted(self._kept[source].values(), key=lambda kept: kept[0]) for source in SOURCES]
        turns = [queue[n] for n in range(self._most) for queue in queues if n < len(queue)]
        return [example for _, example in turns[: self._most]]


def write_page(examples: Iterable[Example], out: Path) -> None:
    """Write the page `out`.

    Raises:
        OSError: a picture cannot be read.
    """
    templates = Environment(
        loader=PackageLoader("recipes"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    items = [_item(example) for example in examples]
    write_text(out, templates.get_template("monosr_examples.html.j2").render(items=items))


def drawn(scene: Scene, file: Path) -> Image.Image:
    """The picture with the edges of every 3D box and a numbered mark on every object, from left to right.

    Raises:
        OSError: the picture cannot be read.
    """
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
    if (scale := SIDE / max(picture.size)) < 1:
        picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    factor = np.array([picture.width / scene.width, picture.height / scene.height])
    order = objects_from_left(scene)
    pencil = ImageDraw.Draw(picture)
    for number, index in enumerate(order):
        for one, other in EDGES:
            line = edge_in_picture(scene.corners[index, [one, other]], scene.K)
            if line is not None:
                points = np.clip(line * factor, -20 * SIDE, 20 * SIDE)
                pencil.line([tuple(point) for point in points.tolist()], PALETTE[number % len(PALETTE)], 1)
    boxes = boxes_in_pixels(scene.box2d[order], (scene.width, scene.height), picture.size)
    return draw_marks(picture, boxes)[0]


def edge_in_picture(ends: np.ndarray, K: np.ndarray, near: float = 0.05) -> np.ndarray | None:
    """Pixels (2, 2) of the part of an edge (2, 3) at least `near` metres before the camera, or None."""
    depth = ends[:, 2]
    if depth.max() <= near:
        return None
    if depth.min() < near:
        behind = int(depth.argmin())
        share = (near - depth[behind]) / (depth[1 - behind] - depth[behind])
        ends = ends.copy()
        ends[behind] += share * (ends[1 - behind] - ends[behind])
    seen = ends @ K.T
    return seen[:, :2] / seen[:, 2:]


def _item(example: Example) -> dict[str, Any]:
    scene = example.scene
    content = io.BytesIO()
    drawn(scene, example.picture).save(content, "JPEG", quality=85)
    order = objects_from_left(scene)
    number = {scene.ids[index]: place for place, index in enumerate(order, start=1)}
    return {
        "id": scene.id,
        "picture": "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode(),
        "header": boxes_header(scene.domain),
        "objects": object_lines(scene, order, {}, numbered=True, boxes=True),
        "questions": [_question(row, number) for row in example.rows],
    }


def _question(row: Row, number: dict[str, int]) -> dict[str, Any]:
    right = row.answer if row.options is None else row.options[row.answer]
    return {
        "name": row.id.rpartition("/")[2],
        "kind": row.category.replace("_", "/"),
        "text": row.question,
        "options": row.options or {},
        "answer": f"{right} {row.unit}" if row.unit else right,
        "letter": row.answer if row.options else "",
        "marks": [number.get(name, 0) for name in row.meta["objects"]],
    }
