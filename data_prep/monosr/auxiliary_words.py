"""Auxiliary information (MonoSR, section 4): the variants, and the fixed sentences and units of what is told.

The paper names what is told (kind of scene; centre, dimensions and orientation of a box) and prints no
strings; these are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """What is given: the kind of scene, marks on the picture, boxes in the text; of all objects or some."""

    scene: bool = False
    marks: bool = False
    boxes: bool = False
    all: bool = False


VARIANTS: Mapping[str, Variant] = {
    "none": Variant(),
    "si": Variant(scene=True),
    "vp2d": Variant(marks=True),
    "bbox3d": Variant(boxes=True),
    "vp2d_bbox3d": Variant(marks=True, boxes=True),
    "vp2d_bbox3d_all": Variant(marks=True, boxes=True, all=True),
}

SCENES = {
    "indoor": "The photo was taken indoors.",
    "outdoor": "The photo was taken outdoors.",
    "object_centric": "The photo shows a single object from close by.",
}
MARKS = "Numbered marks are drawn on the photo: each frames an object, and its label has the object's number."
ALL = "Every object that is known of is listed, not only those of the question."
NAMED = "The objects by their numbers:"
BOXES = (
    "3D boxes, lengths in {unit} rounded to {step}. Axes of the camera, which is at (0, 0, 0): x to the"
    " right, y down, z forward. centre is the middle of the box as (x, y, z); length, height and width are"
    " its full sides; yaw is the direction of the length side in whole degrees, seen from above: 0 to the"
    " right, 90 away from the camera. pitch (its rise at the far end of that direction) and roll (the turn"
    " about it) are given where they are not 0."
)


@dataclass(frozen=True)
class Unit:
    """How lengths are written: `name` in words, `scale` of a metre, `digits` after the point."""

    name: str
    scale: float
    digits: int

    @property
    def step(self) -> str:
        return f"{10.0**-self.digits:.{self.digits}f}"


METRES, CENTIMETRES = Unit("metres", 1.0, 2), Unit("centimetres", 100.0, 1)
UNITS = {"indoor": METRES, "outdoor": METRES, "object_centric": CENTIMETRES}
"""A hundredth of a metre is a tenth of a cup, so single objects are told in millimetres' steps."""

WORDS = [SCENES, MARKS, ALL, NAMED, BOXES, {name: [u.name, u.scale, u.digits] for name, u in UNITS.items()}]
"""Every string above: what a prompt's hash covers."""
