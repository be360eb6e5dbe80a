"""Names of CVSBench's question categories.

A row names its category, under several spellings, or does not; then its options tell it, because each
category has fixed options (CVSBench figures 11 to 14; the signatures are those of the official summary).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from data_prep.cvsbench.fields import CATEGORY_KEYS, first

UNKNOWN = "uncategorised"

# Options in their order, " | " between them.
_SIGNATURES = (
    ("facade", "Visible in Satellite | Not visible in Satellite"),
    ("symmetry", "Symmetric | Not symmetric"),
    (
        "roof",
        "Flat roof | Pitched / sloped roof | Mixed roof (flat + pitched sections)"
        " | Multiple separate roof blocks with different forms",
    ),
    ("vegetation_sector", "Trees | Shrubs / bushes | Grass / lawn | No obvious vegetation"),
    ("occlusion_binary", "Occluded (blocked) | Not occluded (clear view)"),
    (
        "relative_position",
        "Left side | Right side | Near the center (mostly straight ahead) | Not visible in the forward view",
    ),
    ("ground_material", "Asphalt | Concrete | Grass | Bare soil / dirt"),
    (
        "height_comparison",
        "The first building is taller | The second building is taller | They are about the same height"
        " | Only one of them is visible",
    ),
    (
        "facade_color",
        "Light (white/cream/light gray) | Medium (tan/brown) | Dark (dark gray/black) | Red / brick-like",
    ),
    (
        "distance_to_camera",
        "Building A | Building B | They are about the same distance | Both are not visible in Satellite",
    ),
    (
        "building_footprint_area",
        "Building A | Building B | They are about the same area"
        " | Neither is clearly identifiable in Satellite",
    ),
    ("roof_form", "Flat roof | Gabled roof | Arched/curved roof | Mixed/unclear roof form"),
    (
        "building_connection",
        "Connected | Not connected | Partially connected | Cannot determine from satellite",
    ),
    (
        "building_connection",
        "Yes, they are connected | No, they are separate | Connected by a narrow covered link only"
        " | Not visible in Satellite",
    ),
    (
        "building_connection",
        "Yes, they are connected | No, they are separate | Connected by a narrow link only"
        " | Not visible in Satellite",
    ),
    ("visibility", "Occluded | Not occluded"),
    (
        "location",
        "The center region | The left-quarter region | The right-quarter region | The far edge region",
    ),
    ("vegetation", "Trees | Shrubs | Grass | No visible vegetation"),
    (
        "height",
        "Building A is taller | Building B is taller | They are approximately the same height"
        " | Only one building is clearly visible",
    ),
)

# The paper's tables shorten the names; `vegetation` and `height` are names of their own in CVUSA.
_ALIASES = {
    "cvusa": {
        "footprint": "building_footprint_area",
        "footprint_area": "building_footprint_area",
        "connection": "building_connection",
        "distance": "distance_to_camera",
        "roof": "roof_form",
    },
    "fov": {
        "color": "facade_color",
        "ground_mat": "ground_material",
        "height": "height_comparison",
        "height_comp": "height_comparison",
        "material": "ground_material",
        "occlusion": "occlusion_binary",
        "occulusion_binary": "occlusion_binary",
        "position": "relative_position",
        "relative_pos": "relative_position",
        "relative_positioning": "relative_position",
        "vegetation": "vegetation_sector",
    },
}


def normalise(name: str, subset: str) -> str:
    """The category's one name: lower case, underscores, aliases of the subset resolved."""
    plain = re.sub(r"[\s\-]+", "_", name.strip().lower())
    return _ALIASES.get(subset, {}).get(plain, plain)


def of_row(record: Mapping[str, Any], subset: str, options: Mapping[str, str]) -> str:
    """Category of a question, from its fields or its options; `UNKNOWN` where neither tells."""
    named = first(record, CATEGORY_KEYS)
    if isinstance(named, str):
        return normalise(named, subset)
    return of_options(options.values()) or UNKNOWN


def of_options(texts: Iterable[str]) -> str | None:
    """The category whose fixed options these are, in their order; None where they are no known set."""
    return _BY_SIGNATURE.get(_signature(texts))


def known_options(name: str) -> list[tuple[str, ...]]:
    """Every set of options that the category comes with, texts in the order of their letters."""
    return [tuple(texts.split(" | ")) for category, texts in _SIGNATURES if category == name]


def _signature(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(" ".join(text.lower().split()) for text in texts)


_BY_SIGNATURE = {_signature(texts.split(" | ")): name for name, texts in _SIGNATURES}
