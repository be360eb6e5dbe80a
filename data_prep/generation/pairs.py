"""The user's image pairs: which pictures belong together, and what is annotated on them.

    cvusa/data/streetview/<id>.jpg          panorama; its middle looks to the satellite picture's top
    cvusa/data/bingmap/input<id>.png        satellite picture, the panorama's place in its middle
    cvusa/boxes.json                        boxes of the same things in both (optional)
    fov/data/street/<sample>/<view>.jpg     photos, views 1, 2, ...
    fov/data/satellite/<sample>.jpg         satellite picture, square (or <sample>/<sample>.jpg)
    fov/arrows.json                         cameras on the satellite pictures (or .jsonl)
    fov/boxes.json                          boxes (optional)
    fov/data/unsuitable/<sample>.png        bright where no camera may stand (optional)

Folders and names are CVSBench's own; jpg, jpeg and png are taken everywhere. Names hold no "_". The
annotations are in the paper's form (`data_prep.cvsbench.annotations`); the key of a box pair is
<sample>_<view>, in CVUSA <id>.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from data_prep.cvsbench.annotations import BoxPair, box_pairs, read_json, read_viewpoints
from data_prep.cvsbench.fields import FieldError
from data_prep.cvsbench.pictures import scene_id
from data_prep.data_root import DataRoot, EscapesRootError
from data_prep.errors import UserError
from data_prep.generation.arrows import Arrow
from data_prep.quarantine import Quarantined

EXTENSIONS = ("jpg", "jpeg", "png")


@dataclass(frozen=True)
class View:
    """A street picture of a scene; `name` is "NA" in CVUSA. `path` is relative to the pairs' folder."""

    name: str
    path: str
    arrow: Arrow | None = None
    boxes: tuple[BoxPair, ...] = ()


@dataclass(frozen=True)
class Scene:
    """An image group: one satellite picture and the street pictures of the same place."""

    subset: str
    name: str
    satellite: str
    views: tuple[View, ...]
    unsuitable: str | None = None

    @property
    def group(self) -> str:
        return f"{self.subset}/{self.name}"

    @property
    def pictures(self) -> list[str]:
        """Those that a release holds."""
        return [self.satellite, *(view.path for view in self.views)]


@dataclass(frozen=True)
class Aside:
    """What was left out: `id` of the pair, box or question, the step that left it out, and why."""

    id: str
    step: str
    reason: str
    kinds: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "step": self.step, "reason": self.reason, "kinds": list(self.kinds)}


def view_id(view: str) -> int | str:
    """A view as the release's rows have it."""
    return int(view) if view.isdecimal() else view


def read_pairs(root: DataRoot, subsets: Sequence[str]) -> tuple[list[Scene], list[Aside]]:
    """The scenes of the folder, by subset and name, and what could not be paired.

    Raises:
        UserError: a subset has no pair, or an annotation file cannot be read.
    """
    scenes: list[Scene] = []
    aside: list[Aside] = []
    for subset in subsets:
        found = list((_cvusa if subset == "cvusa" else _fov)(root, aside))
        if not found:
            raise UserError(
                f"generation.pairs={root.path} has no pair in {subset}/data: see"
                " data_prep/generation/pairs.py for the names, or leave it out with generation.subsets=."
            )
        scenes += found
    return scenes, aside


def _cvusa(root: DataRoot, aside: list[Aside]) -> Iterator[Scene]:
    streets, tops = (_stems(root, f"cvusa/data/{folder}") for folder in ("streetview", "bingmap"))
    tops = {stem.removeprefix("input"): path for stem, path in tops.items()}
    boxes = _boxes(root, "cvusa", aside)
    for name in sorted({*streets, *tops}):
        missing = "panorama" if name not in streets else "satellite picture" if name not in tops else ""
        if _sound(f"cvusa/{name}", missing, aside):
            view = View("NA", streets[name], None, boxes.pop(scene_id(name, "cvusa"), ()))
            yield Scene("cvusa", name, tops[name], (view,))
    _left_over(boxes, "cvusa", "box", aside)


