"""Where in a completion the answer stands.

Strict reading (the reward): the one ``<answer>`` block after the last ``</think>``. Flexible reading
(evaluation only): also the last of several blocks, a cue such as "the answer is B", or the whole text.
"""

import re
from dataclasses import dataclass
from typing import Any

MAX_SPAN = 1000
"""Longest answer that is read, in characters after white space is collapsed."""

END_OF_TURN = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<eos>",
    "<pad>",
    "</s>",
)
"""Tokens a decoder may leave at the end of a completion; they are no part of it."""

PLACEHOLDERS = (
    "<|image_pad|>",
    "<|video_pad|>",
    "<|audio_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<IMG_CONTEXT>",
)
"""Tokens that stand for pictures. A completion that samples one earns nothing: it breaks the forward pass."""

# ASCII matters: without it "ſ" folds to "s", and a look-alike tag would count.
_TAG = re.compile(r"<(?:(/?)answer|/think)>", re.IGNORECASE | re.ASCII)
_CUE = re.compile(r"\b(?:answer|option|choice)(?: is| would be|[\s*_]*[:=])[\s*_]*:?", re.IGNORECASE)
_CUE_END = re.compile(r"[\n\r]|(?<!approx)[.!?](?=\s|$)|,? (?:because|since|due to|given that)\b")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reading of one answer: `value` is None when there is none, and `reason` then says why.

    `text` is the value in canonical spelling ("" when unparsed). `out_of_range` counts the coordinates of a
    box that lie off the image.
    """

    value: Any = None
    text: str = ""
    reason: str = ""
    out_of_range: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """The answer as written, or None and the reason; `before` and `after` are what surrounds the block.

    `before` begins after the thinking, which is `text[:thinking]`.
    """

    text: str | None
    reason: str = ""
    before: str = ""
    after: str = ""
    thinking: int = 0


def strip_end_of_turn(text: str) -> str:
    """Drop trailing white space and end-of-turn tokens, in any number and order."""
    text = text.rstrip()
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        if not text.endswith(END_OF_TURN, 0, end):
            return text[:end]
        end -= next(len(token) for token in END_OF_TURN if text.endswith(token, 0, end))


def find_span(text: str) -> Span:
    """The strict span: exactly one ``<answer>`` block, tags in any case, after the last ``</think>``."""
    if any(token in text for token in PLACEHOLDERS):
        return Span(None, "placeholder_token")
    start, answers = _tags(text)
    opening = [tag for tag in answers if not tag[1]]
    if not opening:
        return Span(None, "malformed_tag" if answers else "no_answer")
    if len(opening) > 1:
        return Span(None, "several_answers")
    if len(answers) != 2 or answers[0][1]:
        return Span(None, "malformed_tag")
    first, last = answers
    return Span(
        text[first.end() : last.start()],
        before=text[start : first.start()],
        after=strip_end_of_turn(text[last.end() :]),
        thinking=start,
    )


def flexible_span(text: str) -> str:
    """What the flexible reading takes: the last block, else what follows the last cue, else the whole text.

    A last block that was never closed runs to the end.
    """
    text = strip_end_of_turn(text)
    start, answers = _tags(text)
    for position in range(len(answers) - 1, -1, -1):
        if not answers[position][1]:
            end = answers[position + 1].start() if position + 1 < len(answers) else len(text)
            return text[answers[position].end() : end]
    rest = _TAG.sub(" ", text[start:]).strip()
    cues = list(_CUE.finditer(rest))
    if cues:
        tail = rest[cues[-1].end() :].lstrip()[:MAX_SPAN]
        end_of_cue = _CUE_END.search(tail)
        return tail[: end_of_cue.start()] if end_of_cue else tail
    return rest


def _tags(text: str) -> tuple[int, list[re.Match[str]]]:
    """Where the thinking ends (0 without any) and the answer tags after it."""
    start, answers = 0, []
    for tag in _TAG.finditer(text):
        if tag[1] is None:
            start, answers = tag.end(), []
        else:
            answers.append(tag)
    return start, answers
