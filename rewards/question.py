"""What a row says about its question, and the dispatch to the four answer types.

`extra_info` is what verl hands the reward for each row. Every key is optional:

| key | meaning | default |
|---|---|---|
| `answer_type` | `choice`, `yes_no`, `number`, `box` | `choice` |
| `options` | {letter: text} | letters A to D, texts unknown |
| `unit` | unit the question asks for | none: a count |
| `coordinates` | `pixel`, `resized_pixel`, `norm1000`, `norm1` | `pixel` |
| `image_size`, `resized_size` | [width, height] of the target image | unknown |
| `response_format` | `answer_only`, `imagination_cot`, `structured_cot`, `think_answer` | `answer_only` |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewards import box, choice, number, yes_no
from rewards.answer import Parsed, clean_span, find_span, flexible_span
from rewards.response_format import RESPONSE_FORMATS, ResponseFormat
from rewards.units import UNITS, canonical_unit

ANSWER_TYPES = ("choice", "yes_no", "number", "box")
MODES = ("strict", "flexible")


@dataclass(frozen=True, slots=True)
class Question:
    """The parts of a row that decide how its answer is read."""

    answer_type: str = "choice"
    options: Mapping[str, str] | None = None
    unit: str | None = None
    coordinates: str = "pixel"
    image_size: tuple[float, float] | None = None
    resized_size: tuple[float, float] | None = None
    response_format: ResponseFormat = RESPONSE_FORMATS["answer_only"]

    @property
    def offered(self) -> Mapping[str, str]:
        """The offered letters and their texts."""
        return choice.DEFAULT_OPTIONS if self.options is None else self.options

    def read_span(self, span: str) -> Parsed:
        """Read the text inside the answer tag."""
        clean = clean_span(span)
        if isinstance(clean, Parsed):
            return clean
        if self.answer_type == "choice":
            return choice.parse_choice(clean, self.offered)
        if self.answer_type == "yes_no":
            return yes_no.parse_yes_no(clean)
        if self.answer_type == "number":
            return number.parse_number(clean, self.unit)
        return box.parse_box(clean, self.coordinates, self.image_size, self.resized_size)

    def read(self, text: str, mode: str = "strict") -> Parsed:
        """Read a whole completion, strictly or flexibly."""
        span = find_span(text)
        if span.text is not None:
            return self.read_span(span.text)
        if mode == "flexible" and span.reason != "placeholder_token":
            loose = flexible_span(text)
            if loose is not None:
                return self.read_span(loose)
        return Parsed(reason=span.reason)

    def read_gold(self, gold: Any) -> Any:
        """The gold as a value of the answer type (boxes: original pixels). ValueError when malformed."""
        gold = _plain(gold)
        if self.answer_type == "number" and isinstance(gold, (int, float)) and not isinstance(gold, bool):
            value = float(gold) if abs(gold) < 1e308 else math.inf
            if math.isfinite(value):
                return value
            raise ValueError(f"gold {gold!r} is not finite")
        if self.answer_type == "yes_no" and isinstance(gold, bool):
            return "yes" if gold else "no"
        if self.answer_type == "box":
            return _gold_box(gold)
        if not isinstance(gold, str):
            raise ValueError(f"gold of a {self.answer_type} question cannot be a {type(gold).__name__}")
        parsed = self.read_span(gold)
        if parsed.value is None:
            raise ValueError(f"gold {gold[:80]!r} is no {self.answer_type} answer ({parsed.reason})")
        return parsed.value

    def score(
        self, value: Any, gold: Any, tolerance: float = 0.10, iou_threshold: float | None = None
    ) -> float:
        """Accuracy in [0, 1] of a read value against a read gold."""
        if self.answer_type == "number":
            return number.score_number(value, gold, tolerance)
        if self.answer_type == "box":
            return box.score_box(value, gold, iou_threshold)
        return float(value == gold)


def read_question(extra_info: Mapping[str, Any] | None) -> Question:
    """The question behind an `extra_info` mapping. ValueError names the malformed key."""
    if extra_info is None:
        return Question()
    if not isinstance(extra_info, Mapping):
        raise ValueError(f"extra_info must be a mapping, got {type(extra_info).__name__}")
    answer_type = _one_of(extra_info, "answer_type", ANSWER_TYPES, "choice")
    name = _one_of(extra_info, "response_format", tuple(RESPONSE_FORMATS), "answer_only")
    return Question(
        answer_type=answer_type,
        options=_options(extra_info.get("options")) if answer_type == "choice" else None,
        unit=_unit(extra_info.get("unit")) if answer_type == "number" else None,
        coordinates=_one_of(extra_info, "coordinates", box.COORDINATES, "pixel"),
        image_size=_size(extra_info, "image_size"),
        resized_size=_size(extra_info, "resized_size"),
        response_format=RESPONSE_FORMATS[name],
    )


def _one_of(extra_info: Mapping[str, Any], key: str, allowed: Sequence[str], default: str) -> str:
    value = extra_info.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(
            f"{key} must be one of {', '.join(allowed)}, got {str(type(value)) if not isinstance(value, str) else value!r}"
        )
    return value


def _options(options: Any) -> Mapping[str, str] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise ValueError(f"options must map letters to texts, got {type(options).__name__}")
    # Columnar files fill the letters a row lacks with None.
    offered = {letter: text for letter, text in options.items() if text is not None}
    for letter, text in offered.items():
        if not (
            isinstance(letter, str) and len(letter) == 1 and "A" <= letter <= "Z" and isinstance(text, str)
        ):
            raise ValueError("options must map single capital letters to texts")
    if not offered:
        raise ValueError("options must offer at least one letter")
    return offered


def _unit(unit: Any) -> str | None:
    if unit is None or unit == "":
        return None
    name = canonical_unit(unit) if isinstance(unit, str) else None
    if name is None:
        raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}")
    return name


def _size(extra_info: Mapping[str, Any], key: str) -> tuple[float, float] | None:
    size = _plain(extra_info.get(key))
    if size is None:
        return None
    if (
        not isinstance(size, (list, tuple))
        or len(size) != 2
        or not all(_is_number(side) and side > 0 for side in size)
    ):
        raise ValueError(f"{key} must be [width, height], two positive numbers")
    return float(size[0]), float(size[1])


def _gold_box(gold: Any) -> box.Box:
    if isinstance(gold, str):
        parsed = box.parse_box(gold)
        coordinates = parsed.value
    elif isinstance(gold, (list, tuple)) and len(gold) == 4 and all(map(_is_number, gold)):
        x1, y1, x2, y2 = map(float, gold)
        coordinates = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
    else:
        coordinates = None
    if coordinates is None or coordinates[0] == coordinates[2] or coordinates[1] == coordinates[3]:
        raise ValueError(
            "gold of a box question must be [x_min, y_min, x_max, y_max] with an area, in original pixels"
        )
    return coordinates


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e308


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays, which parquet readers hand over, as plain Python."""
    return value.tolist() if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value
