"""Rows that the paper's evaluation toolkit drops, or asks with other pictures, by accident of its look-up.

We read every such question and score it; `meta["toolkit"]` of its row says what the toolkit would do, and an
evaluation lists them (`official.json`). Each function returns [] for a row that both see alike.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from data_prep.cvsbench import fields
from data_prep.cvsbench.layout import SourceFile
from data_prep.cvsbench.pictures import COMPOSITE_KEYS, SATELLITE_KEYS, STREET_KEYS, PictureFinder

Difference = dict[str, str]
"""`rule`, a short name, and `toolkit`, what it would do with the row."""

MARKED_LEVEL = 3
_SAMPLE_KEYS = ("sample_id", "sample", "img_id")  # not `id`, which we read too
_BOXED = {"s2g": ("satellite", "G2S"), "g2s": ("street", "S2G")}


def vqa_differences(
    source: SourceFile, finder: PictureFinder, question: Mapping[str, Any], shown: list[str]
) -> list[Difference]:
    """Of a g2s or s2g question; `shown` are the pictures that we show, relative to the data root."""
    view = toolkit_view(question)
    if source.task == "g2s" and view == "0":
        return _symmetry(source, finder, shown)
    named = _first(question, STREET_KEYS if source.task == "g2s" else SATELLITE_KEYS)
    if found := finder.named(named):
        return _other(found, shown, "plain_satellite" if source.task == "s2g" else "other_picture")
    if not named:
        return [
            _dropped("no_path", "the row names no picture, and its naming rules need a path to start from")
        ]
    if source.subset == "cvusa":
        if source.task == "s2g":
            return [_dropped("cvusa_s2g_path", "it finds the picture by its name and loses it again")]
        found = finder.named(f"cvusa/data/streetview/{named.rpartition('/')[2]}")
    elif source.task == "g2s":
        found = finder.named(f"fov/data/street/{_sample(question)}/{view}.jpg")
    else:
        found = _arrow(finder, question, view)
    return _other(found, shown, "other_picture") if found else [_dropped("no_picture", "its rules find none")]


def composite_differences(
    finder: PictureFinder, question: Mapping[str, Any], folder: str, shown: list[str]
) -> list[Difference]:
    """Of a gs_view question; `folder` holds the composites of its part."""
    for key in COMPOSITE_KEYS:
        if found := finder.named(_first(question, (key,))):
            return _other(found, shown, "not_the_composite")
    sample = _sample(question)
    found = next((f"{folder}/{name}" for name in finder.names(folder) if name.startswith(f"{sample}_")), None)
    return _other(found, shown, "other_view") if found else [_dropped("no_picture", "its rules find none")]


def grounding_differences(
    finder: PictureFinder,
    record: Mapping[str, Any],
    question: Mapping[str, Any],
    direction: str,
    shown: list[str],
) -> list[Difference]:
    """Of a grounding question of `direction`, source picture first in `shown`."""
    found = []
    task = str(record.get("task") or "").lower()
    if ("s2g" if "sat2ground" in task or "s2g" in task else "g2s") != direction:
        found.append(
            _does("direction", f"takes the question for the other direction: its task says {task!r}")
        )
    level, third = question.get("level"), fields.level(question) == MARKED_LEVEL
    if third and level != MARKED_LEVEL:
        found.append(_does("level_text", f"sends the source picture without its box: the level is {level!r}"))
    elif third:
        view, suffix = _BOXED[direction]
        subset = "fov" if "fov" in str(record.get("dataset") or "").lower() else "cvusa"
        image_id = record.get("img_id")
        ids = (image_id, image_id.split("_")[0]) if isinstance(image_id, str) else (image_id,)
        names = [f"{subset}/gs_grounding/bbox_images/{view}/{i}_{suffix}_bbox.jpg" for i in ids]
        if not any(name == shown[0] for name in names):
            found.append(_dropped("boxed_picture", f"it looks for {names[0]} alone"))
    for key, path in list(zip(("source_image", "target_image"), shown, strict=True))[1 if third else 0 :]:
        sent = finder.named(_first(record, (key,)))
        if sent is None:
            found.append(
                _dropped("grounding_path", f"the path under {key} leads nowhere, and it has no other rule")
            )
        elif sent != path:
            found += _other(sent, [path], "other_picture")
    return found


def resume_differences(repeated: bool) -> list[Difference]:
    """Of a flat question without a number; `repeated`: another one on its picture and view came before."""
    why = "an earlier question on the same picture and view has the same key"
    return [_does("resume_collision", f"skips the row when it resumes a run: {why}")] if repeated else []


def noted(differences: list[Difference]) -> dict[str, list[Difference]]:
    """What a row's `meta` says of them: nothing where there are none."""
    return {"toolkit": differences} if differences else {}


def toolkit_view(question: Mapping[str, Any]) -> str:
    """The view as the toolkit reads it: a `view_id` that is there but null hides `view`."""
    return str(question["view_id"] if "view_id" in question else question.get("view", "NA"))


def _symmetry(source: SourceFile, finder: PictureFinder, shown: list[str]) -> list[Difference]:
    folder = "cvusa/data/streetview" if source.subset == "cvusa" else shown[0].rpartition("/")[0]
    if source.subset == "cvusa":
        return [_does("view_zero", f"sends every picture of {folder}")]
    extra = [name for name in finder.names(folder) if f"{folder}/{name}" not in shown]
    return [_does("extra_photo", f"sends {', '.join(extra)} of {folder} too")] if extra else []


def _arrow(finder: PictureFinder, question: Mapping[str, Any], view: str) -> str | None:
    """The picture with the arrow under the name that the toolkit makes; it counts view 0 as missing."""
    try:
        folder = f"{int(_sample(question)):04d}"  # as there, an underscore between digits is read over
    except ValueError:
        return None
    return (
        None
        if view in ("0", "NA", "None")
        else finder.named(f"fov/data/satellite_arrow/{folder}/view_{view}_annotated.jpg")
    )


def _other(found: str, shown: list[str], rule: str) -> list[Difference]:
    return [] if [found] == shown else [_does(rule, f"sends {found}")]


def _first(record: Mapping[str, Any], keys: Iterable[str]) -> str:
    return next((str(record[key]).strip() for key in keys if record.get(key) not in (None, "")), "")


def _sample(question: Mapping[str, Any]) -> str:
    return _first(question, _SAMPLE_KEYS)


def _dropped(rule: str, why: str) -> Difference:
    return _does(rule, f"drops the row: {why}")


def _does(rule: str, what: str) -> Difference:
    return {"rule": rule, "toolkit": what}
