"""The teacher's client for endpoints that answer with a picture: the same retries, limits, cache and resume.

Pictures are files, `pictures/<hash>` beside the log of replies; the log has their names in place of texts.
"""

import base64
import binascii
import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
from omegaconf import DictConfig
from PIL import Image

from data_prep.atomic import replacing
from data_prep.endpoint.address import api_key
from data_prep.endpoint.wire import MalformedError, data_url
from data_prep.errors import UserError
from data_prep.images import PictureError, clean, decode
from data_prep.teacher.client import Client, Reply, Request
from data_prep.teacher.estimate import prompt_tokens

SIDE = 1024  # pixels of a miniature (CVSBench 0.A.4)
SECTION = "data.views_miniature"
_REFUSALS = ("moderation_blocked", "content_policy_violation", "content_filter")
_GEMINI = httpx.Request("POST", "https://generativelanguage.googleapis.com")
_REFUSED = b'{"refused": true}'


class ImageClient(Client):
    """Asks for one square picture a request. `Reply.text` is the picture's path below `folder`.

    A square picture of another size is scaled to 1024 x 1024; one that is not square is a reply without a
    picture, and its fault says the size. What is no picture at all is asked for again, as a cut answer is.

    Args:
        config: the section `data.views_miniature`.
        folder: where replies and pictures are kept, unless `cache` names another folder.

    Raises:
        UserError: as `Client` does.
    """

    def __init__(self, config: DictConfig, folder: Path) -> None:
        super().__init__(config, folder, SECTION)
        self._config = config
        self.folder = Path(config.cache) if config.cache else folder

    async def ask(self, request: Request) -> Reply:
        """As `Client.ask`; a picture that is no longer on disk counts as not paid for."""
        known = self._cache.get(self._key(request))
        if known and known.text and not (self.folder / known.text).is_file():
            self._cache.forget(self._key(request))
        return await super().ask(request)

    def _body(self, request: Request) -> dict[str, Any]:
        return {"request": request}

    async def _post(self, api: openai.AsyncOpenAI, model: str, body: dict[str, Any], key: str) -> bytes:
        call = self._edit if self._config.api == "edit" else self._generate
        try:
            return await call(api, model, body["request"], key)
        except openai.BadRequestError as error:
            if error.code in _REFUSALS:
                return _REFUSED
            raise

    async def _edit(self, api: openai.AsyncOpenAI, model: str, request: Request, key: str) -> bytes:
        files = [(path.name, path.read_bytes(), _mime(path)) for path in request.images]
        answer = await api.images.with_raw_response.edit(
            model=model,
            image=files,
            prompt=request.text,
            extra_body=self._options,
            extra_headers={"Idempotency-Key": key},
        )
        return answer.content

    async def _generate(self, api: openai.AsyncOpenAI, model: str, request: Request, key: str) -> bytes:
        """For servers that take pictures with /images/generations: as data URLs under `image`."""
        answer = await api.images.with_raw_response.generate(
            model=model,
            prompt=request.text,
            extra_body={**self._options, "image": [data_url(path) for path in request.images]},
            extra_headers={"Idempotency-Key": key},
        )
        return answer.content

    def _read(self, content: bytes, request: Request) -> Reply:
        answer, encoded = _picture_of(content)
        counts = answer.get("usage")
        counts = counts if isinstance(counts, dict) else {}
        used = (counts.get("input_tokens"), counts.get("output_tokens"))
        guessed = (prompt_tokens(request), self._config.image_tokens)
        tokens = [n if isinstance(n, int) else guess for n, guess in zip(used, guessed, strict=True)]
        if encoded is None:
            return Reply(None, "refused", *tokens)
        try:
            picture, _ = decode(encoded)
            if picture.width != picture.height:
                return Reply(None, f"a picture of {picture.width} x {picture.height}, not square", *tokens)
            if picture.width != SIDE:
                encoded = _scaled(picture)
            stored, extension, *_ = clean(encoded)
        except PictureError as error:
            raise MalformedError(f"no picture: {error}") from error
        return Reply(self._store(stored, extension), None, *tokens)

    def _store(self, content: bytes, extension: str) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        name = f"pictures/{sha256[:2]}/{sha256}.{extension}"
        with replacing(self.folder / name) as temporary:
            temporary.write_bytes(content)
        return name


