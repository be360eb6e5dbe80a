"""View-Arrow and View-Image questions, and the satellite picture with its one arrow (CVSBench 0.A.2).

Which letter is right, and which false arrows and photos stand beside it, depends on seed and scene alone.
"""

import math
import random
from collections.abc import Container
from typing import Any

import numpy as np
from PIL import Image

from data_prep.cvsbench.pictures import scene_id
from data_prep.generation.arrows import (
    Arrow,
    NoRoomError,
    Rules,
    drawn_length,
    false_arrows,
    flat_ground,
    without_boxes,
)
from data_prep.generation.composites import LETTERS, view_arrow, view_image, with_arrows
from data_prep.generation.pairs import Aside, Scene, View, view_id
from data_prep.generation.release_folder import ReleaseFolder

FILES = {"arrow_select": "gs_view/arrow_select", "arrow_street": "gs_view/arrow_street"}
_QUESTIONS = {
    "arrow_select": "Which arrow indicates the observation location in the satellite image?",
    "arrow_street": "The satellite image on the left shows an arrow pointing to a specific street view"
    " location. Which of the four street view images (A/B/C/D) corresponds to the direction indicated by"
    " the arrow?",
}
_OPTIONS = {
    "arrow_select": [f"{letter}: Arrow {letter}" for letter in LETTERS],
    "arrow_street": list(LETTERS),
}
_SUFFIX = {"arrow_select": "L1", "arrow_street": "arrow_sv"}
_SAME_ANGLE = 20.0  # degrees within which two cameras close together see the same
_SQUARE = 0.02
_MASK_FROM = 128

Pictures = dict[str, Image.Image]


def arrow_name(scene: Scene, view: View) -> str:
    """Where the satellite picture with the view's arrow stands in a release."""
    return f"fov/data/satellite_arrow/{scene_id(scene.name, 'fov')}/view_{view.name}_annotated.jpg"


def draw_arrow(scene: Scene, view: View, satellite: Image.Image, rules: Rules, folder: ReleaseFolder) -> str:
    """Draw the satellite picture with the view's arrow into the release; its path there.

    Raises:
        NoRoomError: the view has no arrow, the picture is not square, or the arrow leaves it.
    """
    if view.arrow is None:
        raise NoRoomError("it has no arrow")
    if abs(satellite.width - satellite.height) > _SQUARE * satellite.height:
        raise NoRoomError(f"the satellite picture is not square: {satellite.width} x {satellite.height}")
    length = drawn_length(view.arrow, rules.length)
    name = arrow_name(scene, view)
    folder.draw(name, with_arrows(satellite, [(view.arrow, length, "")]))
    return name


def viewpoint_rows(
    scene: Scene,
    views: Container[str],
    pictures: Pictures,
    rules: Rules,
    seed: int,
    folder: ReleaseFolder,
    aside: list[Aside],
) -> dict[str, list[dict[str, Any]]]:
    """Draw the composites of `views`, which have a sound arrow, into the release; their rows, by kind."""
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in FILES}
    satellite = pictures[scene.satellite]
    ground = flat_ground(satellite, rules.flat_share)
    ground = without_boxes(ground, [pair.satellite for view in scene.views for pair in view.boxes])
    if scene.unsuitable is not None:
        mask = pictures[scene.unsuitable].convert("L").resize(satellite.size)
        ground &= np.asarray(mask) < _MASK_FROM
    for view in scene.views:
        if view.name not in views:
            continue
        for kind, compose in (("arrow_select", _select), ("arrow_street", _street)):
            rng = random.Random(f"{seed}/{kind}/{scene.name}/{view.name}")
            try:
                picture, letter = compose(scene, view, pictures, ground, rules, rng)
            except NoRoomError as error:
                aside.append(Aside(f"fov/{kind}/{scene.name}.{view.name}", "composite", str(error)))
                continue
            name = f"fov/gs_view/{kind}/{scene.name}_view{view.name}_{_SUFFIX[kind]}.jpg"
            folder.draw(name, picture)
            rows[kind].append(
                {
                    "sample_id": scene.name,
                    "view_id": view_id(view.name),
                    "dataset": "fov",
                    "image_path": name,
                    "question": _QUESTIONS[kind],
                    "options": _OPTIONS[kind],
                    "answer": letter,
                }
            )
    return rows


def _select(
    scene: Scene, view: View, pictures: Pictures, ground: np.ndarray, rules: Rules, rng: random.Random
) -> tuple[Image.Image, str]:
    """View-Arrow and its right letter; all four arrows have the true one's length, or it would tell."""
    assert view.arrow is not None
    length = drawn_length(view.arrow, rules.length)
    arrows = [view.arrow, *false_arrows(view.arrow, length, ground, rules, rng)]
    rng.shuffle(arrows)
    picture = view_arrow(pictures[view.path], pictures[scene.satellite], arrows, length)
    return picture, LETTERS[arrows.index(view.arrow)]


def _street(
    scene: Scene, view: View, pictures: Pictures, ground: np.ndarray, rules: Rules, rng: random.Random
) -> tuple[Image.Image, str]:
    """View-Image and its right letter; the false photos are other views of the scene."""
    assert view.arrow is not None
    length = drawn_length(view.arrow, rules.length)
    others = [
        other for other in scene.views if other is not view and not _same(view.arrow, other.arrow, rules)
    ]
    if len(others) < 3:
        raise NoRoomError(f"the scene has {len(others)} photos from other viewpoints; three are needed")
    shown = [view, *rng.sample(others, 3)]
    rng.shuffle(shown)
    photos = [pictures[other.path] for other in shown]
    return view_image(pictures[scene.satellite], view.arrow, length, photos), LETTERS[shown.index(view)]


def _same(one: Arrow, other: Arrow | None, rules: Rules) -> bool:
    """Whether two cameras see about the same, so that both photos would be right."""
    if other is None or math.dist((one.x, one.y), (other.x, other.y)) > rules.separation / 2:
        return False
    return abs((one.angle - other.angle + 180) % 360 - 180) < _SAME_ANGLE
