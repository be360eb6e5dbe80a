"""Grounding and viewpoint questions of the synthetic release, with their pictures and the oracle's reasoning.

They draw from random streams of their own, so a release with them holds all that one without them does.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from PIL import Image

from data_prep.synthetic import composites, draw
from data_prep.synthetic.questions import Question
from data_prep.synthetic.scene import SIDES, Building, Scene

TASKS = ("gs_grounding", "gs_view")
FILES = {"g2s": "Ground2Sat_5level", "s2g": "Sat2Ground_5level"}
# Folder and suffix of the pictures with a box, by direction; the suffixes are swapped in the release too.
BOX_IMAGES = {"g2s": ("street", "S2G"), "s2g": ("satellite", "G2S")}
KINDS = {"street": "street-view", "satellite": "satellite image"}
SEEN = {3: "The box holds", 4: "Described is"}
SOURCE_AND_TARGET = {"g2s": ("street", "satellite"), "s2g": ("satellite", "street")}
VIEW_ARROW = "Which arrow indicates the observation location in the satellite image?"
VIEW_IMAGE = (
    "The satellite image on the left shows an arrow pointing to a specific street view location. Which of the"
    " four street view images (A/B/C/D) corresponds to the direction indicated by the arrow?"
)
_COLUMNS, _ROWS = ("left", "middle", "right"), ("top", "middle", "bottom")


class Place(NamedTuple):
    """One image group: `name` is its id in the release."""

    split: str
    subset: str
    name: str
    scene: Scene


class Asked(NamedTuple):
    """A line of `file` (below the root), its questions by row id, and the pictures it needs by path."""

    file: str
    record: dict[str, Any]
    questions: dict[str, Question]
    pictures: dict[str, Image.Image]


def ask(places: Iterable[Place], seed: int, tasks: Iterable[str]) -> Iterator[tuple[Place, Asked]]:
    """Every line of the tasks (`TASKS`) about these places; the same arguments give the same ones."""
    wanted = set(tasks)
    for place in places:
        rng = random.Random(f"{seed}/{place.subset}/{place.split}/{place.name}/pairs")
        # Both are drawn whatever is asked for, so that neither task changes the other.
        grounding, views = _grounding(place, rng), _views(place, rng)
        if "gs_grounding" in wanted:
            yield from ((place, asked) for asked in grounding)
        if "gs_view" in wanted:
            yield from ((place, asked) for asked in views)


def _grounding(place: Place, rng: random.Random) -> list[Asked]:
    """One building, asked for in both directions on levels 3 and 4."""
    scene, cvusa = place.scene, place.subset == "cvusa"
    buildings = [scene.coloured(colour) for colour in ("red", "blue")]
    # A building behind the camera is cut in two by the panorama's edge.
    building = rng.choice([b for b in buildings if not cvusa or b.side != 2])
    view = "NA" if cvusa else str(building.side + 1)
    boxes = {
        "satellite": draw.footprint(building),
        "street": draw.panorama_box(building) if cvusa else draw.photo_box(building),
    }
    pictures = {
        "satellite": draw.satellite(scene),
        "street": draw.panorama(scene) if cvusa else draw.street_photo(scene, building.side),
    }
    return [_grounding_line(place, direction, building, view, boxes, pictures) for direction in FILES]


def _grounding_line(
    place: Place,
    direction: str,
    building: Building,
    view: str,
    boxes: dict[str, list[int]],
    pictures: dict[str, Image.Image],
) -> Asked:
    source, target = SOURCE_AND_TARGET[direction]
    image_id, base = f"{place.name}_1", f"{place.subset}/gs_grounding"
    folder, suffix = BOX_IMAGES[direction]
    marked = f"{base}/bbox_images/{folder}/{image_id}_{suffix}_bbox.jpg"
    region = _region(boxes[target], pictures[target].size)
    requests = {
        3: f"First image shows a {KINDS[source]} with a bounding box. In the {KINDS[target]}, provide the"
        " pixel bounding box coordinates [x_min, y_min, x_max, y_max] for the corresponding object.",
        4: f'Based on the description of an object in {KINDS[source]}: "A {building.colour} building.".'
        " Provide the pixel bbox coordinates [x_min, y_min, x_max, y_max].",
    }
    given = {3: {"answer": boxes[target], "source_bbox": boxes[source]},
             4: {"target_bbox": boxes[target], "region_hint": region}}  # fmt: skip
    record = {"img_id": image_id, "dataset": place.subset, "task": FILES[direction]}
    record |= {"view_id": int(view)} if view != "NA" else {}
    paths = _paths(place, view)
    record |= {"source_image": paths[source], "target_image": paths[target]}
    record["questions"] = [{"level": k, "question": text, **given[k]} for k, text in requests.items()]
    questions = {
        f"cvsbench/{base}/{direction}/{image_id}.{view}.L{level}.q{index}": Question(
            task=direction,
            category=f"level{level}",
            view=building.side + 1,
            question=text,
            options=(),
            answer=str(boxes[target]),
            observations=f"{SEEN[level]} the {building.colour} building.",
            projection=f"The {building.colour} building stands {SIDES[building.side]} seen from above.",
            conclusion=f"In the second picture it is in the {region} part.",
            objects=(f"{building.colour} building bbox: {boxes[source]} in the first picture",),
        )
        for index, (level, text) in enumerate(requests.items())
    }
    needed = {marked: composites.boxed(pictures[source], boxes[source])}
    if place.subset == "fov":
        needed[f"fov/data/satellite/{place.name}.jpg"] = pictures["satellite"]
    return Asked(f"{base}/{FILES[direction]}_{place.split}.jsonl", record, questions, needed)


def _views(place: Place, rng: random.Random) -> list[Asked]:
    """View-Arrow and View-Image of a view that has a building ahead, so that no other view looks like it."""
    if place.subset != "fov":
        return []
    scene, name = place.scene, place.name
    heading = rng.choice([building.side for building in scene.buildings])
    ahead = f"{getattr(scene.on_side(heading), 'colour', '')} building"
    asked = []
    for part, direction, text, end, compose in (
        ("arrow_select", "g2s", VIEW_ARROW, "L1", composites.view_arrow),
        ("arrow_street", "s2g", VIEW_IMAGE, "arrow_sv", composites.view_image),
    ):
        order = rng.sample(range(4), 4)
        answer = composites.LETTERS[order.index(heading)]
        arrows = part == "arrow_select"
        record = {
            "sample_id": name,
            "view_id": heading + 1,
            "dataset": "fov",
            "task": part,
            "question": text,
            "options": [f"{letter}: Arrow {letter}" if arrows else letter for letter in composites.LETTERS],
            "answer": answer,
        }
        picture = f"fov/gs_view/{part}/{name}_view{heading + 1}_{end}.jpg"
        question = Question(
            task=direction,
            category="view_arrow" if arrows else "view_image",
            view=heading + 1,
            question=text,
            options=(),
            answer=answer,
            observations=f"The photo shows the {ahead}." if arrows else f"The arrow points at the {ahead}.",
            projection=f"From above the {ahead} stands {SIDES[heading]}.",
            conclusion=f"Only one candidate faces the {ahead}.",
            objects=(f"{ahead} bbox: {draw.footprint(scene.on_side(heading))} seen from above",),
        )
        row_id = f"cvsbench/fov/gs_view/{part}/{name}.{heading + 1}.q0"
        pictures = {picture: compose(scene, heading, order)}
        asked.append(Asked(f"fov/gs_view/{part}_{place.split}.jsonl", record, {row_id: question}, pictures))
    return asked


def _paths(place: Place, view: str) -> dict[str, str]:
    """Path strings of the plain pictures, in folders that readers rewrite where the release has such."""
    if place.subset == "cvusa":
        street, satellite = f"streetview/{place.name}.jpg", f"bingmap/input{place.name}.png"
        return {"street": f"cvusa/data/{street}", "satellite": f"cvusa/data/{satellite}"}
    return {
        "street": f"fov/{place.split}_street/{place.name}/{view}.jpg",
        "satellite": f"fov/{place.split}_satellite/{place.name}.jpg",
    }


def _region(box: list[int], size: tuple[int, int]) -> str:
    """The third of the picture that the box's middle lies in, across and down: "top-left"."""
    column, row = (min(2, 3 * (box[k] + box[k + 2]) // (2 * size[k])) for k in (0, 1))
    return f"{_ROWS[row]}-{_COLUMNS[column]}"
