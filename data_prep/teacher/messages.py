"""What is sent to a teacher's endpoint and what comes back, in the wire form of chat completions."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from data_prep.atomic import digest, sha256_file
from data_prep.endpoint.wire import data_url, estimated, image_part, read_answer


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
    pictures = [image_part(data_url(path)) for path in request.images]
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
    answer = read_answer(content)
    tokens = (
        estimated(prompt) if answer.prompt_tokens is None else answer.prompt_tokens,
        estimated(answer.text) if answer.completion_tokens is None else answer.completion_tokens,
    )
    if answer.refused:
        return Reply(None, "refused", *tokens)
    if answer.cut_off:
        return Reply(None, "cut off at the token limit", *tokens)
    if not answer.text.strip():
        return Reply(None, "empty", *tokens)
    return Reply(answer.text, None, *tokens)
