"""A dozen test questions for the report, with their pictures and what every stage answered."""

import base64
import io
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from data_prep.rows import Row

COUNT = 12
LONGEST_SIDE = 360  # pixels of an embedded picture
LONGEST_TEXT = 4000  # characters of a completion that are shown
KINDS = {
    "fixed": "{before} was wrong, {last} is right",
    "right": "right, before and after",
    "wrong": "wrong, before and after",
    "broken": "{before} was right, {last} is wrong",
}

Predictions = Mapping[str, Mapping[str, Any]]


def choose(stages: Sequence[Predictions], seed: int = 0, count: int = COUNT) -> list[tuple[str, str]]:
    """(id, kind) of up to `count` rows in the order of KINDS, taken in turn from the kinds that have any.

    `stages` are predictions by id, earliest stage first; all hold the same rows. The choice depends on
    the seed, never on how an answer looks.
    """
    last, before = stages[-1], stages[-2] if len(stages) > 1 else stages[-1]
    pools: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in sorted(last):
        pools[_kind(before[name]["correct"], last[name]["correct"])].append(name)
    for kind, pool in pools.items():
        random.Random(f"{seed}/{kind}").shuffle(pool)
    chosen: list[tuple[str, str]] = []
    while len(chosen) < count and any(pools.values()):
        for kind, pool in pools.items():
            if pool and len(chosen) < count:
                chosen.append((pool.pop(), kind))
    order = list(KINDS)
    return sorted(chosen, key=lambda pick: order.index(pick[1]))


def describe(
    row: Row, kind: str, images: Path, answers: Sequence[tuple[str, str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """What the template shows of one row; `answers` are (style, label, prediction), earliest stage first."""
    labels = [label for _, label, _ in answers]
    return {
        "row": row,
        "kind": KINDS[kind].format(before=labels[-2] if len(labels) > 1 else labels[-1], last=labels[-1]),
        "pictures": [embed(images / image.path) for image in row.images],
        "answers": [
            {
                "style": style,
                "label": label,
                "text": prediction["completion"][:LONGEST_TEXT],
                "cut": len(prediction["completion"]) > LONGEST_TEXT,
                **prediction,
            }
            for style, label, prediction in answers
        ],
    }


def embed(path: Path, side: int = LONGEST_SIDE) -> str:
    """A data URI of the picture, its longer side at most `side` pixels.

    Small drawings stay lossless, photographs become JPEG.
    """
    with Image.open(path) as stored:
        picture = stored.convert("RGB")
    small = max(picture.size) <= 128
    picture.thumbnail((side, side))
    content = io.BytesIO()
    picture.save(content, "PNG" if small else "JPEG", optimize=True, **({} if small else {"quality": 82}))
    encoded = base64.b64encode(content.getvalue()).decode()
    return f"data:image/{'png' if small else 'jpeg'};base64,{encoded}"


def _kind(before: bool, now: bool) -> str:
    if now:
        return "right" if before else "fixed"
    return "broken" if before else "wrong"
