"""Rare categories: the paper's long tail is the bottom 20 % of classes by frequency (MonoSR, section 5.4)."""

from collections.abc import Mapping
from dataclasses import replace

from data_prep.monosr.scene import Scene
from data_prep.rows import Row


def rare(counts: Mapping[str, int], share: float) -> list[str]:
    """The rarest `share` of the categories, rarest first; of equally rare ones those first in the alphabet.

    Args:
        counts: category -> objects.
    """
    order = sorted(counts, key=lambda name: (counts[name], name))
    return order[: int(share * len(order))]


def marked(row: Row, scene: Scene, categories: frozenset[str]) -> Row:
    """The row with `meta["long_tail"]` where it names an object of one of `categories`."""
    named = {*row.meta.get("objects", ()), *(row.meta.get("viewpoint") or ())}
    own = {name for one, name in zip(scene.ids, scene.categories, strict=True) if one in named}
    return replace(row, meta={**row.meta, "long_tail": True}) if own & categories else row
