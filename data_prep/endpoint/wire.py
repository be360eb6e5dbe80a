"""The wire form of chat completions: pictures as they are sent, and what an answer says."""

import base64
import json
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_LETTERS_A_TOKEN = 4  # roughly, in English; for endpoints that do not count


class MalformedError(ValueError):
    """An answer over HTTP that holds no chat completion; the message says what is wrong with it."""


@dataclass(frozen=True)
class Answer:
    """A chat completion: its text ("" where there is none), how it ended, and the endpoint's own counts.

    `refused` means that the model or a filter of the endpoint declined; `cut_off` that it reached the token
    limit. Tokens are None where the endpoint does not count them.
    """

    text: str
    refused: bool
    cut_off: bool
    prompt_tokens: int | None
    completion_tokens: int | None


@lru_cache(maxsize=64)  # the questions on one scene follow each other, and a retry soon follows its request
def data_url(path: Path) -> str:
    """A picture file, byte for byte, as a data URL."""
    kind = mimetypes.guess_type(path.name)[0] or "image/jpeg"
    return encoded(path.read_bytes(), kind)


def encoded(content: bytes, kind: str) -> str:
    """The content of a file of media type `kind` as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def image_part(url: str) -> dict[str, Any]:
    """The part of a message that shows a picture."""
    return {"type": "image_url", "image_url": {"url": url}}


def read_answer(content: bytes) -> Answer:
    """The answer in what came over HTTP.

    Raises:
        MalformedError: the content is cut short or no chat completion.
    """
    try:
        completion = json.loads(content)
        choice = completion["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        refused = bool(message.get("refusal")) or choice.get("finish_reason") == "content_filter"
        cut_off = choice.get("finish_reason") == "length"
        usage = completion.get("usage") or {}
        counted = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedError(f"no chat completion ({type(error).__name__}: {error!s:.60})") from error
    return Answer(text, refused, cut_off, *(count if isinstance(count, int) else None for count in counted))


def estimated(text: str) -> int:
    """Tokens of a text, roughly."""
    return len(text) // _LETTERS_A_TOKEN


def _text(content: Any) -> str:
    """A message's text; halves of surrogate pairs, which no UTF-8 file can hold, become U+FFFD."""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    if not isinstance(content, str | None):
        raise TypeError(f"content is {content!r:.40}")
    return (content or "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
