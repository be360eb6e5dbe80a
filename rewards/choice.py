"""Multiple choice: one of the offered letters.

Read as a letter: the letter in any usual dress, the letter with its own option's text, or the exact text of exactly
one option. Not read: a letter inside a word, a letter that was not offered, two letters, a letter with another
option's text, a negation or a hedge.
"""

import re
from collections.abc import Mapping

from rewards.answer import Parsed
from rewards.text import normalise, undress

DEFAULT_OPTIONS: Mapping[str, str] = {"A": "", "B": "", "C": "", "D": ""}
"""Offered when a row names no options: letters A to D, texts unknown."""

_LEAD = re.compile(
    r"(?:the |my )?(?:(?:final|correct|best|right) )?(?:answer|option|choice|letter)\b(?: is| would be)?\s*[:=]?\s*",
    re.IGNORECASE,
)
_LETTER_AND_TEXT = re.compile(r"[(\[{]?([A-Za-z])(\s*[)\]}.:,\-]+\s*|\s+)(.+)")
_STANDALONE = re.compile(r"(?<![^\W_])[A-Z](?![^\W_])")


def parse_choice(span: str, options: Mapping[str, str] = DEFAULT_OPTIONS) -> Parsed:
    """Read a letter from a normalised span. `options` maps each offered letter to its text ("" when unknown)."""
    core = undress(span)
    bare = core.strip("()[]{}<> .:*")
    if len(bare) != 1:
        core = undress(_LEAD.sub("", core, count=1)) if _LEAD.match(core) else core
        bare = core.strip("()[]{}<> .:*")
    if len(bare) == 1 and bare.isascii() and bare.isalpha():
        letter = bare.upper()
        return Parsed(letter, letter) if letter in options else Parsed(reason="not_offered")

    readings = set()
    with_text = _LETTER_AND_TEXT.fullmatch(core.replace("*", "").replace("`", ""))
    if with_text:
        written, separator, rest = with_text.groups()
        letter = written.upper()
        # A lower-case "a" before a bare space is the article.
        is_label = written.isupper() or not separator.isspace()
        if (
            is_label
            and options.get(letter)
            and _text_key(rest) == _text_key(option_text(letter, options[letter]))
        ):
            readings.add(letter)
    for key in {_text_key(span), _text_key(core)} - {""}:
        readings.update(
            letter for letter, text in options.items() if text and key == _text_key(option_text(letter, text))
        )
    if len(readings) == 1:
        letter = readings.pop()
        return Parsed(letter, letter)
    several = len(readings) > 1 or len(set(_STANDALONE.findall(core)) & set(options)) > 1
    return Parsed(reason="several_values" if several else "unreadable")


def score_choice(value: str, gold: str) -> float:
    """1.0 for the gold letter, else 0.0."""
    return float(value == gold)


def option_text(letter: str, text: str) -> str:
    """An option's text without its own label: ``"A) Flat roof"`` -> ``"Flat roof"``."""
    return re.sub(rf"^\s*\(?{letter}\s*[).:]\s*(?=\S)", "", text)


def _text_key(text: str) -> str:
    return undress(normalise(text).replace("*", "").replace("`", "")).casefold().removeprefix("the ")
