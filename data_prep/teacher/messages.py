"""What is sent to a teacher's endpoint and what comes back, in the wire form of chat completions."""

import base64
import json
import mimetypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from data_prep.atomic import digest, sha256_file

_LETTERS_A_TOKEN = 4  # roughly, in English; for endpoints that do not count


@dataclass(frozen=True)
class Request:
    """One question to a model.

    - `images`: files sent before the text, in this order, byte for byte.
    - `json_schema`: what the answer must match; asked for as `response_format` where the endpoint takes it.
    - `attempt`: part of the hash, so that asking again is another request.
    - `model`: another model of the same endpoint than the configuration's.
    """

    system: str
    text: str
    images: tuple[Path, ...] = ()
    json_schema: dict[str, Any] | None = None
    attempt: int = 0
    model: str | None = None


@dataclass(frozen=True)
class Reply:
    """What became of a request.

    `text` is None where there is no usable answer; `fault` says why in a few words. With `given_up` the
    endpoint never answered, and the same request may be sent again later. Without it the model answered and
    was paid, but refused, said nothing, or was cut off at its token limit. Tokens are 0 where given up.
    """

    text: str | None
    fault: str | None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False
    given_up: bool = False


class MalformedError(ValueError):
    """An answer over HTTP that holds no chat completion; the message says what is wrong with it."""


@lru_cache(maxsize=64)  # the questions on one scene follow each other, and a retry soon follows its request
def data_url(path: Path) -> str:
    """A picture file as a data URL."""
    kind = mimetypes.guess_type(path.name)[0] or "image/jpeg"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


file_hash = lru_cache(maxsize=2**16)(sha256_file)


def request_key(request: Request, model: str, options: dict[str, Any]) -> str:
    """The hash under which a request is paid once: prompt, pictures' content, model, options, attempt."""
    return digest(
        {
            "system": request.system,
            "text": request.text,
            "images": [file_hash(path) for path in request.images],
            "json_schema": request.json_schema,
            "attempt": request.attempt,
            "model": request.model or model,
            "options": options,
        }
    )


def request_messages(request: Request) -> list[dict[str, Any]]:
    """Chat messages of a request: the system text, then the pictures as data URLs and the text."""
    pictures = [{"type": "image_url", "image_url": {"url": data_url(path)}} for path in request.images]
    return [
        {"role": "system", "content": request.system},
        {"role": "user", "content": [*pictures, {"type": "text", "text": request.text}]},
    ]


def response_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def read_reply(content: bytes, prompt: str) -> Reply:
    """The reply in an endpoint's answer. Tokens are estimated from the texts where it does not count them.

    Raises:
        MalformedError: the content is cut short or no chat completion.
    """
    try:
        completion = json.loads(content)
        choice = completion["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        refused = message.get("refusal") or choice.get("finish_reason") == "content_filter"
        cut_off = choice.get("finish_reason") == "length"
        usage = completion.get("usage") or {}
        counted = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedError(f"no chat completion ({type(error).__name__}: {error!s:.60})") from error
    tokens = [
        count if isinstance(count, int) else len(part) // _LETTERS_A_TOKEN
        for count, part in zip(counted, (prompt, text), strict=True)
    ]
    if refused:
        return Reply(None, "refused", *tokens)
    if cut_off:
        return Reply(None, "cut off at the token limit", *tokens)
    if not text.strip():
        return Reply(None, "empty", *tokens)
    return Reply(text, None, *tokens)


def _text(content: Any) -> str:
    """A message's text; halves of surrogate pairs, which no UTF-8 file can hold, become U+FFFD."""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    if not isinstance(content, str | None):
        raise TypeError(f"content is {content!r:.40}")
    return (content or "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
