"""Numbers with units: one finite quantity, converted to the unit the question asks for.

Correct within a relative tolerance of the gold (MonoSR: 10 %, with 5 % as the stricter check). Several quantities, a
range or an inequality are no answer unless a cue ("so", "=", "is", "total") names the result.
"""

import math
import re
from collections.abc import Sequence

from rewards.answer import Parsed
from rewards.number_words import SCALES, WORDS, read_number_words
from rewards.text import undress
from rewards.units import UNITS, canonical_unit, convert

MRA_THRESHOLDS = tuple(i / 100 for i in range(50, 100, 5))
"""Confidence thresholds 0.50, 0.55, ... 0.95 of the mean relative accuracy used by VSI-Bench."""

_DECIMAL = (
    r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]{0,2}(?: [0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+"
)
_VALUE = re.compile(
    rf"(?P<sign>[-+]|minus |negative |plus )?(?:"
    rf"(?:(?P<whole>[0-9]+)\s+)?(?P<top>[0-9]+)\s?/\s?(?P<bottom>[0-9]+)"
    rf"|(?P<mantissa>{_DECIMAL})(?:e(?P<e>[-+]?[0-9]+)|\s?[x×*·⋅]\s?10\s?\^\s?\(?(?P<power>[-+]?[0-9]+)\)?)?"
    rf")(?![0-9])"
)
_POWER_OF_TEN = re.compile(r"(?P<sign>[-+])?10\^\(?(?P<power>[-+]?[0-9]+)\)?")
_APPROXIMATELY = re.compile(
    r"(?:(?:about|approximately|approx|around|roughly|nearly|almost|circa|ca)\b\.?|[~≈=])\s*"
)
_CUE = re.compile(
    r"(?:\b(?:so|thus|hence|therefore|total|totals|equals|is|are|answer|result)\b(?: of| is)?\s*[:=,]?|=|≈)\s*"
)
_TRAILING = re.compile(
    r",? ?\b(?:away|apart|tall|high|wide|long|deep|far|old|in total|total|approximately|approx|"
    r"in (?:height|width|length|depth|distance|area))$"
)
_SECOND_PART = re.compile(
    rf"(?P<unit>[^0-9]+?)\s*(?:,|\band\b)?\s*(?P<value>(?:{_DECIMAL}))\s*(?P<smaller>[^0-9]+)"
)
_NOUN = re.compile(r"[^\W\d_][^\W\d_'\-]*(?: [^\W\d_][^\W\d_'\-]*){0,3}")
_NOT_A_NOUN = WORDS | frozenset(
    ["or", "to", "and", "not", "no", "maybe", "perhaps", "plus", "minus", "than", "but", "percent", "through", "until"]
)
_NOT_FINITE = re.compile(r"[-+]?\s?(?:nan|inf|infinity|infinite|∞)\b|∞|[-+]?∞")

_LATEX = (
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname|boxed|mbox)\s*\{([^{}]*)\}"), r" \1"),
    (re.compile(r"\^?\s*\{?\\(?:circ|degree)\b\}?"), "°"),
    (re.compile(r"\\(?:times|cdot)\b"), "×"),
    (re.compile(r"\\(?:approx|sim|simeq)\b"), "≈"),
    (re.compile(r"\\infty\b"), "∞"),
    (re.compile(r"\\(?:left|right|displaystyle)\b"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,;:!> ]"), " "),
    (re.compile(r"[{}$]"), ""),
)


def parse_number(span: str, unit: str | None = None) -> Parsed:
    """Read one quantity from a normalised span, in `unit` (canonical name; None: a count or a bare number)."""
    text = span.casefold()
    if "\\" in text or "{" in text or "$" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    text = undress(" ".join(text.split()))
    parsed = _quantity(text, unit)
    if parsed.value is None:
        cue = None
        for cue in _CUE.finditer(text):
            pass
        if cue:
            parsed = _quantity(undress(text[cue.end() :]), unit)
    return parsed


def score_number(value: float, gold: float, tolerance: float = 0.10) -> float:
    """1.0 when ``|value - gold| <= tolerance * |gold|``, else 0.0; a gold of 0 needs exactly 0."""
    # The slack keeps the bound inclusive where binary fractions round: 1.1 is within 10 % of 1.0.
    return float(abs(value - gold) <= tolerance * abs(gold) + 1e-9 * abs(gold))


def mean_relative_accuracy(value: float, gold: float, thresholds: Sequence[float] = MRA_THRESHOLDS) -> float:
    """Share of thresholds t with relative error ``|value - gold| / |gold| < 1 - t``, in [0, 1].

    The absolute gold makes it defined for negative golds; a gold of 0 gives 1.0 for exactly 0, else 0.0.
    """
    if not (math.isfinite(value) and math.isfinite(gold)):
        return 0.0
    if gold == 0:
        return float(value == 0)
    error = abs(value - gold) / abs(gold)
    return sum(error < 1 - threshold for threshold in thresholds) / len(thresholds)


def plain_number(value: float) -> str:
    """Shortest text that reads back as `value`: 3.0 -> "3", 2.5 -> "2.5"."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _quantity(text: str, unit: str | None) -> Parsed:
    for _ in range(3):
        text = _APPROXIMATELY.sub("", text, count=1) if _APPROXIMATELY.match(text) else text
    if _NOT_FINITE.match(text):
        return Parsed(reason="not_finite")
    read = _leading_value(text)
    if read is None:
        return Parsed(reason="unreadable")
    value, rest = read
    if not math.isfinite(value):
        return Parsed(reason="not_finite")
    return _in_unit(value, rest.strip(), unit)


def _leading_value(text: str) -> tuple[float, str] | None:
    """The number at the start of the text and what follows it; infinite on overflow."""
    match = _POWER_OF_TEN.match(text) or _VALUE.match(text)
    if not match:
        negative = text.startswith(("minus ", "negative "))
        words = read_number_words(text.split(" ", 1)[1] if negative else text)
        return words and (-words[0] if negative else words[0], words[1])
    parts = match.groupdict()
    sign = -1.0 if (parts["sign"] or "").startswith(("-", "minus", "negative")) else 1.0
    rest = text[match.end() :]
    if parts.get("top"):
        bottom = float(parts["bottom"])
        value = float(parts["whole"] or 0) + float(parts["top"]) / bottom if bottom else math.inf
        return sign * value, rest
    exponent = parts.get("e") or parts.get("power") or "0"
    value = float(f"{(parts.get('mantissa') or '1').replace(',', '').replace(' ', '')}e{exponent}")
    scale, _, after = rest.strip().partition(" ")
    if scale in SCALES:
        return sign * value * SCALES[scale], after
    return sign * value, rest


def _in_unit(value: float, rest: str, unit: str | None) -> Parsed:
    """Convert a value followed by `rest` (a unit, a counted noun, or nothing) to the question's unit."""
    rest = _TRAILING.sub("", rest).strip()
    if rest and unit is None and canonical_unit(rest) is None:
        if _NOUN.fullmatch(rest) and _NOT_A_NOUN.isdisjoint(rest.replace("-", " ").split(" ")):
            rest = ""
        else:
            return Parsed(reason="several_values" if re.search(r"[0-9]", rest) else "unreadable")
    if rest and unit is not None:
        written = canonical_unit(rest)
        if written is None:
            second = _SECOND_PART.fullmatch(rest)
            return _compound(value, second, unit) if second else Parsed(reason="unknown_unit")
        converted = convert(value, written, unit)
        if converted is None:
            return Parsed(reason="wrong_dimension")
        value = converted
    return Parsed(value, plain_number(value)) if math.isfinite(value) else Parsed(reason="not_finite")


def _compound(value: float, second: re.Match[str], unit: str) -> Parsed:
    """Two parts of one quantity, the second in a smaller unit of the same dimension: ``5 ft 3 in``."""
    larger, smaller = canonical_unit(second["unit"]), canonical_unit(second["smaller"])
    if (
        larger is None
        or smaller is None
        or UNITS[larger][0] != UNITS[smaller][0]
        or UNITS[larger][1] <= UNITS[smaller][1]
    ):
        return Parsed(reason="several_values")
    part = float(second["value"].replace(",", "").replace(" ", ""))
    total = convert(value, larger, unit)
    extra = convert(math.copysign(part, value), smaller, unit)
    if total is None or extra is None:
        return Parsed(reason="wrong_dimension")
    total += extra
    return Parsed(total, plain_number(total)) if math.isfinite(total) else Parsed(reason="not_finite")
