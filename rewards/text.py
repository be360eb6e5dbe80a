"""One spelling for what a reader would call the same answer.

Only the short span inside the answer tag passes through here, never the whole completion, so the cost does
not grow with the length of the reasoning.
"""

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_VULGAR_FRACTION = re.compile("([¼-¾⅐-⅞])")
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufe0e\ufe0f\ufeff"
_ONE_SPELLING = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("【〔〖〘〚「『《〈⟨❨❪❬❮❰❲❴⦅⟦", "("),
        **dict.fromkeys("】〕〗〙〛」』》〉⟩❩❫❭❯❱❳❵⦆⟧", ")"),
        **dict.fromkeys("“”„‟«»〝〞", '"'),
        **dict.fromkeys("‘’‚‛‹›′", "'"),
        **dict.fromkeys("º˚", "°"),
        **dict.fromkeys("≃≅∼∽", "≈"),
        "。": ".",
        "、": ",",
        "⁄": "/",
        **dict.fromkeys(_INVISIBLE),
    }
)

_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">", '"': '"', "'": "'"}
_LATEX_WRAPPER = re.compile(r"\\(?:boxed|fbox|text(?:bf|it|rm|sf)?|math(?:rm|bf|it|sf))\s*(\{.*\})")
_LATEX_MATH = re.compile(r"\\[(\[](.*)\\[)\]]")
_LEAD = re.compile(
    r"(?:(?:the|my) )?(?:(?:final|correct|best|right) )?(?:answer|option|choice|letter)\b"
    r"(?: is| would be)?[*_]*\s*[:=]?",
    re.IGNORECASE,
)


def normalise(span: str) -> str:
    """White space collapsed, compatibility characters folded, dashes, brackets and quotes in one spelling.

    A superscript becomes ``^2`` first: plain folding would turn ``10³`` into ``103``.
    """
    if not span.isascii():
        # Twice: the spelling must be fixed before folding (º would become o) and after it (″ becomes ′′).
        span = _SUPERSCRIPT_RUN.sub(lambda run: "^" + run[0].translate(_SUPERSCRIPTS), span)
        span = _VULGAR_FRACTION.sub(r" \1", span).translate(_ONE_SPELLING)
        span = unicodedata.normalize("NFKC", span).translate(_ONE_SPELLING)
    return " ".join(span.split())


def undress(span: str) -> str:
    """Strip what surrounds an answer without changing it: brackets, quotes, markdown, LaTeX, a full stop.

    What would change it stays: ``B?`` is a hedge, ``>3`` an inequality.
    """
    for _ in range(8):
        bare = span.rstrip(" *_`$.,;:!").lstrip(" *_`$#")
        if _encloses(bare):
            bare = bare[1:-1]
        elif bare.startswith("\\"):
            wrapper = _LATEX_WRAPPER.fullmatch(bare)
            maths = _LATEX_MATH.fullmatch(bare)
            if wrapper and _encloses(wrapper[1]):
                bare = wrapper[1][1:-1]
            elif maths:
                bare = maths[1]
        if bare == span:
            break
        span = bare
    return span


def strip_lead(span: str) -> str:
    """Drop words that announce an answer: "The correct option is B" -> "B", "Answer: B" -> "B"."""
    lead = _LEAD.match(span)
    return undress(span[lead.end() :]) if lead else span


def _encloses(text: str) -> bool:
    """Whether the first and the last character are one pair around everything between them."""
    closing = _CLOSING.get(text[0]) if len(text) > 1 else None
    if closing is None or text[-1] != closing:
        return False
    if closing == text[0]:
        return closing not in text[1:-1]
    depth = 0
    for position, character in enumerate(text):
        depth += (character == text[0]) - (character == closing)
        if depth == 0:
            return position == len(text) - 1
    return False
