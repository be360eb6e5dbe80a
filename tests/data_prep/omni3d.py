"""Small Omni3D files for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from data_prep.data_root import DataRoot
from data_prep.monosr.reader import Release
from data_prep.monosr.scene import CORNER_SIGNS

SAMPLES = Path(__file__).parents[3] / "shared/samples/boxes3d"
"""Real pictures and boxes beside the checkout, where somebody has put them there."""
SAMPLE_SOURCES = {0: "KITTI", 1: "nuScenes", 2: "SUNRGBD"}
CATEGORIES = [{"id": 3, "name": "chair"}, {"id": 5, "name": "table"}, {"id": 9, "name": "car"}]
K = [[500.0, 0.0, 320.0], [0.0, 500.0, 240.0], [0.0, 0.0, 1.0]]


def image(number: int, **changes: Any) -> dict[str, Any]:
    """An image of 640 x 480; a change to None takes the field away."""
    made = {"id": number, "dataset_id": 1, "width": 640, "height": 480, "file_path": f"pictures/{number}.png",
            "K": K, "src_90_rotate": 0, "src_flagged": False}  # fmt: skip
    return changed(made, changes)


def annotation(
    number: int,
    image_id: int,
    center: Sequence[float] = (0.0, 0.0, 5.0),
    dimensions: Sequence[float] = (0.5, 0.9, 0.6),
    yaw: float = 0.3,
    **changes: Any,
) -> dict[str, Any]:
    """A sound chair; `dimensions` are width, height, length in metres. None takes a field away."""
    c, s = np.cos(yaw), np.sin(yaw)
    R = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    size = np.array(dimensions, float)[::-1]
    corners = CORNER_SIGNS * size / 2 @ R.T + np.array(center, float)
    pixels = corners @ np.array(K).T
    pixels = pixels[:, :2] / pixels[:, 2:]
    box = [*pixels.min(0), *pixels.max(0)]
    made = {
        "id": number, "image_id": image_id, "category_id": 3, "category_name": "chair", "valid3D": True,
        "bbox2D_tight": [-1, -1, -1, -1], "bbox2D_proj": box,
        "bbox2D_trunc": [*np.clip(box[:2], 0, (640, 480)), *np.clip(box[2:], 0, (640, 480))],
        "bbox3D_cam": corners.tolist(), "center_cam": list(center), "dimensions": list(dimensions),
        "R_cam": R.tolist(), "behind_camera": False, "visibility": -1, "truncation": -1,
        "segmentation_pts": -1, "lidar_pts": -1, "depth_error": -1,
    }  # fmt: skip
    return changed(made, changes)


def changed(made: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """An image or annotation with some fields changed, or taken away by None."""
    return {key: value for key, value in {**made, **changes}.items() if value is not None}


def put_file(
    root: Path,
    images: Sequence[Any],
    annotations: Sequence[Any],
    name: str = "SUNRGBD_train",
    categories: Sequence[Any] = tuple(CATEGORIES),
    pictures: bool = True,
) -> Path:
    """Write `root/Omni3D/<name>.json`, and pictures for its images."""
    path = root / f"Omni3D/{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "info": {"split": "train"},
        "images": images,
        "categories": categories,
        "annotations": annotations,
    }
    path.write_text(json.dumps(content))
    for one in images if pictures else ():
        if isinstance(one, dict) and isinstance(one.get("file_path"), str) and ".." not in one["file_path"]:
            (root / one["file_path"]).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (640, 480), (90, 120, 150)).save(root / one["file_path"])
    return path


def open_files(root: Path, *names: str, pictures: bool = True) -> Release:
    """The files `names` (SUNRGBD_train where there are none) below `root`, indexed in `root/index`."""
    files = [(name.partition("_")[0], f"Omni3D/{name}.json") for name in names or ("SUNRGBD_train",)]
    return Release(DataRoot(root), files, root / "index", pictures)


def open_samples(folder: Path) -> Release:
    """The real samples, indexed in `folder`."""
    return Release(DataRoot(SAMPLES), [(SAMPLE_SOURCES, "omni3d_mini.json")], folder)
