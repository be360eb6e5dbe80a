"""Text clean-up shared by every answer type: one spelling for what a reader would call the same answer.

Only the short span inside the answer tag passes through here, never the whole completion, so the cost does not
grow with the length of the reasoning.
"""

import re
import unicodedata

MAX_SPAN = 1000
"""Longest answer span that is read, in characters after white space is collapsed."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_VULGAR_FRACTION = re.compile("([¼-¾⅐-⅞])")
_ONE_SPELLING = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−﹣", "-"),
        **dict.fromkeys("【〔〖〘〚「『《〈⟨❨❪❬❮❰❲❴⦅⟦", "("),
        **dict.fromkeys("】〕〗〙〛」』》〉⟩❩❫❭❯❱❳❵⦆⟧", ")"),
        **dict.fromkeys("“”„‟«»〝〞", '"'),
        **dict.fromkeys("‘’‚‛‹›", "'"),
        **dict.fromkeys("。｡", "."),
        **dict.fromkeys("、，", ","),
        "⁄": "/",
        "′": "'",
        "º": "°",
        "˚": "°",
        **dict.fromkeys("≃≅∼∽", "≈"),
        **dict.fromkeys(
            "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\ufe0e\ufe0f"
        ),
    }
)

_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">", '"': '"', "'": "'"}
_LATEX_WRAPPER = re.compile(r"\\(?:boxed|fbox|text(?:bf|it|rm|sf)?|math(?:rm|bf|it|sf)|bf|rm)\s*\{([^{}]*)\}")
_LATEX_MATH = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]")


def normalise(span: str) -> str:
    """White space collapsed, compatibility characters folded, dashes, brackets and quotes in one spelling.

    A superscript becomes ``^2`` before folding (plain folding would turn ``10³`` into ``103``).
    """
    if not span.isascii():
        span = span[: 4 * MAX_SPAN] if len(span) > 4 * MAX_SPAN and not span.isspace() else span
        span = _SUPERSCRIPT_RUN.sub(lambda m: "^" + m.group().translate(_SUPERSCRIPTS), span)
        span = _VULGAR_FRACTION.sub(r" \1", span)
        span = unicodedata.normalize("NFKC", span.translate(_ONE_SPELLING)).translate(_ONE_SPELLING)
    return " ".join(span.split())


def undress(span: str) -> str:
    """Strip what surrounds an answer without changing it: brackets, quotes, markdown, LaTeX wrappers, a full stop.

    A question mark stays: ``B?`` is a hedge, not an answer.
    """
    for _ in range(8):
        bare = span.rstrip(" *_`$.,;:!").lstrip(" *_`$#>")
        if len(bare) > 1 and _PAIRS.get(bare[0]) == bare[-1]:
            inner = bare[1:-1]
            if bare[0] not in inner and bare[-1] not in inner:
                bare = inner
        elif bare.startswith("\\"):
            wrapped = _LATEX_WRAPPER.fullmatch(bare) or _LATEX_MATH.fullmatch(bare)
            if wrapped:
                bare = next(group for group in wrapped.groups() if group is not None)
        if bare == span:
            break
        span = bare
    return span
