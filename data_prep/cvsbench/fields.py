"""The fields of a CVSBench question: which keys are read, in which order, and what they may hold.

Every function raises `FieldError` with a sentence for the quarantine list.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rewards.box import in_order

IMAGE_ID_KEYS = ("img_id", "sample_id", "sample", "id")
SAMPLE_KEYS = ("sample_id", "sample", "img_id", "id")
VIEW_KEYS = ("view_id", "view")
CATEGORY_KEYS = ("category", "category_l1", "category_l2")
NOT_AMONG = "is not among the options"  # by these words an audit tells this fault from others
# A box that grounding asks for: keys of the question, then those of its row.
QUESTION_BOX_KEYS = ("answer", "target_bbox")
ROW_BOX_KEYS = ("target_bbox", "gt_bbox", "answer_bbox", "answer")
# The box of the same thing in the source picture.
SOURCE_BOX_KEYS = ("source_bbox", "bbox", "input_bbox")

_LABEL = re.compile(r"\s*\(?([A-Za-z])[).:]\s*(\S.*?)\s*", re.DOTALL)  # "A) …", "(A) …", "A. …", "A: …"
_LONE_LETTER = re.compile(r"\(?([A-Za-z])[).:]?\)?")


class FieldError(ValueError):
    """A row-level fault."""


class PictureFieldError(FieldError):
    """A question whose picture is not there."""


def first(record: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first key that holds something; None and "" hold nothing."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def identifier(record: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """An id or a view as text. Numbers are taken as they are written; None where no key holds one."""
    value = first(record, keys)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise FieldError(f"an id is a text or a whole number, not {value!r:.60}")
    return str(value).strip()


def question_text(record: Mapping[str, Any]) -> str:
    value = record.get("question")
    if not isinstance(value, str) or not value.strip():
        raise FieldError("no question")
    return _writable(value.strip())


def options(value: Any) -> dict[str, str]:
    """Options by letter, in the order of the source.

    Args:
        value: ["A) text", …], [{"A": text}, …], {"A": text, …}, ["A", "B", …] (the text is the letter)
            or plain texts without labels, which get the letters from A on.
    """
    if isinstance(value, Mapping):
        pairs = [_keyed(key, text) for key, text in value.items()]
    elif isinstance(value, list) and value and all(isinstance(o, Mapping) and len(o) == 1 for o in value):
        pairs = [_keyed(key, text) for option in value for key, text in option.items()]
    elif isinstance(value, list) and value and all(isinstance(option, str) for option in value):
        pairs = _labelled(value)
    else:
        raise FieldError(f"options are neither a list of texts nor letters with texts: {value!r:.80}")
    letters, texts = zip(*pairs, strict=True) if pairs else ((), ())
    if len(pairs) < 2:
        raise FieldError(f"a choice needs two options or more, not {len(pairs)}")
    if len({*letters}) < len(letters):
        raise FieldError(f"an option letter is used twice: {', '.join(letters)}")
    if not all(texts):
        raise FieldError("an option has no text")
    if len({text.casefold() for text in texts}) < len(texts):
        raise FieldError(f"two options read the same: {texts!r:.120}")
    return {letter: _writable(text) for letter, text in pairs}


def answer(value: Any, choices: Mapping[str, str]) -> str:
    """The bare letter of the right option; `value` is the letter, "A) text", or an option's text."""
    if value in (None, ""):
        raise FieldError("no answer")
    if not isinstance(value, str):
        raise FieldError(f"the answer is not a text: {value!r:.60}")
    text = value.strip()
    same = [letter for letter, option in choices.items() if option.casefold() == text.casefold()]
    lone = _LONE_LETTER.fullmatch(text)
    labelled = _LABEL.fullmatch(text)
    if lone:
        letter = lone[1].upper()
    elif same:
        letter = same[0]
    elif labelled and choices.get(labelled[1].upper(), "").casefold() == labelled[2].casefold():
        letter = labelled[1].upper()
    else:
        letter = ""
    if letter not in choices:
        raise FieldError(f"the answer {text!r:.60} {NOT_AMONG} {', '.join(choices)}")
    return letter


