"""Auxiliary information of a question (MonoSR, section 4): what a row is told and shown beside it.

| `data.aux` | in the text | on the picture |
|---|---|---|
| `none` | nothing | nothing |
| `si` | the kind of scene | nothing |
| `vp2d` | number and name of each object | a numbered frame on each object of the question |
| `bbox3d` | name and 3D box of each object of the question | nothing |
| `vp2d_bbox3d` | number, name and 3D box of each object of the question | a numbered frame on each of them |
| `vp2d_bbox3d_all` | the same of every object of the scene | a numbered frame on every object |

The text lies in `meta["aux"]` of the row; `data_prep.prompts` sets it before the question, for every stage
alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from data_prep.errors import UserError
from data_prep.monosr.auxiliary_marks import boxes_in_pixels, marked_picture
from data_prep.monosr.auxiliary_text import boxes_header, object_lines
from data_prep.monosr.auxiliary_words import ALL, MARKS, NAMED, SCENES, VARIANTS, Variant
from data_prep.monosr.scene import Scene
from data_prep.rows import Row


def with_auxiliary(row: Row, scene: Scene, variant: str, store: Path) -> Row:
    """The row with the auxiliary information of `variant`.

    Objects of the question are numbered in the order in which it names them; with all objects of the scene,
    the numbers go from left to right over the picture, so that they tell nothing about the question.
    `meta["aux"]` holds the variant, the text, and the ids of the numbered objects in order.

    Args:
        row: of this scene, with its clean picture. `meta["objects"]` and `meta["viewpoint"]` say which
            objects the question names, `meta["names"]` how, in the order of `meta["objects"]`.
        store: the set's folder of pictures; a picture with marks is written there.

    Raises:
        UserError: the variant is unknown, the row names an object that its scene lacks, or none at all, or
            its picture cannot be read.
    """
    if variant not in VARIANTS:
        raise UserError(f"data.aux={variant} is unknown; take one of {', '.join(VARIANTS)}.")
    wanted = VARIANTS[variant]
    if variant == "none":
        return row
    indices, text = objects_and_text(row, scene, wanted)
    aux = {"variant": variant, "text": text}
    if not wanted.marks:
        return replace(row, meta={**row.meta, "aux": aux})
    picture = row.images[0]
    size = (picture.width or scene.width, picture.height or scene.height)
    boxes = boxes_in_pixels(scene.box2d[list(indices)], (scene.width, scene.height), size)
    try:
        marked = marked_picture(picture, boxes, store)
    except FileNotFoundError as error:
        raise UserError(
            f"row {row.id}: its picture {picture.path} is not in {store}, and data.aux={variant} draws on "
            "it. Prepare the set with its pictures, or take data.aux=none, si or bbox3d."
        ) from error
    aux["objects"] = [scene.ids[index] for index in indices]
    return replace(row, images=(marked, *row.images[1:]), meta={**row.meta, "aux": aux})


def objects_and_text(row: Row, scene: Scene, variant: Variant) -> tuple[list[int], str]:
    """Indices of the objects that a row is told of, in their order, and what it is told.

    Raises:
        UserError: as `objects_of` does.
    """
    indices = objects_from_left(scene) if variant.all else objects_of(row, scene)
    return indices, auxiliary_text(scene, indices, names_of(row, scene), variant)


def auxiliary_text(scene: Scene, indices: Sequence[int], names: Mapping[int, str], variant: Variant) -> str:
    """What the prompt says, a sentence or an object a line."""
    if variant.scene:
        return SCENES[scene.domain]
    lines = []
    if variant.marks:
        lines.append(MARKS)
    if variant.boxes:
        lines.append(boxes_header(scene.domain))
    if variant.all:
        lines.append(ALL)
    elif not variant.boxes:
        lines.append(NAMED)
    return "\n".join([*lines, *object_lines(scene, indices, names, variant.marks, variant.boxes)])


def objects_of(row: Row, scene: Scene) -> list[int]:
    """Indices of the objects that a question names, each once, in the order in which it names them.

    Raises:
        UserError: it names one that the scene does not have, or none.
    """
    place = {name: index for index, name in enumerate(scene.ids)}
    ids = dict.fromkeys([*row.meta.get("objects", ()), *(row.meta.get("viewpoint") or ())])
    if unknown := [one for one in ids if one not in place]:
        raise UserError(f"row {row.id} names object {unknown[0]}, which scene {scene.id} does not have.")
    if not ids:
        raise UserError(f'row {row.id} names no object in meta["objects"], so no box can be given for it.')
    return [place[one] for one in ids]


def objects_from_left(scene: Scene) -> list[int]:
    """Indices of all objects in the order of their 2D boxes' middles, from left to right, then from above."""
    middle = (scene.box2d[:, :2] + scene.box2d[:, 2:]) / 2
    return [int(index) for index in np.lexsort((middle[:, 1], middle[:, 0]))]


def names_of(row: Row, scene: Scene) -> dict[int, str]:
    """Index to the words by which the question calls an object."""
    names = dict(zip(row.meta["objects"], row.meta.get("names", ()), strict=False))
    return {index: names[name] for index, name in enumerate(scene.ids) if name in names}
