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

_WORD = re.compile(r"\w")
_THINK_TAG = re.compile(r"</?think>", re.IGNORECASE | re.ASCII)
_PREFILLED = re.compile(r"\s*<think>", re.IGNORECASE | re.ASCII)
_CAPITAL = re.compile(r"[A-Z](?!['’-]?\w)(?<![\w'’-].)")
_WORD_BEFORE = re.compile(r"\b([A-Za-z][a-z]+) \Z")
_WORD_AFTER = re.compile(r" ([A-Za-z]{2,})")
# After these words a capital is an option's letter, after any other word a thing's name: "Building B".
_ANNOUNCES = re.compile(
    r"options?|choices?|answers?|letters?|choose|chose|pick|select|is|are|be|was|so|thus|hence|therefore|then|means|"
    r"gives|suggests|favou?rs|matches|fits|says?|and|or|not|to|with|than|for|of|by|in|on|as|like|a|the",
    re.IGNORECASE,
)
_JOINS_NAMES = re.compile(r", (?:and |or )?| (?:and|or|&) |/")
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
    thinking, reasoning = _THINK_TAG.sub(" ", text[: span.thinking]), span.before
    prefilled = _PREFILLED.match(reasoning)
    if prefilled:
        # The chat template's own tag, which the model never closed.
        reasoning = reasoning[prefilled.end() :]
    if sum(len(part.split(None, MAX_WORDS)) for part in (thinking, reasoning, span.text)) > MAX_WORDS:
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
    end_of_name = -1
    for capital in _CAPITAL.finditer(reasoning):
        start, end = capital.span()
        joined = end_of_name >= 0 and _JOINS_NAMES.fullmatch(reasoning, end_of_name, start)
        word = _WORD_BEFORE.search(reasoning[max(start - 30, 0) : start])
        if joined or (word and not _ANNOUNCES.fullmatch(word[1])):
            end_of_name = end
        elif capital[0] in offered:
            following = _WORD_AFTER.match(reasoning, end) if capital[0] == "A" else None
            if not following or _AFTER_LETTER_A.fullmatch(following[1]):
                return True
    return False


def _has_sections(reasoning: str, layout: ResponseFormat) -> bool:
    """Every heading once, in order, at the start of a line, words under each and nothing before the first."""
    heading_pattern = _headings(layout.headings)
    order: list[int | None] = []
    filled: list[bool] = []
    for line in reasoning.split("\n"):
        heading = heading_pattern.match(line)
        if heading:
            order.append(heading.lastindex)
            filled.append(False)
            line = line[heading.end() :]
        if filled:
            filled[-1] = filled[-1] or bool(_WORD.search(line))
        elif line.strip():
            return False
    return order == list(range(1, len(layout.headings) + 1)) and all(filled)


@lru_cache(maxsize=8)
def _headings(headings: tuple[str, ...]) -> re.Pattern[str]:
    """Matches a line that begins with a heading; the number of the group that matched is its place."""
    names = "|".join("(" + re.escape(heading).replace(r"\ ", "[ \t]+") + ")" for heading in headings)
    return re.compile(rf"[ \t]*(?:#+[ \t]+)?(?:\*\*|__)?(?:{names})(?!\w)", re.IGNORECASE)
