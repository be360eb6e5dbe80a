"""Response formats: what a completion must look like beside being right.

The headings here are the only copy: the prompt builder, the teacher and the reward all take them from this module.
Source: CVSBench, appendix 0.B.2 (two instruction styles, at most 200 words, no option letter in the reasoning).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rewards.answer import Span, find_span

MAX_WORDS = 200
"""Most words in a whole completion, answer included."""


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A named layout: section headings in order, or a thinking block, before the answer."""

    name: str
    headings: tuple[str, ...] = ()
    thinks: bool = False


RESPONSE_FORMATS: dict[str, ResponseFormat] = {
    layout.name: layout
    for layout in (
        ResponseFormat("answer_only"),
        ResponseFormat(
            "imagination_cot",
            headings=(
                "Step 1: Observations",
                "Step 2: Cross-view mapping intention",
                "Step 3: Projection / imagination",
                "Step 4: Final reasoning",
            ),
        ),
        ResponseFormat("structured_cot", headings=("Overview", "Key Objects", "Spatial Reasoning")),
        ResponseFormat("think_answer", thinks=True),
    )
}

FORMAT_MODES = ("answer", "full")

_OPEN_THINK = re.compile(r"\s*<think>", re.IGNORECASE | re.ASCII)
_CLOSE_THINK = re.compile(r"</think>", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"\w")
# Words after which a capital letter is an option, not the name of a thing as in "Building B".
_NOT_A_NAME = (
    "option|options|choice|choices|answer|answers|letter|is|are|be|was|so|thus|hence|therefore|then|choose|pick|select|"
    "and|or|not|to|with|than|for|of|by|in|on|as|like|say|means|gives|suggests|favors|favours|matches|fits|a|the"
)
_NAMED_THING = re.compile(
    rf"\b(?!(?:{_NOT_A_NAME})\b)[a-z]{{2,}} [A-Z]\b(?:(?:, | and | or |/| & )[A-Z]\b)*", re.IGNORECASE
)
_LETTER = re.compile(r"(?<![\w'’])([A-Z])(?![\w'’])(?: ([a-zA-Z]{2,}))?")
_NOT_AFTER_ARTICLE = frozenset(
    ["is", "was", "because", "since", "as", "and", "or", "seems", "fits", "matches", "looks", "would", "must", "should", "it"]
)


def check_format(
    text: str, response_format: str = "answer_only", mode: str = "answer", letters: Iterable[str] = "ABCD"
) -> bool:
    """Whether a completion keeps to the format.

    `mode="answer"`: exactly one non-empty answer block, at the end. `mode="full"`: also the layout of
    `response_format`, at most `MAX_WORDS` words, and none of the option `letters` in the reasoning (pass "" for
    answers that are not letters). Raises ValueError for an unknown format or mode.
    """
    if response_format not in RESPONSE_FORMATS:
        raise ValueError(
            f"response_format must be one of {', '.join(RESPONSE_FORMATS)}, got {response_format!r}"
        )
    if mode not in FORMAT_MODES:
        raise ValueError(f"format mode must be one of {', '.join(FORMAT_MODES)}, got {mode!r}")
    return format_of_span(text, find_span(text), RESPONSE_FORMATS[response_format], mode, letters)


def format_of_span(text: str, span: Span, layout: ResponseFormat, mode: str, letters: Iterable[str]) -> bool:
    """`check_format` for a completion whose answer span is already found."""
    if span.text is None or not span.text.strip() or span.after:
        return False
    if mode == "answer":
        return True
    thinking = _thinking(text)
    reasoning = f"{thinking or ''}\n{span.before}"
    if len(reasoning.split()) + len(span.text.split()) > MAX_WORDS:
        return False
    if layout.thinks:
        laid_out = thinking is not None and bool(_WORD.search(thinking)) and not span.before.strip()
    elif layout.headings:
        laid_out = _has_sections(span.before, layout)
    else:
        laid_out = thinking is None and not span.before.strip()
    return laid_out and not names_option(reasoning, letters, layout)


def names_option(reasoning: str, letters: Iterable[str], layout: ResponseFormat | None = None) -> bool:
    """Whether the reasoning gives an option letter away.

    The article "A" and named things ("Building B", "Arrows A and C") do not count.
    """
    offered = frozenset(letters) - {"I"}
    if not offered:
        return False
    for match in _LETTER.finditer(_NAMED_THING.sub(" ", reasoning)):
        letter, following = match.groups()
        if letter not in offered:
            continue
        if letter == "A" and following and following not in _NOT_AFTER_ARTICLE:
            continue
        return True
    return False


def _thinking(text: str) -> str | None:
    """The text before the last ``</think>``, without an opening tag; None when there is no thinking."""
    end = None
    for end in _CLOSE_THINK.finditer(text):
        pass
    if end is None:
        return None
    opening = _OPEN_THINK.match(text)
    return text[opening.end() if opening else 0 : end.start()]


def _has_sections(reasoning: str, layout: ResponseFormat) -> bool:
    """Every heading once, in order, at the start of a line, with something under it and nothing before the first."""
    found = list(_heading_pattern(layout.headings).finditer(reasoning))
    wanted = [" ".join(heading.casefold().split()) for heading in layout.headings]
    if [" ".join(match[1].casefold().split()) for match in found] != wanted or reasoning[
        : found[0].start()
    ].strip():
        return False
    ends = [match.start() for match in found[1:]] + [len(reasoning)]
    return all(_WORD.search(reasoning, match.end(), end) for match, end in zip(found, ends, strict=True))


@lru_cache(maxsize=8)
def _heading_pattern(headings: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(heading).replace(r"\ ", "[ \t]+") for heading in headings)
    return re.compile(rf"^[ \t]*(?:#{{1,6}}[ \t]+)?(?:\*\*|__)?({names})(?!\w)", re.IGNORECASE | re.MULTILINE)
