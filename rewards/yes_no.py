"""Yes or no, as one word or followed by an explanation that does not take it back."""

import re

from rewards.answer import Parsed
from rewards.text import undress

_VERDICT = re.compile(r"(yes|no|true|false)(?![\w'])\s*(.*)")
_RETRACTION = re.compile(
    r"\b(?:yes|no|true|false|or|but|maybe|perhaps|possibly|unsure|uncertain|unknown|unclear|cannot|can't|wait|depends|"
    r"however|both|neither|not sure|don't know|do not know)\b|\?"
)


def parse_yes_no(span: str) -> Parsed:
    """Read "yes" or "no" ("true" and "false" count as such) from a normalised span."""
    verdict = _VERDICT.fullmatch(undress(span).casefold())
    if not verdict:
        return Parsed(reason="unreadable")
    word, rest = verdict.groups()
    if rest and rest[0] not in ",.;:-(" and not rest.startswith("because"):
        return Parsed(reason="several_values" if _RETRACTION.search(rest) else "unreadable")
    if _RETRACTION.search(rest):
        return Parsed(reason="several_values")
    value = "yes" if word in ("yes", "true") else "no"
    return Parsed(value, value)


def score_yes_no(value: str, gold: str) -> float:
    """1.0 for the gold word, else 0.0."""
    return float(value == gold)
