"""Units a spatial question can ask for, and the factors between them."""

import math

UNITS: dict[str, tuple[str, float]] = {
    "m": ("length", 1.0),
    "cm": ("length", 0.01),
    "mm": ("length", 0.001),
    "km": ("length", 1000.0),
    "ft": ("length", 0.3048),
    "in": ("length", 0.0254),
    "m2": ("area", 1.0),
    "cm2": ("area", 1e-4),
    "ft2": ("area", 0.3048**2),
    "deg": ("angle", math.pi / 180),
    "rad": ("angle", 1.0),
    "s": ("time", 1.0),
    "min": ("time", 60.0),
}
"""Canonical name -> (dimension, size in the dimension's base unit: m, m2, rad, s)."""

_NAMES = {
    "m": ("m", "meter", "meters", "metre", "metres"),
    "cm": ("cm", "centimeter", "centimeters", "centimetre", "centimetres"),
    "mm": ("mm", "millimeter", "millimeters", "millimetre", "millimetres"),
    "km": ("km", "kilometer", "kilometers", "kilometre", "kilometres"),
    "ft": ("ft", "foot", "feet", "'"),
    "in": ("in", "inch", "inches", '"', "''"),
    "deg": ("deg", "degree", "degrees", "°"),
    "rad": ("rad", "radian", "radians"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("min", "mins", "minute", "minutes"),
}
_SQUARED = ("{}2", "{}^2", "square {}", "sq {}", "sq. {}", "sq{}", "{} squared")


_ALIASES = {name: unit for unit, names in _NAMES.items() for name in names} | {
    form.format(name): area
    for length, area in (("m", "m2"), ("cm", "cm2"), ("ft", "ft2"))
    for name in _NAMES[length]
    if name.isalpha()
    for form in _SQUARED
}


def canonical_unit(name: str) -> str | None:
    """The canonical unit for a spelling in any case, or None: "Metres" -> "m", "sq. ft." -> "ft2"."""
    return _ALIASES.get(name.strip().casefold().rstrip("."))


def convert(value: float, source: str, target: str) -> float | None:
    """`value` of unit `source` in unit `target` (canonical names); None across dimensions."""
    if source == target:
        return value
    (source_dimension, source_size), (target_dimension, target_size) = UNITS[source], UNITS[target]
    return value * source_size / target_size if source_dimension == target_dimension else None
