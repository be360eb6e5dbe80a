"""Where in a completion the answer stands.

Strict reading (the reward): the one ``<answer>`` block after the last ``</think>``. Flexible reading (evaluation
only): also the last of several blocks, an answer cue such as "the answer is B", or the whole text.
"""

import re
from dataclasses import dataclass
from typing import Any

from rewards.text import MAX_SPAN, normalise

END_OF_TURN = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "<|return|>",
    "<eos>",
    "<pad>",
    "</s>",
)
"""Tokens a decoder may leave at the end of a completion; they are no part of the answer."""

PLACEHOLDERS = ("<|image_pad|>", "<|video_pad|>", "<|audio_pad|>", "<|vision_start|>", "<IMG_CONTEXT>")
"""Tokens that stand for pixels. A completion that samples one scores 0: it breaks the next forward pass."""

# ASCII matters: without it "ſ" folds to "s" and a look-alike tag would count.
_TAG = re.compile(r"<(/?)(answer|think)>", re.IGNORECASE | re.ASCII)
_CUE = re.compile(
    r"\b(?:final |correct |best |right )?(?:answer|option|choice)(?: is|\s*[:=]| would be)\s*:?",
    re.IGNORECASE,
)
_CUE_END = re.compile(r"[\n\r]|[.!?](?=\s|$)|,? (?:because|since|due to|given that)\b")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reading of one answer: `value` is None when there is none, and `reason` then says why.

    `text` is the value in canonical spelling ("" when unparsed); `out_of_range` counts box coordinates off the image.
    """

    value: Any = None
    text: str = ""
    reason: str = ""
    out_of_range: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """The answer's text as written, or None with the reason; `before` and `after` are what surrounds the block."""

    text: str | None
    reason: str = ""
    before: str = ""
    after: str = ""


def strip_end_of_turn(text: str) -> str:
    """Drop trailing white space and end-of-turn tokens, in any number and order."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        token = next((t for t in END_OF_TURN if text.endswith(t, 0, end)), None)
        if token is None:
            return text[:end]
        end -= len(token)


def find_span(text: str) -> Span:
    """The strict span of a completion: exactly one ``<answer>`` block after the last ``</think>``."""
    if any(token in text for token in PLACEHOLDERS):
        return Span(None, "placeholder_token")
    start = 0
    answers: list[re.Match[str]] = []
    thinking = False
    for tag in _TAG.finditer(text):
        if tag[2][0] in "aA":
            answers.append(tag)
        elif tag[1]:
            start, thinking, answers = tag.end(), False, []
        else:
            thinking = True
    if thinking:
        return Span(None, "unclosed_think")
    if not answers:
        return Span(None, "no_answer", before=text[start:])
    if sum(not tag[1] for tag in answers) > 1:
        return Span(None, "several_answers")
    if [tag[1] for tag in answers] != ["", "/"]:
        return Span(None, "malformed_tag")
    opening, closing = answers
    return Span(
        text[opening.end() : closing.start()],
        before=text[start : opening.start()],
        after=strip_end_of_turn(text[closing.end() :]),
    )


def flexible_span(text: str) -> str | None:
    """The span evaluation's flexible reading takes: the last block, else what follows the last cue, else everything.

    Returns None where nothing can be an answer (a long text without block or cue, or unfinished thinking).
    """
    text = strip_end_of_turn(text)
    tags = list(_TAG.finditer(text))
    thinks = [tag for tag in tags if tag[2][0] in "tT"]
    if thinks and not thinks[-1][1]:
        return None
    start = thinks[-1].end() if thinks else 0
    answers = [tag for tag in tags if tag[2][0] in "aA" and tag.start() >= start]
    openings = [i for i, tag in enumerate(answers) if not tag[1]]
    if openings:
        last = openings[-1]
        end = answers[last + 1].start() if last + 1 < len(answers) else len(text)
        return text[answers[last].end() : end]
    text = text[start:]
    cue = None
    for cue in _CUE.finditer(text):
        pass
    if cue:
        tail = text[cue.end() : cue.end() + MAX_SPAN].strip()
        end_of_cue = _CUE_END.search(tail)
        return tail[: end_of_cue.start()] if end_of_cue else tail
    return text if len(text) <= MAX_SPAN else None


def clean_span(span: str) -> Parsed | str:
    """The span normalised, or the `Parsed` failure when it is empty or too long to be an answer."""
    clean = normalise(span)
    if not clean:
        return Parsed(reason="empty")
    return clean if len(clean) <= MAX_SPAN else Parsed(reason="too_long")
