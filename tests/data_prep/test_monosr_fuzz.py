"""Omni3D files with anything in any place: never a crash, and never a scene with what is not finite."""

import json
import random
from copy import deepcopy

import numpy as np
import pytest
from omni3d import CATEGORIES, annotation, image

from data_prep.data_root import DataRoot
from data_prep.monosr.filter import Thresholds, observe
from data_prep.monosr.reader import Release

VALUES = (
    None, True, False, 0, -1, 1, 0.5, -3.25, 1e308, 5e-324, 2**63, -(2**70), float("nan"), float("inf"),
    "", "x", "\ud800", "../../x", "a\0b", [], [1], [[1, 2, 3]] * 3, [[0, 0, 0]] * 3, [[1e200, 0, 0]] * 3,
    ["1", "2", "3"], [None] * 4, {}, {"id": 1}, [[[1]]],
)  # fmt: skip


def document() -> dict:
    images = [image(n) for n in range(3)]
    annotations = [
        annotation(10 * n + k, n, center=(k - 1.5, 0.1, 4.0 + k), visibility=0.9 if k % 2 else -1)
        for n in range(3)
        for k in range(4)
    ]
    made = {"info": {}, "images": images, "categories": CATEGORIES, "annotations": annotations}
    return deepcopy(made)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """The path of every value inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in [(*path, key), *places(inner, (*path, key))]]


def check(folder, content: bytes) -> int:
    """Read and filter a file; how many objects are left."""
    path = folder / "Omni3D/SUNRGBD_train.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    release = Release(
        DataRoot(folder), [("SUNRGBD", "Omni3D/SUNRGBD_train.json")], folder / "index", pictures=False
    )
    left = 0
    for fault in release.faults():
        json.dumps(fault.to_json(), allow_nan=False).encode("utf-8")
        assert fault.reason
    for judged in observe(release.scenes(), Thresholds()):
        if judged.scene is not None:
            scene = judged.scene
            left += len(scene)
            for values in (scene.center, scene.size, scene.R, scene.box2d, scene.K, scene.corners):
                assert np.isfinite(values).all()
            assert (scene.size > 0).all()
            assert len(set(scene.ids)) == len(scene)
            assert all(scene.categories)
    return left


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("error")
def test_any_value_in_any_place(tmp_path, seed):
    rng = random.Random(seed)
    left = []
    for _ in range(40):
        made = document()
        for place in rng.sample(places(made), rng.choice((1, 1, 3))):
            inner = made
            for key in place[:-1]:
                inner = inner[key] if isinstance(inner, list | dict) and _has(inner, key) else {}
            if isinstance(inner, dict | list) and _has(inner, place[-1]):
                inner[place[-1]] = rng.choice(VALUES)
        left.append(check(tmp_path, json.dumps(made).encode("utf-8")))
    assert max(left) == 12
    assert min(left) < 12


def _has(inner: dict | list, key: object) -> bool:
    return key in inner if isinstance(inner, dict) else isinstance(key, int) and key < len(inner)


@pytest.mark.parametrize("seed", range(3))
def test_any_byte_in_any_place(tmp_path, seed):
    rng = random.Random(seed)
    content = json.dumps(document()).encode("utf-8")
    left = []
    for _ in range(30):
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 5))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        left.append(check(tmp_path, bytes(changed)))
    assert 0 in left
    assert max(left) > 8