def level(record: Mapping[str, Any]) -> int:
    """A grounding question's level: 3 asks from a box, 4 from a description; 1 to 5 occur in the files."""
    value = record.get("level")
    text = "" if isinstance(value, bool) else str(value).strip().upper().removeprefix("L")
    if not re.fullmatch("[0-9]", text):
        raise FieldError(f"no level (a number such as 3 or 4) but {value!r:.40}")
    return int(text)


def target_box(question: Mapping[str, Any], record: Mapping[str, Any]) -> list[float]:
    """The right box of a grounding question: of the keys that hold something, the first decides.

    See `box` for what it may hold.
    """
    given = [(key, question.get(key)) for key in QUESTION_BOX_KEYS]
    given += [(key, record.get(key)) for key in ROW_BOX_KEYS]
    held = next(((key, value) for key, value in given if not _empty(value)), None)
    if held is None:
        raise FieldError(f"no box ({', '.join(dict(given))} are null, empty or absent)")
    return box(held[1], held[0])


def source_box(question: Mapping[str, Any], record: Mapping[str, Any]) -> list[float] | None:
    """The thing's box in the source picture, where the row gives one."""
    given = [(key, question.get(key)) for key in SOURCE_BOX_KEYS] + [
        ("source_bbox", record.get("source_bbox"))
    ]
    return next((box(value, key) for key, value in given if not _empty(value)), None)


def box(value: Any, key: str) -> list[float]:
    """[x_min, y_min, x_max, y_max] in pixels of the original picture, opposite corners put in order.

    Args:
        value: a list of four numbers, or the same as a text; `key` is where it stood.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise FieldError(f"{key} is no box: {value!r:.60}") from None
    if not isinstance(value, list) or len(value) != 4 or not all(map(_finite, value)):
        raise FieldError(f"{key} is no box of four numbers: {value!r:.60}")
    corners = list(in_order(value))
    if corners[0] == corners[2] or corners[1] == corners[3]:
        raise FieldError(f"{key} is a box without area: {value!r:.60}")
    if all(0 <= v <= 1 for v in corners):
        raise FieldError(f"{key} lies between 0 and 1, so it is not in pixels: {value!r:.60}")
    return corners


def text_of(record: Mapping[str, Any], key: str) -> str:
    """A text that may be absent: ""."""
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldError(f"{key} is not a text: {value!r:.60}")
    return _writable(value.strip())


def _empty(value: Any) -> bool:
    return value is None or value == "" or value == []


def _finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < 1e9 and math.isfinite(value)


def _keyed(key: Any, text: Any) -> tuple[str, str]:
    letter = _LONE_LETTER.fullmatch(str(key).strip())
    if not letter:
        raise FieldError(f"an option's key is a letter, not {key!r:.40}")
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise FieldError(f"an option is a text, not {text!r:.60}")
    label = _LABEL.fullmatch(str(text))
    repeated = label is not None and label[1].upper() == letter[1].upper()
    return letter[1].upper(), label[2] if label and repeated else str(text).strip()


def _labelled(texts: list[str]) -> list[tuple[str, str]]:
    labels = [_LABEL.fullmatch(text) for text in texts]
    if all(labels):
        return [(label[1].upper(), label[2]) for label in labels if label]
    bare = [text.strip() for text in texts]
    if all(len(text) == 1 and text.isalpha() for text in bare):
        return [(text.upper(), text.upper()) for text in bare]
    if any(labels):
        raise FieldError(f"some options carry a letter and some do not: {texts!r:.120}")
    return [(chr(ord("A") + place), text) for place, text in enumerate(bare)]


def _writable(text: str) -> str:
    """Half a surrogate pair is legal JSON and no text: no file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FieldError(f"a text holds half a character (\\u{ord(text[error.start]):04x})") from None
    return text
