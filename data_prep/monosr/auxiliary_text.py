"""The objects of a scene in words: their numbers, names and 3D boxes, rounded as `auxiliary_words` says."""

from collections.abc import Mapping, Sequence

import numpy as np

from data_prep.monosr.auxiliary_words import BOXES, UNITS, Unit
from data_prep.monosr.scene import Scene


def orientation(R: np.ndarray) -> tuple[float, float, float]:
    """Yaw, pitch and roll in degrees of a box's rotation (3, 3) to the camera frame.

    yaw: direction of the length axis on the plane of x and z, from +x (0) towards +z (90), in (-180, 180].
    pitch: how far that axis rises (y is down) at its positive end, in [-90, 90]. roll: the turn about it
    from the pose in which the height axis lies in the vertical plane of the length axis. `rotation` is the
    inverse.
    """
    pitch = np.arcsin(np.clip(-R[1, 0], -1.0, 1.0))
    if np.hypot(R[0, 0], R[2, 0]) > 1e-6:
        yaw = np.arctan2(R[2, 0], R[0, 0])
    else:  # the length stands upright and has no direction: let the width axis give it, without roll
        yaw = np.arctan2(-R[0, 2], R[2, 2])
    rest = (_turn(yaw) @ _rise(pitch)).T @ R
    degrees = np.degrees([yaw, pitch, np.arctan2(rest[2, 1], rest[1, 1])])
    return float(degrees[0]), float(degrees[1]), float(degrees[2])


def rotation(yaw: float, pitch: float, roll: float) -> np.ndarray:
    """The rotation (3, 3) with these angles in degrees, as `orientation` takes them apart."""
    yaw, pitch, roll = np.radians([yaw, pitch, roll])
    c, s = np.cos(roll), np.sin(roll)
    return _turn(yaw) @ _rise(pitch) @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def object_lines(
    scene: Scene, indices: Sequence[int], names: Mapping[int, str], numbered: bool, boxes: bool
) -> list[str]:
    """One line an object, in the order of `indices`: its number (from 1) where `numbered`, name, box.

    `names` has the words by which the question calls an object, for those that it names; any other one goes
    by its category.
    """
    lines = []
    for number, index in enumerate(indices, start=1):
        name = names.get(index, scene.categories[index])
        mark = f"[{number}]" if numbered else "-"
        lines.append(f"{mark} {name}: {box_words(scene, index)}" if boxes else f"{mark} {name}")
    return lines


def box_words(scene: Scene, index: int) -> str:
    """The box of one object, for example "centre (0.53, 0.06, 69.44), length 12.34, height 2.85, ..."."""
    unit = UNITS[scene.domain]
    centre = ", ".join(_length(value, unit) for value in scene.center[index])
    length, height, width = (_length(value, unit) for value in scene.size[index])
    yaw, pitch, roll = (_whole_degrees(angle) for angle in orientation(scene.R[index]))
    words = f"centre ({centre}), length {length}, height {height}, width {width}, yaw {yaw}"
    return words + (f", pitch {pitch}" if pitch else "") + (f", roll {roll}" if roll else "")


def boxes_header(domain: str) -> str:
    """What the numbers of a box mean, for scenes of this domain."""
    unit = UNITS[domain]
    return BOXES.format(unit=unit.name, step=unit.step)


def _length(metres: float, unit: Unit) -> str:
    text = f"{metres * unit.scale:.{unit.digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _whole_degrees(angle: float) -> int:
    whole = round(angle)
    return 180 if whole == -180 else whole


def _turn(yaw: float) -> np.ndarray:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])


def _rise(pitch: float) -> np.ndarray:
    c, s = np.cos(pitch), np.sin(pitch)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
