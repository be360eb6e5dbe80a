"""Response formats: what a completion must look like beside being right.

The headings stand here and nowhere else: the prompt builder, the teacher and the reward take them from this
module. Source: CVSBench, appendix 0.B.2 (two instruction styles, at most 200 words, no option letter in the
reasoning).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rewards.answer import Span, find_span

MAX_WORDS = 200
"""Most words in a whole completion, thinking and answer included."""

FORMAT_MODES = ("answer", "full")


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What stands before the answer: sections under `headings` in order, or thinking, or nothing."""

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

_THINK_TAG = re.compile(r"</?think>", re.IGNORECASE | re.ASCII)
_PREFILLED = re.compile(r"\A\s*<think>", re.IGNORECASE | re.ASCII)
# After these words a capital is an option's letter, after any other word a thing's name: "Building B".
_ANNOUNCES = (
    "options?|choices?|answers?|letters?|choose|chose|pick|select|is|are|be|was|so|thus|hence|therefore|then|means|"
    "gives|suggests|favou?rs|matches|fits|says?|and|or|not|to|with|than|for|of|by|in|on|as|like|a|the"
)
_NAMED_THING = re.compile(
    rf"\b(?!(?i:{_ANNOUNCES})\b)[A-Za-z][a-z]+ [A-Z]\b(?:(?:, and |, or |, | and | or | & |/)[A-Z]\b)*"
)
_CAPITAL = re.compile(r"(?<![\w'’-])([A-Z])(?!['’-]?\w)(?: (?=([a-zA-Z]{2,})))?")
_AFTER_LETTER_A = re.compile("is|was|because|since|as|and|or|seems|fits|matches|looks|would|must|should")


def check_format(
    text: str, response_format: str = "answer_only", mode: str = "answer", letters: Iterable[str] = "ABCD"
) -> bool:
    """Whether a completion keeps to a format of `RESPONSE_FORMATS`.

    `mode="answer"`: exactly one answer block, not empty, at the end. `mode="full"`: also the format's layout,
    at most `MAX_WORDS` words, and none of the option `letters` in the reasoning (give "" for answers that are
    no letters). The reward also has to be able to read the answer. ValueError for an unknown format or mode.
    """
    if response_format not in RESPONSE_FORMATS:
        raise ValueError(
            f"response_format must be one of {', '.join(RESPONSE_FORMATS)}, got {response_format!r}"
        )
    if mode not in FORMAT_MODES:
        raise ValueError(f"format mode must be one of {', '.join(FORMAT_MODES)}, got {mode!r}")
    return span_keeps_format(text, find_span(text), RESPONSE_FORMATS[response_format], mode, letters)


def span_keeps_format(
    text: str, span: Span, layout: ResponseFormat, mode: str, letters: Iterable[str]
) -> bool:
    """`check_format` for a completion whose answer span is known."""
    if span.text is None or not span.text.strip() or span.after:
        return False
    if mode == "answer":
        return True
    thinking = _THINK_TAG.sub(" ", text[: span.thinking])
    # A tag prefilled by the chat template may be left open.
    reasoning = _PREFILLED.sub("", span.before)
    if sum(len(part.split()) for part in (thinking, reasoning, span.text)) > MAX_WORDS:
        return False
    if layout.thinks:
        laid_out = bool(thinking.strip()) and not reasoning.strip()
    elif layout.headings:
        laid_out = not thinking.strip() and _has_sections(reasoning, layout)
    else:
        laid_out = not thinking.strip() and not reasoning.strip()
    return laid_out and not names_option(f"{thinking}\n{reasoning}", letters)


def names_option(reasoning: str, letters: Iterable[str]) -> bool:
    """Whether the reasoning gives one of the option letters away.

    The article "A" and things with a letter for a name ("Building B", "Arrows A and C") do not count.
    """
    offered = frozenset(letters)
    return any(
        letter in offered and (letter != "A" or not following or _AFTER_LETTER_A.fullmatch(following))
        for letter, following in _CAPITAL.findall(_NAMED_THING.sub(" ", reasoning))
    )


def _has_sections(reasoning: str, layout: ResponseFormat) -> bool:
    """Every heading once, in order, at the start of a line, words under each and nothing before the first."""
    found = list(_headings(layout.headings).finditer(reasoning))
    if [match.lastindex for match in found] != list(range(1, len(layout.headings) + 1)):
        return False
    ends = [match.start() for match in found[1:]] + [len(reasoning)]
    filled = all(re.search(r"\w", reasoning[m.end() : end]) for m, end in zip(found, ends, strict=True))
    return filled and not reasoning[: found[0].start()].strip()


@lru_cache(maxsize=8)
def _headings(headings: tuple[str, ...]) -> re.Pattern[str]:
    """Matches any heading at the start of a line; the number of the group that matched is its place."""
    names = "|".join("(" + re.escape(heading).replace(r"\ ", "[ \t]+") + ")" for heading in headings)
    return re.compile(rf"^[ \t]*(?:#+[ \t]+)?(?:\*\*|__)?(?:{names})(?!\w)", re.IGNORECASE | re.MULTILINE)
