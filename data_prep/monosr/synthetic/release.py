"""Write synthetic scenes as an Omni3D release: one annotation file a source and split, and pictures."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from PIL import Image

from data_prep.atomic import replacing
from data_prep.monosr.scene import SOURCES, Scene
from data_prep.monosr.synthetic import world
from data_prep.monosr.synthetic.render import render
from data_prep.monosr.synthetic.things import THINGS, categories

FIRST = {"train": 0, "val": 1_000_000, "test": 2_000_000, "pretraining": 3_000_000}
"""Number of a split's first picture: splits never share one. The last is no split of a release."""


def write_release(
    root: Path,
    seed: int,
    pictures: dict[str, int],
    sources: Sequence[str] = tuple(SOURCES),
    side: int | None = None,
    draw: bool = True,
    on_progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Write `root/Omni3D/<source>_<split>.json` and the pictures that they name.

    The same arguments give the same bytes, and more pictures leave the earlier ones as they are. Truncation
    is the share of the projected box outside the picture; visibility is counted in pixels, or, with
    `draw=False`, told by rays at one grid a box.

    Args:
        pictures: split (train, val, test) -> pictures, dealt evenly to the sources.
        side: a picture has as many pixels as a square of that side; None takes the real source's size.
        draw: False writes annotations alone, at any number of pictures with flat memory.
        on_progress: called with the number of pictures done.
    """
    done = 0
    for split, total in pictures.items():
        for source, numbers in dealt(split, total, sources):
            made = (
                drawn(root, source, seed, numbers, side, split)
                if draw
                else _told(source, seed, numbers, side, split)
            )
            with replacing(root / f"Omni3D/{source}_{split}.json") as temporary:
                _write_file(temporary, source, split, made, lambda n, before=done: on_progress(before + n))
            done += len(numbers)


def dealt(split: str, total: int, sources: Sequence[str] = tuple(SOURCES)) -> Iterator[tuple[str, range]]:
    """`total` pictures of a split dealt evenly: each source that gets any, with its pictures' numbers."""
    for place, source in enumerate(sources):
        if count := total // len(sources) + (place < total % len(sources)):
            yield source, range(FIRST[split], FIRST[split] + count)


def _told(
    source: str, seed: int, numbers: range, side: int | None, split: str
) -> Iterator[tuple[Scene, np.ndarray]]:
    for scene in world.scenes(source, seed, numbers, side, split):
        yield scene, np.full((len(scene), 4), -1.0)


def drawn(
    root: Path, source: str, seed: int, numbers: range, side: int | None, split: str
) -> Iterator[tuple[Scene, np.ndarray]]:
    """Scenes whose pictures are written below `root` on the way, with the tight 2D boxes (n, 4)."""
    K, width, height = world.camera(source, side)
    domain = SOURCES[source]
    things = THINGS[domain]
    for number, boxes in zip(numbers, world.boxes(source, seed, numbers, side), strict=True):
        rng = np.random.default_rng([seed, 1, number])
        base = np.array([things[t].colour for t in boxes.thing], float).reshape(-1, 3)
        colours = base * rng.uniform(0.85, 1.15, (len(base), 1))
        made = render(
            K, width, height, boxes.center, boxes.size, boxes.R, boxes.shown, colours, domain, boxes.ground
        )
        path = world.picture_path(source, number)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(made.picture).save(root / path, compress_level=4)
        yield (
            Scene(
                f"{source}/{number}", source, split, path, width, height, K,
                world.annotation_ids(number, len(boxes.thing)), tuple(things[t].name for t in boxes.thing),
                boxes.center, boxes.size, boxes.R, boxes.shown, boxes.truncation, made.visibility,
            ),
            made.tight,
        )  # fmt: skip


def _write_file(
    path: Path,
    source: str,
    split: str,
    made: Iterator[tuple[Scene, np.ndarray]],
    on_progress: Callable[[int], None],
) -> None:
    """One Omni3D file. Annotations come after the images, so they wait in a file beside it."""
    known = categories()
    dataset = list(SOURCES).index(source)
    later = path.with_name(path.name + ".annotations")
    name = f"{source} {split} (synthetic)"
    info = {"id": name, "source": dataset, "name": name, "split": split, "version": "1", "url": ""}
    try:
        with open(path, "wb") as out, open(later, "w+b") as annotations:
            out.write(b'{"info": ' + json.dumps(info).encode() + b', "images": [')
            for count, (scene, tight) in enumerate(made, start=1):
                out.write((b",\n" if count > 1 else b"\n") + orjson.dumps(_image(scene, dataset)))
                for record in _annotations(scene, tight, known):
                    annotations.write((b",\n" if annotations.tell() else b"\n") + orjson.dumps(record))
                if count % 64 == 0:
                    on_progress(count)
            listed = [{"id": i, "name": name, "supercategory": ""} for name, i in known.items()]
            out.write(b'], "categories": ' + json.dumps(listed).encode() + b', "annotations": [')
            annotations.seek(0)
            while piece := annotations.read(2**20):
                out.write(piece)
            out.write(b"]}")
    finally:
        later.unlink(missing_ok=True)


def _image(scene: Scene, dataset: int) -> dict[str, Any]:
    return {
        "id": int(scene.id.split("/")[1]),
        "dataset_id": dataset,
        "width": scene.width,
        "height": scene.height,
        "file_path": scene.image,
        "K": scene.K.tolist(),
        "src_90_rotate": 0,
        "src_flagged": False,
    }


def _annotations(scene: Scene, tight: np.ndarray, known: dict[str, int]) -> Iterator[dict[str, Any]]:
    image = int(scene.id.split("/")[1])
    corners, center = scene.corners.round(6).tolist(), scene.center.round(6).tolist()
    size, R = scene.size[:, ::-1].tolist(), scene.R.round(8).tolist()
    shown, tight = scene.box2d.round(3).tolist(), tight.tolist()
    for i, name in enumerate(scene.categories):
        yield {
            "id": int(scene.ids[i]),
            "image_id": image,
            "category_id": known[name],
            "category_name": name,
            "valid3D": True,
            "bbox2D_tight": tight[i],
            "bbox2D_proj": shown[i],
            "bbox2D_trunc": shown[i],
            "bbox3D_cam": corners[i],
            "center_cam": center[i],
            "dimensions": size[i],
            "R_cam": R[i],
            "behind_camera": False,
            "visibility": round(float(scene.visibility[i]), 4),
            "truncation": round(float(scene.truncation[i]), 4),
            "segmentation_pts": -1,
            "lidar_pts": -1,
            "depth_error": -1,
        }