def _fov(root: DataRoot, aside: list[Aside]) -> Iterator[Scene]:
    folder = root.path / "fov/data/street"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    arrows, boxes = _arrows(root, aside), _boxes(root, "fov", aside)
    tops, masks = (_stems(root, f"fov/data/{folder}") for folder in ("satellite", "unsuitable"))
    for name in names:
        top = tops.get(name) or _stems(root, f"fov/data/satellite/{name}").get(name)
        streets = _stems(root, f"fov/data/street/{name}")
        streets.pop("0", None)  # view 0 means all photos of the scene
        missing = "satellite picture" if top is None else "" if streets else "street photo"
        if not _sound(f"fov/{name}", missing, aside):
            continue
        scene = scene_id(name, "fov")
        views = tuple(
            View(stem, path, arrows.pop((scene, stem), None), boxes.pop(f"{scene}_{stem}", ()))
            for stem, path in sorted(streets.items())
        )
        assert top is not None
        yield Scene("fov", name, top, views, masks.get(name))
    _left_over(boxes, "fov", "box", aside)
    _left_over([f"{scene}_{view}" for scene, view in arrows], "fov", "arrow", aside)


def _sound(group: str, missing: str, aside: list[Aside]) -> bool:
    reason = f"it has no {missing}" if missing else ""
    if "_" in group:
        reason = "its name holds '_', at which CVSBench's readers cut an id: rename it"
    if reason:
        aside.append(Aside(group, "pairing", reason))
    return not reason


def _left_over(keys: Iterable[str], subset: str, what: str, aside: list[Aside]) -> None:
    aside += [Aside(f"{subset}/{key}", "annotation", f"its {what} belongs to no picture") for key in keys]


def _stems(root: DataRoot, folder: str) -> dict[str, str]:
    """File stem -> path, for the pictures of a folder; of one stem the first extension counts."""
    try:
        names = root.files(folder)
    except EscapesRootError as error:
        raise UserError(f"generation.pairs: {error}.") from error
    found: dict[str, str] = {}
    for extension in EXTENSIONS:
        for name in names:
            stem, _, ending = name.rpartition(".")
            if ending.lower() == extension:
                found.setdefault(stem, f"{folder}/{name}")
    return found


def _arrows(root: DataRoot, aside: list[Aside]) -> dict[tuple[str, str], Arrow]:
    """(scene, view) -> camera."""
    path = next(
        (p for p in (root.path / "fov/arrows.json", root.path / "fov/arrows.jsonl") if p.is_file()), None
    )
    arrows: dict[tuple[str, str], Arrow] = {}
    for item in [] if path is None else read_viewpoints(path):
        if isinstance(item, Quarantined):
            aside.append(Aside(f"fov/{item.id}", "annotation", item.reason))
            continue
        key = (scene_id(item.sample_id, "fov"), item.view_id)
        if key in arrows:
            reason = "its camera is given twice; the first is kept"
            aside.append(Aside(f"fov/{key[0]}_{key[1]}", "annotation", reason))
            continue
        arrows[key] = Arrow(item.x, item.y, item.angle)
    return arrows


def _boxes(root: DataRoot, subset: str, aside: list[Aside]) -> dict[str, tuple[BoxPair, ...]]:
    """Scene, in FOV with "_" and the view, -> its box pairs."""
    path = root.path / subset / "boxes.json"
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise UserError(f'{path} must be one object, {{"0842_1": {{"rs": [...], "sv": [...]}}}}. Mend it.')
    found: dict[str, tuple[BoxPair, ...]] = {}
    for key, entry in content.items():
        scene, _, view = key.partition("_")
        try:
            pairs = tuple(box_pairs(key, entry))
        except FieldError as error:
            aside.append(Aside(f"{subset}/{key}", "annotation", str(error)))
            continue
        found["_".join(filter(None, (scene_id(scene, subset), view)))] = pairs
    return found
