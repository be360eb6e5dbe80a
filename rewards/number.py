"""Numbers with units: one finite quantity, converted to the unit the question asks for.

Correct within a relative tolerance of the gold (MonoSR: 10 %, and 5 % as the stricter check). Several
quantities, a range or an inequality are no answer, unless a cue ("so", "=", "is", "total") names the result.
"""

import math
import re
from collections.abc import Sequence

from rewards.answer import Parsed
from rewards.number_words import SCALES, WORDS, read_number_words
from rewards.text import undress
from rewards.units import UNITS, canonical_unit, convert

MRA_THRESHOLDS = tuple(percent / 100 for percent in range(50, 100, 5))
"""0.50, 0.55, ... 0.95: the confidence thresholds of VSI-Bench's mean relative accuracy."""

# Binary fractions round: 1.1 must count as within 10 % of 1.0, and 0.95 as exactly 5 % off.
_ROUNDING = 1e-9

_DECIMAL = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?: [0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+"
_VALUE = re.compile(
    rf"""
    (?P<sign>[-+]|minus\ |negative\ |plus\ )?
    (?: 10\s?\^\s?\(?(?P<power>[-+]?[0-9]+)\)?
      | (?:(?P<whole>[0-9]+)\ )?(?P<top>[0-9]+)\s?/\s?(?P<bottom>[0-9]+)
      | (?P<mantissa>{_DECIMAL.replace(" ", "[ ]")})
        (?: e(?P<e>[-+]?[0-9]+) | \s?[x×*·⋅]\s?10\s?\^\s?\(?(?P<times_power>[-+]?[0-9]+)\)? )?
    )(?![0-9])""",
    re.VERBOSE,
)
_SIGN_WORD = re.compile(r"(minus|negative|plus) ")
_NOT_FINITE = re.compile(r"[-+]?\s?(?:nan|inf|infinity|infinite|∞)(?!\w)")
_APPROXIMATELY = re.compile(
    r"(?:(?:(?:about|approximately|approx|around|roughly|nearly|almost|circa|ca)\b\.?|[~≈=])\s*)*"
)
_CUE = re.compile(
    r"\b(?:so|thus|hence|therefore|total|totals|equals|is|are|answer|result)\b(?: of)?\s*[:,]?|[=≈]"
)
_TRAILING = re.compile(
    r",? ?\b(?:away|apart|tall|high|wide|long|deep|old|total|in total|approximately|approx|"
    r"in (?:height|width|length|depth|distance|area))$"
)
_NOUNS = re.compile(r"[^\W\d_](?:[^\W\d_]|['-])*(?: [^\W\d_](?:[^\W\d_]|['-])*){0,3}")
_NO_NOUN = re.compile(
    rf"\b(?:{'|'.join(sorted(WORDS))}|or|to|and|not|no|maybe|perhaps|possibly|probably|unsure|plus|minus|than|at|least|"
    r"most|more|less|fewer|but|if|percent|through|until)\b"
)
_SECOND_PART = re.compile(
    r"(?P<larger>[^0-9]+?)(?:,|\band)?\s*(?P<value>[0-9]+(?:\.[0-9]+)?)\s*(?P<smaller>[^0-9]+)"
)
_LATEX = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2"),
        (r"\\(?:text|mathrm|mathbf|textbf|operatorname|boxed|mbox)\s*\{([^{}]*)\}", r" \1"),
        (r"\^?\s*\{?\s*\\(?:circ|degree)(?![a-z])\s*\}?", "°"),
        (r"\\(?:times|cdot)(?![a-z])", "×"),
        (r"\\(?:approx|sim|simeq)(?![a-z])", "≈"),
        (r"\\infty(?![a-z])", "∞"),
        (r"\{,\}|(?<=[0-9])\\,(?=[0-9]{3})", ","),
        (r"\\[,;:! ]|(?<=[0-9])~", " "),
        (r"[{}$]", ""),
    )
)


def parse_number(span: str, unit: str | None = None) -> Parsed:
    """Read one quantity from a normalised span, in `unit` (canonical name).

    Without a unit asked for, the number counts as it stands, whatever noun or unit follows it.
    """
    text = undress(span.casefold())
    if any(mark in text for mark in "\\{$"):
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
        text = undress(" ".join(text.split()))
    parsed = _quantity(text, unit)
    cues = list(_CUE.finditer(text)) if parsed.value is None else []
    return _quantity(undress(text[cues[-1].end() :]), unit) if cues else parsed