class GeminiClient(ImageClient):
    """The same through google-genai, which is an extra of this package."""

    def __init__(self, config: DictConfig, folder: Path) -> None:
        genai = require_genai()
        super().__init__(config, folder)
        self._sender.endpoint = replace(self._sender.endpoint, base_url="Gemini")
        self._gemini = genai.Client(api_key=api_key(self._sender.endpoint))

    async def _post(self, api: openai.AsyncOpenAI, model: str, body: dict[str, Any], key: str) -> bytes:
        from google.genai import errors, types

        request = body["request"]
        parts = [types.Part.from_bytes(data=p.read_bytes(), mime_type=_mime(p)) for p in request.images]
        settings = types.GenerateContentConfig(
            response_modalities=["IMAGE"], image_config=types.ImageConfig(aspect_ratio="1:1")
        )
        try:
            answer = await self._gemini.aio.models.generate_content(
                model=model, contents=[*parts, request.text], config=settings
            )
        except errors.APIError as error:
            raise _as_status(error) from error
        except httpx.HTTPError as error:
            raise openai.APIConnectionError(message=str(error), request=_GEMINI) from error
        usage = getattr(answer, "usage_metadata", None)
        counts = {
            "input_tokens": getattr(usage, "prompt_token_count", None),
            "output_tokens": getattr(usage, "candidates_token_count", None),
        }
        for candidate in answer.candidates or ():
            for part in getattr(candidate.content, "parts", None) or ():
                inline = getattr(part, "inline_data", None)
                if inline is not None and inline.data:
                    encoded = base64.b64encode(inline.data).decode()
                    return json.dumps({"data": [{"b64_json": encoded}], "usage": counts}).encode()
        return json.dumps({"refused": True, "usage": counts}).encode()


def image_client(config: DictConfig, folder: Path) -> ImageClient:
    """The client that `config.api` names."""
    return (GeminiClient if config.api == "gemini" else ImageClient)(config, folder)


def require_genai() -> Any:
    """The module google.genai.

    Raises:
        UserError: it is not installed.
    """
    try:
        from google import genai
    except ImportError as error:
        raise UserError(
            f"{SECTION}.api=gemini needs google-genai: pip install 'spatial-recipes[gemini]', or ask "
            f"Gemini or another model through an OpenAI-compatible endpoint with {SECTION}.api=edit."
        ) from error
    return genai


def _picture_of(content: bytes) -> tuple[dict[str, Any], bytes | None]:
    """The answer and its picture's bytes; None where the model refused.

    Raises:
        MalformedError: there is neither a picture nor a refusal.
    """
    try:
        answer = json.loads(content)
        if answer.get("refused"):
            return answer, None
        first = answer["data"][0]
        encoded = first.get("b64_json") or ""
        if not encoded and str(first.get("url", "")).startswith("data:"):
            encoded = first["url"].partition(",")[2]
        if not encoded and first.get("url"):
            raise MalformedError(
                f"a link instead of a picture (set {SECTION}.options.response_format=b64_json)"
            )
        return answer, base64.b64decode(encoded, validate=True)
    except MalformedError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise MalformedError(f"no picture ({type(error).__name__}: {error!s:.60})") from error


def _as_status(error: Any) -> openai.APIStatusError:
    """A failure of google-genai as one of the library that the client knows."""
    response = httpx.Response(error.code, request=_GEMINI)
    return openai.APIStatusError(str(error), response=response, body=None)


def _scaled(picture: Image.Image) -> bytes:
    content = io.BytesIO()
    picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS).save(content, "PNG")
    return content.getvalue()


def _mime(path: Path) -> str:
    return "image/png" if path.suffix == ".png" else "image/jpeg"
