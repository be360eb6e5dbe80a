"""Random scenes with boxes in front of a camera, by numpy alone: no pictures, exact geometry."""

import math

import numpy as np

from data_prep.monosr.scene import Scene, project

CATEGORIES = {
    "indoor": {
        "chair": (0.5, 0.9, 0.5), "table": (1.4, 0.75, 0.8), "sofa": (1.9, 0.8, 0.9),
        "lamp": (0.3, 0.5, 0.3), "cabinet": (0.9, 1.1, 0.5), "bed": (2.0, 0.6, 1.6),
        "bin": (0.3, 0.4, 0.3), "picture": (0.7, 0.5, 0.05), "bookcase": (1.0, 1.9, 0.35),
        "pillow": (0.5, 0.2, 0.4), "desk": (1.3, 0.75, 0.7), "monitor": (0.5, 0.4, 0.1),
    },
    "outdoor": {
        "car": (4.3, 1.5, 1.8), "truck": (8.0, 3.2, 2.5), "pedestrian": (0.5, 1.75, 0.6),
        "bus": (11.0, 3.3, 2.6), "bicycle": (1.7, 1.2, 0.6), "traffic cone": (0.35, 0.7, 0.35),
        "barrier": (2.2, 1.0, 0.5),
    },
    "object_centric": {
        "bottle": (0.08, 0.28, 0.08), "cup": (0.1, 0.11, 0.08), "shoe": (0.28, 0.11, 0.1),
        "book": (0.24, 0.03, 0.17), "laptop": (0.35, 0.25, 0.25), "cereal box": (0.2, 0.3, 0.07),
    },
}  # fmt: skip
"""Domain -> category -> usual length, height, width in metres."""
SOURCE = {"indoor": "Hypersim", "outdoor": "KITTI", "object_centric": "Objectron"}
ROOM = {"indoor": (6.0, 1.5, 9.0), "outdoor": (40.0, 5.0, 60.0), "object_centric": (0.3, 0.4, 1.2)}
"""Domain -> width of the room, nearest and farthest depth."""
EYE = {"indoor": 1.4, "outdoor": 1.6, "object_centric": 0.3}  # metres above the ground
AIRBORNE = {"indoor": 0.35, "outdoor": 0.05, "object_centric": 0.0}  # share of objects off the ground


def rotation_y(angle: float) -> np.ndarray:
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def random_scene(number: int, domain: str = "indoor", count: int | None = None, seed: int = 0) -> Scene:
    """`count` boxes (3 to 25 by chance; one where object-centric), the same for the same arguments."""
    rng = np.random.default_rng((seed, number, sorted(CATEGORIES).index(domain)))
    if count is None:
        count = 1 if domain == "object_centric" else int(rng.integers(3, 26))
    width, near, far = ROOM[domain]
    names = list(CATEGORIES[domain])
    categories = tuple(names[k] for k in rng.integers(0, len(names), count))
    usual = np.array([CATEGORIES[domain][name] for name in categories])
    size = usual * rng.uniform(0.7, 1.4, (count, 3))
    depth = rng.uniform(near, far, count)
    x = rng.uniform(-0.5, 0.5, count) * np.minimum(width, 1.1 * depth)
    lift = np.where(rng.random(count) < AIRBORNE[domain], rng.uniform(0.5, 1.8, count), 0.0)
    y = EYE[domain] - size[:, 1] / 2 - lift
    tilt = np.stack([rotation_y(angle) for angle in rng.uniform(-math.pi, math.pi, count)])
    K = np.array([[600.0, 0.0, 320.0], [0.0, 600.0, 240.0], [0.0, 0.0, 1.0]])
    center = np.stack([x, y, depth], axis=1)
    scene = Scene(
        f"{SOURCE[domain]}/{number}", SOURCE[domain], "train", f"{SOURCE[domain]}/{number}.jpg", 640, 480, K,
        tuple(f"{number}.{k}" for k in range(count)), categories, center, size, tilt,
        np.zeros((count, 4)), np.full(count, np.nan), np.full(count, np.nan),
    )  # fmt: skip
    pixels = project(scene.corners, K)
    low, high = np.nanmin(pixels, axis=1), np.nanmax(pixels, axis=1)
    scene.box2d[:] = np.clip(np.concatenate([low, high], axis=1), 0, [640, 480, 640, 480])
    return scene
