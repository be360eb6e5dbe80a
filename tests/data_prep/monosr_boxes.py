"""Random scenes of boxes for the tests of MonoSR, in all three domains, and the real sample boxes."""

import json
from pathlib import Path

import numpy as np

from data_prep.monosr.scene import CORNER_SIGNS, Scene

SAMPLES = Path(__file__).parents[3] / "shared/samples/boxes3d"
SOURCE = {"indoor": "SUNRGBD", "outdoor": "KITTI", "object_centric": "Objectron"}
CATEGORIES = {
    "indoor": ("chair", "table", "lamp", "cabinet", "bed", "night stand", "sofa", "window", "desk", "box"),
    "outdoor": ("car", "truck", "pedestrian", "cyclist", "bus", "traffic cone", "barrier"),
    "object_centric": ("cup", "shoe", "bottle", "laptop"),
}
# Least and largest extents (length, height, width) and the range of depths, in metres.
RANGES = {
    "indoor": ((0.2, 0.2, 0.2), (2.0, 1.8, 1.6), (1.5, 8.0)),
    "outdoor": ((0.5, 0.8, 0.5), (6.0, 2.6, 2.2), (6.0, 45.0)),
    "object_centric": ((0.06, 0.06, 0.06), (0.4, 0.35, 0.3), (0.4, 1.4)),
}
PICTURES = ((640, 480), (1242, 375), (480, 640), (1600, 900))


def turn(axis: int, degrees: float) -> np.ndarray:
    """The rotation (3, 3) about one axis of the camera frame."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    first, second = [i for i in range(3) if i != axis]
    matrix = np.eye(3)
    matrix[first, first] = matrix[second, second] = c
    matrix[first, second], matrix[second, first] = -s, s
    return matrix


def random_scene(seed: int, domain: str = "indoor", most: int = 12, tilt: float = 0.0) -> Scene:
    """A scene of 3 to `most` objects (one, if object-centric), each seen whole or cut by the picture's edge.

    `tilt`: most degrees by which a box stands off the vertical.
    """
    rng = np.random.default_rng(seed)
    width, height = PICTURES[seed % len(PICTURES)]
    focal = rng.uniform(0.7, 1.3) * max(width, height)
    K = np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1.0]])
    least, largest, (near, far) = RANGES[domain]
    wanted = 1 if domain == "object_centric" else int(rng.integers(3, most + 1))
    rows: list[tuple] = []
    while len(rows) < wanted:
        z = rng.uniform(near, far)
        pixel = rng.uniform([0, 0], [width, height])
        center = np.linalg.inv(K) @ np.array([*pixel, 1.0]) * z
        size = rng.uniform(least, largest)
        R = (
            turn(1, rng.uniform(-180, 180))
            @ turn(0, rng.uniform(-tilt, tilt))
            @ turn(2, rng.uniform(-tilt, tilt))
        )
        box = seen_box(center, size, R, K, width, height)
        if box is not None:
            rows.append((center, size, R, box, rng.choice(CATEGORIES[domain])))
    source = SOURCE[domain]
    return scene_of(f"{source}/{seed}", source, width, height, K, rows)


def scene_of(name: str, source: str, width: int, height: int, K: np.ndarray, rows: list[tuple]) -> Scene:
    """A scene from (center, size, R, box2d, category) an object; annotation ids count from 100."""
    center, size, R, box, category = zip(*rows, strict=True)
    count = len(rows)
    return Scene(
        name, source, "train", f"{name}.png", width, height, K, tuple(str(100 + i) for i in range(count)),
        tuple(str(one) for one in category), np.array(center), np.array(size), np.array(R), np.array(box),
        np.zeros(count), np.ones(count),
    )  # fmt: skip


def seen_box(
    center: np.ndarray, size: np.ndarray, R: np.ndarray, K: np.ndarray, width: int, height: int
) -> np.ndarray | None:
    """The outline in the picture, cut to it; None where it reaches the camera or shows under 400 px2."""
    corners = CORNER_SIGNS * size / 2 @ R.T + center
    if corners[:, 2].min() < 0.1:
        return None
    pixels = corners @ K.T
    pixels = pixels[:, :2] / pixels[:, 2:]
    low = np.clip(pixels.min(axis=0), 0, [width, height])
    high = np.clip(pixels.max(axis=0), 0, [width, height])
    return np.concatenate([low, high]) if np.prod(high - low) >= 400 else None


def sample_scenes() -> list[Scene]:
    """The ten real sample images with all their boxes; read here by itself, not by the package's reader."""
    content = json.loads((SAMPLES / "omni3d_mini.json").read_text())
    source = {0: "KITTI", 1: "nuScenes", 2: "SUNRGBD"}
    scenes = []
    for image in content["images"]:
        own = [one for one in content["annotations"] if one["image_id"] == image["id"]]
        name = source[image["dataset_id"]]
        rows = [
            (
                one["center_cam"], one["dimensions"][::-1], one["R_cam"],
                np.clip(one["bbox2D_trunc"], 0, [image["width"], image["height"]] * 2), one["category_name"],
            )
            for one in own
        ]  # fmt: skip
        K = np.array(image["K"])
        scene = scene_of(f"{name}/{image['id']}", name, image["width"], image["height"], K, rows)
        scenes.append(
            Scene(**{**vars(scene), "image": image["file_path"], "ids": tuple(str(o["id"]) for o in own)})
        )
    return scenes
