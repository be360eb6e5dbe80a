"""Names that fit one object each: its category, with what sets it apart where the picture has several.

A name is judged among all annotated objects of the picture, those too that the observability filter took out:
they are still to be seen. "The largest chair" is a name only where every other chair is smaller by a margin
that one sees. An object that nothing sets apart has no name, and is not asked about.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from data_prep.monosr.scene import Scene

PIXELS = 20.0  # the paper's separation of what one can tell apart
DISTANCE_RATIO, VOLUME_RATIO, HEIGHT_RATIO = 1.15, 1.4, 1.15
LEAST_METRES = 0.15
UNBOUNDED = "outdoor"
"""The domain whose annotations end before the view does: what is farthest in it is not known."""
MOST_ANCHORS = 3  # objects by which another one is named
MOST_IN_A_ROW = 4  # same objects that one still counts from the left

NOUNS = {
    "books": "stack of books",
    "shoes": "pair of shoes",
    "clothes": "pile of clothes",
    "pants": "pair of trousers",
    "blinds": "set of blinds",
    "stairs": "staircase",
    "night stand": "nightstand",
    "television": "TV",
    "tv": "TV",
}
"""Categories whose names do not read as one thing."""
NAMELESS = frozenset(
    {"wall", "floor", "ceiling", "void", "object", "objects", "other", "others", "dontcare", "misc"}
)
"""Categories that name no one thing that has a place."""


class AmbiguousReferenceError(ValueError):
    """A name fits two objects; the message says which."""


class Name(NamedTuple):
    """A name of one object.

    - `text`: with its article ("the chair nearest to the camera").
    - `kind`: what sets the object apart, a key of `KINDS`, "only" or "caption".
    - `tells`: what the name gives away: "x" (left or right in the picture), "depth", "size", "place", or "".
    - `anchor`: annotation id of the object that the name needs, or None.
    """

    text: str
    kind: str
    tells: str = ""
    anchor: str | None = None


@lru_cache(maxsize=4096)
def noun(category: str) -> str:
    """A category as it reads in a sentence: "traffic_cone" -> "traffic cone"."""
    plain = " ".join(category.replace("_", " ").split())
    lower = plain if plain.isupper() else plain.lower()
    return NOUNS.get(lower, lower)


def _by_pixels(low: float, high: float) -> bool:
    return high - low >= PIXELS


def _by_ratio(ratio: float, least: float = 0.0) -> Callable[[float, float], bool]:
    """Whether two positive values differ; negated ones are compared by size."""

    def apart(low: float, high: float) -> bool:
        small, large = abs(low), abs(high)
        if small > large:
            small, large = large, small
        return large >= ratio * small and large - small >= least

    return apart


_BY_DISTANCE = _by_ratio(DISTANCE_RATIO, LEAST_METRES)
_BY_VOLUME = _by_ratio(VOLUME_RATIO)
_BY_HEIGHT = _by_ratio(HEIGHT_RATIO)


KINDS: dict[str, tuple[str, str, Callable[[float, float], bool]]] = {
    "leftmost": ("the leftmost {}", "x", _by_pixels),
    "rightmost": ("the rightmost {}", "x", _by_pixels),
    "nearest": ("the {} nearest to the camera", "depth", _BY_DISTANCE),
    "farthest": ("the {} farthest from the camera", "depth", _BY_DISTANCE),
    "largest": ("the largest {}", "size", _BY_VOLUME),
    "smallest": ("the smallest {}", "size", _BY_VOLUME),
    "tallest": ("the tallest {}", "size", _BY_HEIGHT),
}
"""Kind -> text, what it gives away, when two values differ (`_Looks.values`)."""


class _Looks:
    """What one sees of all objects of a picture, in the scene's order. `values`: kind -> what the object that
    it names has the lowest of."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.center = scene.center.tolist()
        self.sound = (np.isfinite(scene.center).all(1) & (scene.size > 0).all(1)).tolist()
        u, height, volume = scene.pixels[:, 0], scene.size[:, 1], scene.size.prod(1)
        distance = np.sqrt((scene.center**2).sum(1))
        values = (u, -u, distance, -distance, -volume, volume, -height)
        self.values = {kind: value.tolist() for kind, value in zip(KINDS, values, strict=True)}
        self.u = self.values["leftmost"]


