"""A stub for OpenAI-compatible image endpoints that draws squares and misbehaves on purpose."""

import asyncio
import base64
import hashlib
import io
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from PIL import Image
from stub_endpoint import Stub

# What comes before an answer in a share of requests, and what an answer is in a share of those given.
HARDSHIPS = ("rate limit", "server error", "slow", "cut", "HTML", "not an image", "a link")
FLAWS = ("wide", "refused", "small")


@dataclass
class ImageStub(Stub):
    """`asked` holds every answered request's fields; `prompts` and `sent` its prompt and pictures' bytes.

    `plan` names, by a word in the prompt or a picture's content hash, what to do with a request: a list of
    hardships, then at last a flaw or nothing.
    """

    flaw_share: float = 0.0
    sent: list[tuple[str, list[bytes]]] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    paid: Counter[str] = field(default_factory=Counter)

    async def start(self) -> str:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/images/edits", self._edits)
        app.router.add_post("/v1/images/generations", self._generations)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def _edits(self, request: web.Request) -> web.StreamResponse:
        pictures, texts = [], {}
        async for part in await request.multipart():
            if part.filename:
                pictures.append(bytes(await part.read()))
            else:
                texts[part.name] = await part.text()
        return await self._draw(request, texts, pictures)

    async def _generations(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        pictures = [base64.b64decode(url.partition(",")[2]) for url in body.pop("image")]
        return await self._draw(request, body, pictures)

    async def _draw(
        self, request: web.Request, fields: dict[str, Any], pictures: list[bytes]
    ) -> web.StreamResponse:
        key = request.headers.get("Idempotency-Key", "")
        content = hashlib.sha256(b"".join([key.encode(), *pictures])).hexdigest()
        rng = random.Random(content)
        place = self._seen[content]
        self._seen[content] += 1
        hardships = rng.sample(HARDSHIPS, 2) if rng.random() < self.trouble else []
        if self.status is not None or place < len(hardships):
            self.log.append((key, False))
            return await self._misbehave(request, "status" if self.status else hardships[place])
        await asyncio.sleep(self.latency)
        self.sent.append((fields["prompt"], pictures))
        self.fields.append(fields)
        self.paid[key] += 1
        self.log.append((key, True))
        flaw = rng.choice(FLAWS) if rng.random() < self.flaw_share else ""
        self.met[flaw or "sound"] += 1
        if flaw == "refused":
            error = {"message": "no", "code": "moderation_blocked"}
            return web.json_response({"error": error}, status=400)
        size = {"wide": (96, 64), "small": (64, 64)}.get(flaw, (1024, 1024))
        data = {"b64_json": base64.b64encode(drawing(content, size)).decode()}
        usage = {"input_tokens": 500, "output_tokens": 1000}
        return web.json_response({"created": 1, "data": [data], "usage": usage})

    async def _misbehave(self, request: web.Request, hardship: str) -> web.StreamResponse:
        if hardship in ("not an image", "a link"):
            self.met[hardship] += 1
            url = {"url": "http://127.0.0.1:9/x.png"}
            data = url if hardship == "a link" else {"b64_json": base64.b64encode(b"text").decode()}
            return web.Response(text=json.dumps({"data": [data]}), content_type="application/json")
        return await super()._misbehave(request, hardship)


def drawing(seed: str, size: tuple[int, int]) -> bytes:
    """A JPEG of one colour, which depends on `seed`."""
    colour = tuple(hashlib.sha256(seed.encode()).digest()[:3])
    content = io.BytesIO()
    Image.new("RGB", size, colour).save(content, "JPEG")
    return content.getvalue()
