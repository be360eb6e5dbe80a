"""Grounding questions from box pairs: a red box on the source (level 3), a description of it (level 4).

The description is written by a model that sees the red box (CVSBench 0.A.2). What is asked for and how long
it may be is the paper's; the words it may not hold are ours.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.cvsbench.grounding import SIDES
from data_prep.generation import words
from data_prep.generation.composites import with_box
from data_prep.generation.pairs import Scene, view_id
from data_prep.generation.release_folder import ReleaseFolder
from data_prep.generation.validate import Fault, Verdict
from data_prep.generation.words import Words
from data_prep.teacher.messages import Request

FILES = {"g2s": "gs_grounding/Ground2Sat_5level", "s2g": "gs_grounding/Sat2Ground_5level"}
_BANS = (
    words.VEHICLES,
    words.LIVING,
    words.COMPASS,
    words.IDENTIFIERS,
    Words(
        "the frame or the picture",
        ("box", "bounding", "frame", "rectangle drawn", "red outline", "highlighted", "image", "picture"),
    ),
)
_ASK = {
    "satellite": (
        "The red frame in this satellite picture surrounds one thing. Describe it so that somebody who"
        " looks for it can tell it from its neighbours: its roof with colour, material and shape, the"
        " outline of its footprint, what is peculiar to it. Write two or three whole sentences."
    ),
    "street": (
        "The red frame in this picture, taken from the street, surrounds one thing. Describe it so that"
        " somebody who looks for it can tell it from its neighbours: the colours of its walls, its windows"
        " or doors, its style, what is peculiar to it. Write 20 to 30 words."
    ),
}
_ALWAYS = (
    "Mention neither the frame nor the picture, and nothing that moves. Reply with the description alone."
)
_LENGTHS = {"satellite": (10, 80), "street": (20, 30)}  # words
_SENTENCES = (2, 3)


@dataclass(frozen=True)
class Thing:
    """One thing of a scene, in both views.

    - `boxes`: side (street, satellite) to [x_min, y_min, x_max, y_max] in pixels, `sizes` to the picture's.
    - `marked`: direction to the source picture with the red box, relative to the release.
    """

    image_id: str
    view: str
    boxes: dict[str, list[float]]
    sizes: dict[str, tuple[int, int]]
    pictures: dict[str, str]
    marked: dict[str, str]


def mark_things(scene: Scene, pictures: dict[str, Any], folder: ReleaseFolder) -> list[Thing]:
    """Draw the red boxes of a scene into the release. `pictures` are the opened ones by their path."""
    things: list[Thing] = []
    for view in scene.views:
        for pair in view.boxes:
            image_id = f"{scene.name}_{len(things)}"
            paths = {"street": view.path, "satellite": scene.satellite}
            sizes = {side: pictures[path].size for side, path in paths.items()}
            boxes = {side: getattr(pair, side).pixels(*size) for side, size in sizes.items()}
            base = f"{scene.subset}/gs_grounding/bbox_images"
            # The evaluator's own names: the suffixes look swapped.
            marked = {"g2s": f"{base}/street/{image_id}_S2G_bbox.jpg"}
            marked["s2g"] = f"{base}/satellite/{image_id}_G2S_bbox.jpg"
            for direction, name in marked.items():
                side = SIDES[direction][0]
                folder.draw(name, with_box(pictures[paths[side]], boxes[side]))
            things.append(Thing(image_id, view.name, boxes, sizes, paths, marked))
    return things


def description_request(thing: Thing, direction: str, release: Path) -> Request:
    """Asks for the description of a thing in the source picture of `direction`."""
    return Request(_ALWAYS, _ASK[SIDES[direction][0]], (release / thing.marked[direction],))


def judge_description(text: str, side: str) -> Verdict:
    """The description on one line, or what is wrong with it."""
    tidy = " ".join(text.split()).strip(" \"'“”").replace('"', "'")
    faults = [
        Fault("banned", f"it holds {word!r}, {ban.name}.") for ban in _BANS if (word := ban.found_in(tidy))
    ]
    least, most = _LENGTHS[side]
    if not least <= (count := len(tidy.split())) <= most:
        faults.append(Fault("length", f"it has {count} words; it must have {least} to {most}."))
    sentences = len(re.findall(r"[.!?](?=\s|$)", tidy))
    if side == "satellite" and not _SENTENCES[0] <= sentences <= _SENTENCES[1]:
        faults.append(Fault("length", f"it has {sentences} whole sentences; it must have two or three."))
    return Verdict(() if faults else (tidy,), tuple(faults))


def grounding_row(subset: str, thing: Thing, direction: str, description: str | None) -> dict[str, Any]:
    """The release's row of one thing and direction; without a description it has level 3 alone."""
    source, target = SIDES[direction]
    answer = thing.boxes[target]
    seen = {"street": "street-view", "satellite": "satellite"}
    corners = "[x_min, y_min, x_max, y_max]"
    questions: list[dict[str, Any]] = [
        {
            "level": 3,
            "question": f"First image shows a {seen[source]} with a bounding box. In the {seen[target]}"
            f" image, provide the pixel bounding box coordinates {corners} for the corresponding object.",
            "answer": answer,
        }
    ]
    if description is not None:
        where = region(answer, thing.sizes[target])
        questions.append(
            {
                "level": 4,
                "question": f'Based on the description of an object in {seen[source]}: "{description}" The'
                f" object appears in the {where} region of the {seen[target]} image. Provide the pixel bbox"
                f" coordinates {corners}.",
                "answer": answer,
            }
        )
    return {
        "img_id": thing.image_id,
        "view_id": view_id(thing.view),
        "task": "ground2sat" if direction == "g2s" else "sat2ground",
        "dataset": subset,
        "source_image": thing.pictures[source],
        "target_image": thing.pictures[target],
        "questions": questions,
    }


def region(box: Sequence[float], size: tuple[int, int]) -> str:
    """The ninth of the picture that holds the box's middle: "top-left", "top", ..., "center"."""
    thirds = [min(2, int(3 * (box[i] + box[i + 2]) / 2 / size[i])) for i in (0, 1)]
    across, down = ("left", "", "right")[thirds[0]], ("top", "", "bottom")[thirds[1]]
    return "-".join(filter(None, (down, across))) or "center"