def _lowest(
    values: Sequence[float], group: Sequence[int], apart: Callable[[float, float], bool]
) -> int | None:
    """The object of a group of two or more that has the lowest value, where no other one may pass for it."""
    own = [values[i] for i in group]
    lowest, second = sorted(own)[:2]
    return group[own.index(lowest)] if apart(lowest, second) else None


_ORDINALS = ("", "second ", "third ")


class References:
    """The names of the objects of a picture: `names` has an entry for every object of `full`, by its place
    there; it is empty for those that are not in `scene`. `nouns`: every object's category as one says it.

    Args:
        scene: the objects that may be asked about.
        full: all annotated objects of the same picture; objects of `scene` are found in it by their ids.
            None: the scene is whole.
        captions: phrases without article by annotation id, each known to fit that object alone
            (`data_prep.monosr.captions`); they come before all other names.
    """

    def __init__(
        self, scene: Scene, full: Scene | None = None, captions: Mapping[str, str] | None = None
    ) -> None:
        full = scene if full is None else full
        self._looks = _Looks(full)
        places = {name: place for place, name in enumerate(full.ids)}
        groups: dict[str, list[int]] = defaultdict(list)
        self.nouns = [noun(category) for category in full.categories]
        for place, text in enumerate(self.nouns):
            groups[text].append(place)
        wanted = {places[name] for name in scene.ids}
        found: dict[int, list[Name]] = {place: [] for place in wanted}
        for place in wanted:
            if text := (captions or {}).get(full.ids[place]):
                found[place].append(Name(f"the {text}", "caption"))
        single = [
            group[0] for text, group in groups.items()
            if len(group) == 1 and group[0] in wanted and text not in NAMELESS
        ]  # fmt: skip
        center = self._looks.center
        self._anchors = {k: [math.dist(center[k], there) for there in center] for k in single[:MOST_ANCHORS]}
        for text, group in groups.items():
            if text in NAMELESS or wanted.isdisjoint(group):
                continue
            for place, name in self._of_group(text, group):
                if place in found:
                    found[place].append(name)
        self.names: list[list[Name]] = [found.get(place, []) for place in range(len(full))]

    def _of_group(self, text: str, group: list[int]) -> Iterable[tuple[int, Name]]:
        if len(group) == 1:
            yield group[0], Name(f"the {text}", "only")
            return
        if not all(self._looks.sound[i] for i in group):
            return  # one of them is seen, and no one knows where
        shown = not any(math.isnan(self._looks.u[i]) for i in group)
        for kind, (form, tells, apart) in KINDS.items():
            if (kind == "farthest" and self._looks.scene.domain == UNBOUNDED) or (tells == "x" and not shown):
                continue
            place = _lowest(self._looks.values[kind], group, apart)
            if place is not None:
                yield place, Name(form.format(text), kind, tells)
        if shown:
            yield from self._counted(text, group)
        for anchor, distances in self._anchors.items():
            place = _lowest(distances, group, _BY_DISTANCE)
            if place is not None:
                form = f"the {text} nearest to the {self.nouns[anchor]}"
                yield place, Name(form, "nearest to", "place", self._looks.scene.ids[anchor])

    def _counted(self, text: str, group: list[int]) -> Iterable[tuple[int, Name]]:
        """Those between the leftmost and the rightmost, where all of a few stand apart in the picture."""
        u = self._looks.u
        if not 3 <= len(group) <= MOST_IN_A_ROW:
            return
        row = sorted(group, key=lambda i: u[i])
        if all(_by_pixels(u[one], u[other]) for one, other in pairwise(row)):
            for number in range(1, len(row) - 1):
                name = f"the {_ORDINALS[number]}{text} from the left"
                yield row[number], Name(name, "counted", "x")

    def check(self) -> None:
        """Raise where two objects of the picture have the same name.

        Raises:
            AmbiguousReferenceError: names the text and both annotations.
        """
        owners: dict[str, str] = {}
        full = self._looks.scene
        for owner, names in zip(full.ids, self.names, strict=True):
            for name in names:
                if (other := owners.setdefault(name.text, owner)) != owner:
                    raise AmbiguousReferenceError(
                        f"{full.id}: {name.text!r} fits the annotations {other} and {owner}"
                    )
