"""Multiple choice: one of the offered letters.

Read as a letter: the letter in any usual dress, the letter with its own option's text, or the exact text of
exactly one option. Not read: a letter inside a word, a letter that was not offered, two letters, a letter
with another option's text, a negation, a hedge.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from rewards.answer import Parsed
from rewards.text import normalise, strip_lead, undress

DEFAULT_OPTIONS: Mapping[str, str] = {"A": "", "B": "", "C": "", "D": ""}
"""Offered when a row names no options: letters A to D, texts unknown."""

_LETTER_AND_TEXT = re.compile(r"[(\[{]?([A-Za-z])(\s*[)\]}.:,=\-]+\s*|\s+)(.+)")
_LABEL = re.compile(r"\s*\(?([A-Z])\s*[).:]\s*(?=\S)")
_CAPITAL = re.compile(r"\b[A-Z]\b")


def parse_choice(span: str, options: Mapping[str, str] = DEFAULT_OPTIONS) -> Parsed:
    """Read a letter from a normalised span. `options`: offered letter -> text ("" when unknown)."""
    core = undress(span)
    content = strip_lead(core)
    letter = _lone_letter(core) or _lone_letter(content)
    if letter:
        return Parsed(letter, letter) if letter in options else Parsed(reason="not_offered")
    readings = _by_text({span, content}, content, options)
    if len(readings) == 1:
        letter = readings.pop()
        return Parsed(letter, letter)
    several = readings or len(options.keys() & _CAPITAL.findall(core)) > 1
    return Parsed(reason="several_values" if several else "unreadable")


def score_choice(value: str, gold: str) -> float:
    """1.0 for the gold's letter, else 0.0."""
    return float(value == gold)


def option_text(letter: str, text: str) -> str:
    """An option's text without its own label: ``"A) Flat roof"`` -> ``"Flat roof"``."""
    label = _LABEL.match(text)
    return text[label.end() :] if label and label[1] == letter else text


def _lone_letter(core: str) -> str | None:
    bare = core.strip("()[]{}<> .:")
    return bare.upper() if len(bare) == 1 and bare.isascii() and bare.isalpha() else None


def _by_text(spellings: set[str], content: str, options: Mapping[str, str]) -> set[str]:
    """The letters whose option's text the answer gives: as one of its spellings, or after its own letter."""
    texts = {letter: _option_key(letter, text) for letter, text in options.items() if text}
    keys = set(map(_key, spellings))
    readings = {letter for letter, text in texts.items() if text in keys}
    labelled = _LETTER_AND_TEXT.fullmatch(_plain(content))
    if labelled:
        letter, separator, rest = labelled.groups()
        # A lower-case "a" before a bare space is the article.
        if (letter.isupper() or not separator.isspace()) and texts.get(letter.upper()) == _key(rest):
            readings.add(letter.upper())
    return readings


@lru_cache(maxsize=4096)
def _option_key(letter: str, text: str) -> str:
    """An option's text to compare with; kept, because a row is answered many times."""
    return _key(option_text(letter, text))


def _key(text: str) -> str:
    return undress(_plain(normalise(text))).casefold().removeprefix("the ")


def _plain(text: str) -> str:
    return text.replace("*", "").replace("`", "")