def score_number(value: float, gold: float, tolerance: float = 0.10) -> float:
    """1.0 when ``|value - gold| <= tolerance * |gold|``, else 0.0; a gold of 0 needs exactly 0."""
    return float(abs(value - gold) <= (tolerance + _ROUNDING) * abs(gold))


def mean_relative_accuracy(value: float, gold: float, thresholds: Sequence[float] = MRA_THRESHOLDS) -> float:
    """Share of thresholds t with relative error ``|value - gold| / |gold| < 1 - t`` (VSI-Bench), in [0, 1].

    The gold's absolute value makes it defined for negative golds; a gold of 0 gives 1.0 for exactly 0, else
    0.0. A value or gold that is not finite gives 0.0.
    """
    if gold == 0:
        return float(value == 0)
    error = abs(value - gold) / abs(gold)
    return sum(error + _ROUNDING < 1 - threshold for threshold in thresholds) / len(thresholds)


def plain_number(value: float) -> str:
    """Text that reads back as `value`, without a needless fraction: 3.0 -> "3", 2.5 -> "2.5"."""
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


def _quantity(text: str, unit: str | None) -> Parsed:
    """A number and its unit, with nothing else around them but "about"."""
    text = text[_APPROXIMATELY.match(text).end() :]
    if _NOT_FINITE.match(text):
        return Parsed(reason="not_finite")
    number = _leading_number(text)
    if number is None:
        return Parsed(reason="unreadable")
    value, rest = number
    rest = _TRAILING.sub("", rest.strip())
    if not math.isfinite(value):
        return Parsed(reason="not_finite")
    if not rest:
        return _parsed(value)
    if unit is not None:
        return _convert(value, rest, unit)
    counted = _NOUNS.fullmatch(rest) and not _NO_NOUN.search(rest)
    if counted or canonical_unit(rest):
        return _parsed(value)
    return Parsed(reason="several_values" if re.search("[0-9]", rest) else "unreadable")


def _leading_number(text: str) -> tuple[float, str] | None:
    """The number at the start of the text and what follows it; not finite when a float cannot hold it."""
    match = _VALUE.match(text)
    if not match:
        sign = _SIGN_WORD.match(text)
        words = read_number_words(text[sign.end() :] if sign else text)
        if words is None:
            return None
        return (-words[0] if sign and sign[1] != "plus" else words[0]), words[1]
    rest = text[match.end() :].strip()
    if match["top"]:
        value = _fraction(match["whole"] or "0", match["top"], match["bottom"])
    else:
        digits = re.sub("[, ]", "", match["mantissa"] or "1")
        value = float(f"{digits}e{match['power'] or match['e'] or match['times_power'] or 0}")
        if value == 0 and re.search("[1-9]", digits):
            value = math.nan
        scale, _, after = rest.partition(" ")
        if scale in SCALES:
            value, rest = value * SCALES[scale], after
    return (-value if match["sign"] and match["sign"][0] in "-mn" else value), rest


def _fraction(whole: str, top: str, bottom: str) -> float:
    divisor = float(bottom)
    return float(whole) + float(top) / divisor if divisor and math.isfinite(divisor) else math.nan


def _convert(value: float, rest: str, unit: str) -> Parsed:
    """A value whose unit, or first unit and smaller second part (``5 ft 3 in``), is `rest`, in `unit`."""
    written = canonical_unit(rest)
    second = _SECOND_PART.fullmatch(rest) if written is None else None
    if second:
        larger, smaller = canonical_unit(second["larger"]), canonical_unit(second["smaller"])
        if not (
            larger
            and smaller
            and UNITS[larger][0] == UNITS[smaller][0]
            and UNITS[larger][1] > UNITS[smaller][1]
        ):
            return Parsed(reason="several_values")
        part = float(second["value"])
        value += math.copysign(part * UNITS[smaller][1] / UNITS[larger][1], value)
        written = larger
    if written is None:
        return Parsed(reason="unknown_unit")
    converted = convert(value, written, unit)
    return Parsed(reason="wrong_dimension") if converted is None else _parsed(converted)


def _parsed(value: float) -> Parsed:
    return Parsed(value, plain_number(value)) if math.isfinite(value) else Parsed(reason="not_finite")
