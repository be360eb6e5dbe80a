"""Units a spatial question can ask for, and the factors between them."""

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
    "deg": ("angle", 0.017453292519943295),
    "rad": ("angle", 1.0),
    "s": ("time", 1.0),
    "min": ("time", 60.0),
}
"""Canonical name -> (dimension, size in the dimension's base unit: m, m2, rad, s)."""

_NAMES = {
    "m": ("meter", "meters", "metre", "metres"),
    "cm": ("centimeter", "centimeters", "centimetre", "centimetres"),
    "mm": ("millimeter", "millimeters", "millimetre", "millimetres"),
    "km": ("kilometer", "kilometers", "kilometre", "kilometres", "kms"),
    "ft": ("foot", "feet", "'"),
    "in": ("inch", "inches", '"', "''"),
    "deg": ("degs", "degree", "degrees", "°"),
    "rad": ("rads", "radian", "radians"),
    "s": ("sec", "secs", "second", "seconds"),
    "min": ("mins", "minute", "minutes"),
}


def _aliases() -> dict[str, str]:
    table = {unit: unit for unit in UNITS}
    for unit, names in _NAMES.items():
        table.update(dict.fromkeys(names, unit))
    for length, area in (("m", "m2"), ("cm", "cm2"), ("ft", "ft2")):
        for name in (length, *_NAMES[length]):
            forms = (
                f"{name}2",
                f"{name}^2",
                f"{name} 2",
                f"square {name}",
                f"sq {name}",
                f"sq. {name}",
                f"{name} squared",
            )
            table.update(dict.fromkeys(forms, area))
    table.update({"sqm": "m2", "sqft": "ft2", "sqcm": "cm2"})
    return table


ALIASES = _aliases()
"""Spelling in lower case -> canonical unit."""


def canonical_unit(name: str) -> str | None:
    """The canonical unit for a spelling, or None when it names none: "Metres" -> "m", "sq. ft." -> "ft2"."""
    return ALIASES.get(name.strip().casefold().rstrip("."))


def convert(value: float, source: str, target: str) -> float | None:
    """`value` of unit `source` in unit `target` (canonical names); None across dimensions."""
    if source == target:
        return value
    (source_dimension, source_size), (target_dimension, target_size) = UNITS[source], UNITS[target]
    if source_dimension != target_dimension:
        return None
    return value * source_size / target_size
