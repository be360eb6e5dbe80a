"""Numbers as they are asked for: units by question, three significant digits, options for a choice of four.

Three digits keep an answer within 0.5 % of the geometry, well inside the tolerance by which it is scored.
"""

import random
from itertools import pairwise

from rewards.units import UNITS

DIGITS = 3
WORDS = {
    "m": ("m", "metres"),
    "cm": ("cm", "centimetres"),
    "mm": ("mm", "millimetres"),
    "ft": ("ft", "feet"),
    "m2": ("m2", "square metres"),
    "cm2": ("cm2", "square centimetres"),
    "ft2": ("ft2", "square feet"),
}
"""Unit of `rewards` -> how a question writes it."""
# From which length in metres a unit is sensible, and up to which.
_SENSIBLE = {"m": (0.5, 1e9), "cm": (0.01, 10.0), "mm": (0.005, 1.0), "ft": (0.3, 1e9)}
_SENSIBLE_AREAS = {"m2": (0.1, 1e9), "cm2": (1e-4, 1.0), "ft2": (0.1, 1e9)}
LENGTHS = {
    "indoor": ("m", "m", "cm", "ft"),
    "outdoor": ("m", "m", "ft"),
    "object_centric": ("cm", "cm", "mm"),
}
"""Domain -> units of lengths, the usual one more often."""
AREAS = {"indoor": ("m2", "m2", "ft2"), "outdoor": ("m2", "ft2"), "object_centric": ("cm2",)}
_BELOW, _ABOVE = (0.35, 0.5, 0.65, 0.8), (1.25, 1.6, 2.0, 2.8)
MOST_TOLERANCE = 0.10  # of which four such numbers are always further apart


def rounded(value: float) -> float:
    """Three significant digits: 1.6834 -> 1.68, 132.4 -> 132.0."""
    return float(f"{value:.{DIGITS}g}")


def in_unit(metres: float, domain: str, rng: random.Random, area: bool = False) -> tuple[float, str]:
    """A length (or area) in a unit that suits its size, rounded, and the unit.

    The metre, or square metre, where nothing else suits.
    """
    fits = _SENSIBLE_AREAS if area else _SENSIBLE
    usual = (AREAS if area else LENGTHS)[domain]
    sensible = [unit for unit in usual if fits[unit][0] <= metres <= fits[unit][1]]
    unit = rng.choice(sensible or (("m2",) if area else ("m",)))
    return rounded(metres / UNITS[unit][1]), unit


def written(value: float) -> str:
    """A rounded number as a text: 132.0 -> "132", 1.68 -> "1.68"."""
    return f"{value:.10g}"


def wrong_numbers(value: float, tolerance: float, rng: random.Random) -> list[float]:
    """Three other numbers; of any two of the four, neither is right where the other is.

    They are shares of the answer to which a wrong guess may come. How many are smaller is drawn first, so the
    answer is as often the smallest or the largest as one in the middle.
    """
    below = rng.randrange(4)
    factors = [*rng.sample(_BELOW, below), *rng.sample(_ABOVE, 3 - below)]
    wrong = [rounded(value * factor * rng.uniform(0.97, 1.03)) for factor in factors]
    four = sorted((value, *wrong))
    if any(high - low <= tolerance * high for low, high in pairwise(four)):
        raise ValueError(f"a tolerance of {tolerance} leaves no room for four numbers around {value}")
    return wrong
