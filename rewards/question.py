"""What a row says about its question, and the way from there to the four answer types.

`extra_info` is what verl hands the reward with each row. Every key is optional:

| key | meaning | default |
|---|---|---|
| `answer_type` | `choice`, `yes_no`, `number`, `box` | `choice` |
| `options` | {letter: text} | letters A to D, texts unknown |
| `unit` | the unit a number is asked for in | none: a count |
| `coordinates` | how a box is written: `pixel`, `resized_pixel`, `norm1000`, `norm1` | `pixel` |
| `image_size`, `resized_size` | [width, height] of the target image | unknown |
| `response_format` | `answer_only`, `imagination_cot`, `structured_cot`, `think_answer` | `answer_only` |
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from rewards import box, choice, number, yes_no
from rewards.answer import MAX_SPAN, Parsed, find_span, flexible_span
from rewards.response_format import RESPONSE_FORMATS, ResponseFormat
from rewards.text import normalise
from rewards.units import UNITS, canonical_unit

ANSWER_TYPES = ("choice", "yes_no", "number", "box")
MODES = ("strict", "flexible")


class Question(NamedTuple):
    """How the answers of one row are read and scored."""

    answer_type: str = "choice"
    options: Mapping[str, str] | None = None
    unit: str | None = None
    coordinates: str = "pixel"
    image_size: box.Size | None = None
    resized_size: box.Size | None = None
    response_format: ResponseFormat = RESPONSE_FORMATS["answer_only"]

    @property
    def offered(self) -> Mapping[str, str]:
        """The offered letters and their texts; none when the answer is no letter."""
        if self.answer_type != "choice":
            return {}
        return choice.DEFAULT_OPTIONS if self.options is None else self.options

    def read(self, text: str, mode: str) -> Parsed:
        """Read the answer of a whole completion."""
        span = find_span(text)
        if span.text is not None:
            return self.read_span(span.text)
        if mode == "flexible" and span.reason != "placeholder_token":
            return self.read_span(flexible_span(text))
        return Parsed(reason=span.reason)

    def read_span(self, span: str) -> Parsed:
        """Read what stands inside the answer tag."""
        span = " ".join(span.split())
        if len(span) > MAX_SPAN:
            return Parsed(reason="too_long")
        span = normalise(span)
        if not span:
            return Parsed(reason="empty")
        if self.answer_type == "choice":
            return choice.parse_choice(span, self.offered)
        if self.answer_type == "yes_no":
            return yes_no.parse_yes_no(span)
        if self.answer_type == "number":
            return number.parse_number(span, self.unit)
        return box.parse_box(span, self.coordinates, self.image_size, self.resized_size)

    def read_gold(self, gold: Any) -> Any:
        """The gold as a value of the answer type (a box in original pixels). ValueError when malformed."""
        gold = _plain(gold)
        if self.answer_type == "box":
            return _gold_box(gold)
        if self.answer_type == "number" and _is_number(gold):
            return float(gold)
        if self.answer_type == "yes_no" and isinstance(gold, bool):
            return "yes" if gold else "no"
        if self.answer_type == "choice" and isinstance(gold, str) and gold in self.offered:
            return gold
        if not isinstance(gold, str):
            raise ValueError(f"gold of type {type(gold).__name__} is no finite {self.answer_type} answer")
        parsed = self.read_span(gold)
        if parsed.value is None:
            raise ValueError(f"gold {gold[:80]!r} is no {self.answer_type} answer ({parsed.reason})")
        return parsed.value

    def score(self, value: Any, gold: Any, tolerance: float, iou_threshold: float | None) -> float:
        """Accuracy in [0, 1] of a value against a gold, both as read by this question."""
        if self.answer_type == "choice":
            return choice.score_choice(value, gold)
        if self.answer_type == "yes_no":
            return yes_no.score_yes_no(value, gold)
        if self.answer_type == "number":
            return number.score_number(value, gold, tolerance)
        return box.score_box(value, gold, iou_threshold)


def read_question(extra_info: Mapping[str, Any] | None) -> Question:
    """The question behind an `extra_info` mapping. ValueError names the key that is malformed."""
    if extra_info is None:
        return Question()
    if not isinstance(extra_info, Mapping):
        raise ValueError(f"extra_info must be a mapping, got {type(extra_info).__name__}")
    answer_type = _one_of(extra_info, "answer_type", ANSWER_TYPES, "choice")
    question = Question(
        answer_type=answer_type,
        options=_options(extra_info.get("options")) if answer_type == "choice" else None,
        unit=_unit(extra_info.get("unit")) if answer_type == "number" else None,
        coordinates=_one_of(extra_info, "coordinates", box.COORDINATES, "pixel"),
        image_size=_size(extra_info, "image_size"),
        resized_size=_size(extra_info, "resized_size"),
        response_format=RESPONSE_FORMATS[
            _one_of(extra_info, "response_format", RESPONSE_FORMATS, "answer_only")
        ],
    )
    if answer_type == "box":
        box.frame_size(question.coordinates, question.image_size, question.resized_size)
    return question


def _one_of(
    extra_info: Mapping[str, Any], key: str, allowed: Sequence[str] | Mapping[str, Any], default: str
) -> str:
    value = extra_info.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _options(options: Any) -> Mapping[str, str] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise ValueError(f"options must map letters to texts, got {type(options).__name__}")
    try:
        return _offered(tuple(options.items()))
    except TypeError as error:
        raise ValueError("options must map single capital letters to texts") from error


@lru_cache(maxsize=4096)
def _offered(options: tuple[tuple[Any, Any], ...]) -> Mapping[str, str]:
    """The options that are offered. A row is scored as often as it is answered, so they are kept by value."""
    # Columnar files fill the letters that a row lacks with None.
    offered = {letter: text for letter, text in options if text is not None}
    for letter, text in offered.items():
        if not (
            isinstance(letter, str) and len(letter) == 1 and "A" <= letter <= "Z" and isinstance(text, str)
        ):
            raise ValueError("options must map single capital letters to texts")
    if not offered:
        raise ValueError("options must offer at least one letter")
    return MappingProxyType(offered)


def _unit(unit: Any) -> str | None:
    if unit is None or unit == "":
        return None
    name = canonical_unit(unit) if isinstance(unit, str) else None
    if name is None:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}")
    return name


def _size(extra_info: Mapping[str, Any], key: str) -> box.Size | None:
    size = _plain(extra_info.get(key))
    if size is None:
        return None
    if not (
        isinstance(size, (list, tuple)) and len(size) == 2 and all(_is_number(v) and v > 0 for v in size)
    ):
        raise ValueError(f"{key} must be [width, height], two positive numbers")
    return float(size[0]), float(size[1])


def _gold_box(gold: Any) -> box.Box:
    if isinstance(gold, str):
        value = box.parse_box(normalise(gold)).value
    elif isinstance(gold, (list, tuple)) and len(gold) == 4 and all(map(_is_number, gold)):
        value = box.in_order([float(v) for v in gold])
    else:
        value = None
    if value is None or value[0] == value[2] or value[1] == value[3]:
        raise ValueError(
            "gold of a box question must be [x_min, y_min, x_max, y_max] with an area, in original pixels"
        )
    return value


def _is_number(value: Any) -> bool:
    """A finite number; a Python integer too large for a float is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e308


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, which parquet readers hand over, as plain Python."""
    return value.tolist() if type(value).__module__ == "numpy" else value
