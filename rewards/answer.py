"""Where in a completion the answer stands.

Strict reading (the reward): the one ``<answer>`` block after the last ``</think>``. Flexible reading
(evaluation only): also the last of several blocks, a cue such as "the answer is B", or the whole text.
"""

import re
from collections import deque
from typing import Any, NamedTuple

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
_PLACEHOLDER = re.compile("|".join(map(re.escape, PLACEHOLDERS)))
_CUE = re.compile(r"\b(?:answer|option|choice)(?: is| would be|[\s*_]*[:=])[\s*_]*:?", re.IGNORECASE)
_CUE_END = re.compile(r"[\n\r]|(?<!approx)[.!?](?=\s|$)|,? (?:because|since|due to|given that)\b")


class Parsed(NamedTuple):
    """A reading of one answer: `value` is None when there is none, and `reason` then says why.

    `text` is the value in canonical spelling ("" when unparsed). `out_of_range` counts the coordinates of a
    box that lie off the image.
    """

    value: Any = None
    text: str = ""
    reason: str = ""
    out_of_range: int = 0


class Span(NamedTuple):
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
    if _PLACEHOLDER.search(text):
        return Span(None, "placeholder_token")
    start = opened = 0
    tags: list[re.Match[str]] = []
    for tag in _TAG.finditer(text):
        if tag[1] is None:  # what stood before it was thinking
            start, opened, tags = tag.end(), 0, []
            continue
        opened += not tag[1]
        # The third tag is one too many already; a text of nothing but tags is not held in memory.
        if len(tags) < 3:
            tags.append(tag)
    if opened > 1:
        return Span(None, "several_answers")
    if not opened:
        return Span(None, "malformed_tag" if tags else "no_answer")
    if len(tags) != 2 or tags[0][1]:
        return Span(None, "malformed_tag")
    first, last = tags
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
    start = 0
    opening = closing = None
    for tag in _TAG.finditer(text):
        if tag[1] is None:
            start, opening, closing = tag.end(), None, None
        elif not tag[1]:
            opening, closing = tag, None
        elif closing is None:
            closing = tag
    if opening is not None:
        return text[opening.end() : closing.start() if closing else len(text)]
    rest = _TAG.sub(" ", text[start:]).strip()
    last_cue = deque(_CUE.finditer(rest), maxlen=1)
    if last_cue:
        tail = rest[last_cue[0].end() :].lstrip()[:MAX_SPAN]
        end_of_cue = _CUE_END.search(tail)
        return tail[: end_of_cue.start()] if end_of_cue else tail
    return rest
