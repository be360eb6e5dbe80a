"""What the observability filter did: how many fell at each stage, by source, with example pictures.

observability.json   the numbers
observability.md     the same as tables, with the pictures
observability/       <reason>-<number>.jpg: what fell is red and labelled, what was left is green
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from data_prep.atomic import write_json, write_text
from data_prep.monosr.filter import REASONS, STAGE_OF, STAGES, Judged, Thresholds
from data_prep.monosr.scene import EDGES, project
from data_prep.monosr.sources import DOMAINS, SOURCES
from data_prep.splits import rank

EXAMPLES = 3  # pictures of a reason
SIDE = 960  # pixels of an example's longer side, at most
COUNTED = ("pictures", "objects", "pictures_left", "objects_left", "pairs", "pairs_close")
_FELL, _LEFT, _OTHER = (225, 40, 40), (40, 170, 60), (150, 150, 150)
_MEASURE = {
    "truncated": "truncation", "occluded": "occlusion", "small": "area", "inconsistent": "discrepancy",
}  # fmt: skip


class FilterTally:
    """Counts of judged scenes, and of every reason the examples that chance (by the scene's id) has drawn.

    Tallies of several processes may be merged, in any order, to the same result.

    Args:
        separation: pixels; two objects whose projected centres lie closer are too close for a relation
            (stage 4).
    """

    def __init__(self, separation: float = 0.0) -> None:
        self.separation = separation
        self.counts: dict[str, Counter[str]] = {}
        self.categories: Counter[str] = Counter()  # of the objects that are left
        self._examples: dict[tuple[str, str], list[tuple[float, str, Judged]]] = {}  # by reason and source

    def add(self, judged: Judged) -> None:
        counts = self.counts.setdefault(judged.full.source, Counter())
        kept = np.flatnonzero(judged.reasons < 0)
        left = len(kept)
        counts.update(pictures=1, pictures_left=int(left > 0), objects=len(judged.full), objects_left=left)
        self.categories.update(judged.full.categories[i] for i in kept)
        close = _close(project(judged.full.center[kept], judged.full.K), self.separation)
        counts.update(pairs=left * (left - 1) // 2, pairs_close=close)
        place = rank("example", judged.full.id, 0)
        for number, count in enumerate(np.bincount(judged.reasons[judged.reasons >= 0]).tolist()):
            if count:
                counts[REASONS[number]] += count
                self._offer(REASONS[number], (place, judged.full.id, judged))

    def merge(self, other: "FilterTally") -> None:
        for source, counts in other.counts.items():
            self.counts.setdefault(source, Counter()).update(counts)
        self.categories.update(other.categories)
        for (reason, _), found in other._examples.items():
            for one in found:
                self._offer(reason, one)

    def _offer(self, reason: str, one: tuple[float, str, Judged]) -> None:
        kept = self._examples.setdefault((reason, one[2].full.source), [])
        if len(kept) < EXAMPLES or one[:2] < kept[-1][:2]:
            kept.append(one)
            kept.sort(key=lambda example: example[:2])
            del kept[EXAMPLES:]

    def shown(self) -> Iterator[tuple[str, list[Judged]]]:
        """Of every reason its examples, one of each domain first, then one of each source."""
        of_domain = {domain: [s for s, own in SOURCES.items() if own == domain] for domain in DOMAINS}
        order = sorted(SOURCES, key=lambda source: of_domain[SOURCES[source]].index(source))
        for reason in REASONS:
            own = [self._examples.get((reason, source), []) for source in order]
            in_turn = [found[n] for n in range(EXAMPLES) for found in own if n < len(found)]
            yield reason, [judged for _, _, judged in in_turn[:EXAMPLES]]

    def summary(self, thresholds: Thresholds, left_out: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """The numbers of the report.

        Args:
            left_out: source -> why annotations cannot be used -> how many (`Index.summary["left_out"]`).
        """
        total: Counter[str] = Counter()
        for counts in self.counts.values():
            total.update(counts)
        return {
            "thresholds": {**asdict(thresholds), "separation": self.separation},
            "sources": {name: _staged(self.counts[name]) for name in SOURCES if name in self.counts},
            "all": _staged(total),
            "unusable": {name: dict(found) for name, found in left_out.items()},
        }


def _close(pixels: np.ndarray, separation: float) -> int:
    """Pairs of points (n, 2) that lie less than `separation` pixels apart."""
    one, other = np.triu_indices(len(pixels), 1)
    return int((np.hypot(*(pixels[one] - pixels[other]).T) < separation).sum())


def _staged(counts: Counter[str]) -> dict[str, Any]:
    plain = {name: counts[name] for name in COUNTED}
    return plain | {stage: {reason: counts[reason] for reason in own} for stage, own in STAGES.items()}


def write_report(
    folder: Path, tally: FilterTally, summary: dict[str, Any], find: Callable[[str], Path | None]
) -> None:
    """Write the report into `folder`.

    Args:
        find: the file of a scene's picture, or None: then no example shows it.
    """
    pictures = folder / "observability"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    named: dict[str, list[str]] = {}
    for reason, found in tally.shown():
        for judged in found:
            file = find(judged.full.image)
            if file is not None:
                name = f"{reason}-{len(named.setdefault(reason, [])) + 1}.jpg"
                draw(judged, reason, file).save(pictures / name, quality=90, subsampling=0)
                named[reason].append(f"![{judged.full.id}](observability/{name})\n{judged.full.id}")
    write_json(folder / "observability.json", summary)
    write_text(folder / "observability.md", "\n".join(_page(summary, named)) + "\n")


def _page(summary: dict[str, Any], named: Mapping[str, list[str]]) -> Iterator[str]:
    yield "# What the observability filter let through\n"
    limits = ", ".join(f"{name} {value:g}" for name, value in summary["thresholds"].items())
    yield f"Limits: {limits}. Every object counts at the first stage that it fails.\n"
    sources = [*summary["sources"], "all"]
    columns = [*summary["sources"].values(), summary["all"]]
    yield "|  | " + " | ".join(sources) + " |"
    yield "|---|" + "---|" * len(sources)
    yield _line("pictures", [c["pictures"] for c in columns])
    yield _line("objects", [c["objects"] for c in columns])
    for number, (stage, reasons) in enumerate(STAGES.items(), start=1):
        yield _line(f"**{number}. {stage}**", [sum(c[stage].values()) for c in columns])
        for reason in reasons:
            yield _line(reason.replace("_", " "), [c[stage][reason] for c in columns])
    yield _line("**objects left**", [c["objects_left"] for c in columns])
    yield _line("**pictures left**", [c["pictures_left"] for c in columns])
    yield _line("**4. ambiguity**", [c["pairs_close"] for c in columns])
    yield _line("of pairs of objects", [c["pairs"] for c in columns])
    apart = summary["thresholds"]["separation"]
    yield "\nStage 4 refuses questions, not objects: how two lie to each other is not asked where"
    yield f"their projected centres are less than {apart:g} px apart."
    yield "\nUnusable boxes by cause:\n"
    causes = list(dict.fromkeys(cause for own in summary["unusable"].values() for cause in own))
    yield "| source | " + " | ".join(cause.replace("_", " ") for cause in causes) + " |"
    yield "|---|" + "---|" * len(causes)
    for source, own in summary["unusable"].items():
        yield _line(source, [own.get(cause, 0) for cause in causes])
    for reason, found in named.items():
        yield f"\n## {STAGE_OF[reason]}: {reason.replace('_', ' ')}\n"
        yield "\n\n".join(found)


def _line(name: str, values: Iterable[int]) -> str:
    return f"| {name} | " + " | ".join(f"{value:,}" for value in values) + " |"


def draw(judged: Judged, reason: str, file: Path) -> Image.Image:
    """The picture with its boxes: red what fell for `reason`, green what was left, grey the rest.

    Raises:
        OSError: the picture cannot be read.
    """
    scene, number = judged.full, REASONS.index(reason)
    with Image.open(file) as opened:
        picture = opened.convert("RGB")
    scale = min(1.0, SIDE / max(picture.size))
    picture = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    # By the size that the annotations speak of: a file may be stored smaller.
    factor = np.array([picture.width / scene.width, picture.height / scene.height])
    pencil = ImageDraw.Draw(picture)
    corners = project(scene.corners, scene.K) * factor
    boxes = scene.box2d * factor[[0, 1, 0, 1]]
    for i in np.argsort(judged.reasons == number, kind="stable"):
        fell = judged.reasons[i] == number
        colour = _FELL if fell else _LEFT if judged.reasons[i] < 0 else _OTHER
        lines = [(corners[i, a], corners[i, b]) for a, b in EDGES if np.isfinite(corners[i, [a, b]]).all()]
        for one, other in lines:
            pencil.line([*_near(one, picture), *_near(other, picture)], colour, 2 if fell else 1)
        if np.isfinite(boxes[i]).all() and (fell or not lines):
            pencil.rectangle(list(map(float, boxes[i])), outline=colour)
        if fell:
            anchor = boxes[i, :2] if np.isfinite(boxes[i]).all() else np.zeros(2)
            _label(pencil, picture, anchor, _caption(judged, int(i), reason))
    return picture


def _near(point: np.ndarray, picture: Image.Image) -> tuple[float, float]:
    """A point that Pillow can draw to: those just in front of the camera project millions of pixels away."""
    far = 20 * max(picture.size)
    return tuple(float(v) for v in np.clip(point, -far, far))  # type: ignore[return-value]


def _caption(judged: Judged, i: int, reason: str) -> str:
    name = judged.full.categories[i]
    if measure := _MEASURE.get(reason):
        value = judged.measures[measure][i]
        return f"{name}: {measure} {value:.0f} px2" if measure == "area" else f"{name}: {measure} {value:.2f}"
    return f"{name}: {reason.replace('_', ' ')}"


def _label(pencil: ImageDraw.ImageDraw, picture: Image.Image, at: np.ndarray, text: str) -> None:
    left, top, right, bottom = pencil.textbbox((0, 0), text)
    x = float(np.clip(at[0], 0, max(0, picture.width - (right - left) - 4)))
    y = float(np.clip(at[1] - (bottom - top) - 6, 0, max(0, picture.height - (bottom - top) - 6)))
    pencil.rectangle([x, y, x + right - left + 4, y + bottom - top + 6], fill=_FELL)
    pencil.text((x + 2 - left, y + 3 - top), text, fill="white")
