"""Yes or no, as one word or followed by an explanation that does not take it back."""

import re

from rewards.answer import Parsed
from rewards.text import strip_lead, undress

_VERDICT = re.compile(r"(yes|no|true|false)(?![\w'])\s*(.*)")
_EXPLANATION = re.compile(r"(?:[,.;:(-]|because\b).*")
_RETRACTION = re.compile(
    r"\b(?:yes|no|true|false|or|but|maybe|perhaps|possibly|unsure|uncertain|unknown|unclear|cannot|can't|wait|"
    r"depends|however|both|neither|not sure|don't know|do not know)\b|\?"
)


def parse_yes_no(span: str) -> Parsed:
    """Read "yes" or "no" from a normalised span; "true" and "false" count as such."""
    verdict = _VERDICT.fullmatch(strip_lead(undress(span)).casefold())
    if not verdict:
        return Parsed(reason="unreadable")
    word, rest = verdict.groups()
    if _RETRACTION.search(rest):
        return Parsed(reason="several_values")
    if rest and not _EXPLANATION.fullmatch(rest):
        return Parsed(reason="unreadable")
    value = "yes" if word in ("yes", "true") else "no"
    return Parsed(value, value)


def score_yes_no(value: str, gold: str) -> float:
    """1.0 for the gold's word, else 0.0."""
    return float(value == gold)
