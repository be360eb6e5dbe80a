"""An OpenAI-compatible endpoint for tests and the bench, which writes reasoning and misbehaves on purpose.

What it does with a request depends on the request's content and on how often that content was seen, never on
the order of requests. So the outcome of a run is the same however it was interrupted.

python tests/data_prep/stub_endpoint.py [--latency SECONDS]    prints its address and serves until it is ended
"""

import argparse
import asyncio
import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from rewards import RESPONSE_FORMATS

# What a request may meet before it is answered: one to three of these, in a share of TROUBLE of all.
HARDSHIPS = ("slow", "rate limit", "server error", "overloaded", "cut", "half JSON", "HTML", "no choices")
TROUBLE = 0.05
# How the answer itself goes wrong, and how often among a thousand.
FLAWS = {
    "wrong letter": 30, "over-long": 25, "refusal": 20, "filtered": 10, "empty": 15, "cut off": 15,
    "unseen": 20, "verdict": 15, "letter": 15, "no sections": 15, "copy": 40,
    "box outside": 15, "control token": 10,
}  # fmt: skip
ODDITIES = {"unicode": 30, "surrogate": 10, "thinking": 15}  # the second cannot be written as UTF-8
SLOW = 30.0  # seconds, longer than any client of the tests waits

_NOUNS = """
grey brick pale tall narrow wide low flat steep wooden glass concrete gravel asphalt hedge lawn tree
shrub fence kerb lamp post window door porch gable ridge eave chimney balcony wall corner yard drive
lane footpath crossing shadow slope bank terrace shed garage tower spire arch column stair ramp
bench sign pole wire car van bus bicycle field meadow orchard bush pine oak birch willow pond ditch
bridge railing gate plaza kiosk canopy awning parapet
"""
WORDS = tuple(_NOUNS.split())


@dataclass
class Stub:
    """A server in a thread of its own: `with Stub() as stub: stub.base_url`.

    `log` has, for every request, its Idempotency-Key, and whether it was answered with a completion;
    `pictures` counts requests by how many pictures they hold; the model "judge" gives verdicts on texts, and
    rejects some.
    """

    latency: float = 0.0
    port: int = 0
    trouble: float = TROUBLE
    flawed: bool = True
    status: int | None = None
    refuse_schema: bool = False
    log: list[tuple[str, bool]] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    pictures: Counter[int] = field(default_factory=Counter)
    judged: int = 0
    base_url: str = ""
    _seen: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> "Stub":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.base_url = asyncio.run_coroutine_threadsafe(self.start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def start(self) -> str:
        """Serve in the running loop; returns the base URL."""
        app = web.Application(client_max_size=2**26)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    def routes(self) -> list[web.RouteDef]:
        """What is served; endpoints for other tasks serve more."""
        return [web.post("/v1/chat/completions", self._answer)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw)
        key = request.headers.get("Idempotency-Key", "")
        content = hashlib.sha256(raw).hexdigest()
        if message := self.refusal(body):
            return web.json_response({"error": {"message": message}}, status=400)
        self._seen[content] += 1
        rng = random.Random(content)
        hardships = rng.choices(HARDSHIPS, k=rng.randint(1, 3)) if rng.random() < self.trouble else []
        place = self._seen[content] - 1
        if self.status is not None or place < len(hardships):
            self.log.append((key, False))
            return await self._misbehave(request, "status" if self.status else hardships[place])
        await asyncio.sleep(self.latency * rng.uniform(0.9, 1.1))
        self.pictures[len(body["messages"][-1]["content"]) - 1] += 1
        self.judged += body["model"] == "judge"
        answer = self.complete(body, rng)
        self.log.append((key, True))
        return web.json_response(answer)

    def refusal(self, body: dict[str, Any]) -> str | None:
        """Why a request gets status 400; asked for each one."""
        return "unknown field" if self.refuse_schema and "response_format" in body else None

    def complete(self, body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        """The chat completion; endpoints for other tasks write another."""
        return completion(body, rng, self.flawed)

    async def _misbehave(self, request: web.Request, hardship: str) -> web.StreamResponse:
        self.met[hardship] += 1
        error = {"error": {"message": f"stub: {hardship}", "code": None}}
        match hardship:
            case "slow":
                await asyncio.sleep(SLOW)
            case "rate limit":
                return web.json_response(error, status=429, headers={"Retry-After": "0.02"})
            case "server error":
                return web.json_response(error, status=500)
            case "overloaded":
                return web.Response(text="try later", status=503)
            case "cut":
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                response.content_length = 4096
                await response.prepare(request)
                await response.write(b'{"choices": [{"message"')
                assert request.transport is not None
                request.transport.abort()
                return response
            case "half JSON":
                return web.Response(
                    text='{"choices": [{"message": {"content": "Step', content_type="application/json"
                )
            case "HTML":
                return web.Response(text="<html>Bad gateway</html>", content_type="text/html")
            case "no choices":
                return web.json_response({"object": "error", "choices": []})
        return web.json_response(error, status=self.status or 500)


def completion(body: dict[str, Any], rng: random.Random, flawed: bool) -> dict[str, Any]:
    """A chat completion for a teacher's request: right, or with one of `FLAWS` or `ODDITIES`."""
    if body["model"] == "judge":
        verdict = rng.choice(("KEEP", "KEEP", "keep.", 'REJECT: "a pool behind"', "I am not sure."))
        return {"choices": [{"message": {"content": verdict}, "finish_reason": "stop"}]}
    system = body["messages"][0]["content"]
    text = body["messages"][1]["content"][-1]["text"]
    kinds = {**FLAWS, **ODDITIES}
    kind = "none"
    if flawed:
        kind = rng.choices([*kinds, "none"], [*kinds.values(), 1000 - sum(kinds.values())])[0]
    message: dict[str, Any] = {"role": "assistant", "content": reasoning(system, text, kind, rng)}
    finish = "stop"
    if kind == "refusal":
        message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    elif kind == "filtered":
        message, finish = {"role": "assistant", "content": None}, "content_filter"
    elif kind == "empty":
        message["content"] = " \n"
    elif kind == "cut off":
        message["content"], finish = message["content"][:200], "length"
    usage = {"prompt_tokens": 700 + len(text) // 4, "completion_tokens": len(message["content"] or "") // 4}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


def reasoning(system: str, text: str, kind: str, rng: random.Random) -> str:
    """Words drawn by lot under the headings that the prompt asks for, with the letter that it gives."""
    layout = next(f for f in RESPONSE_FORMATS.values() if f.headings and all(h in system for h in f.headings))
    given = re.search(r"The right option is (\w)", text)
    letter = given[1] if given else "A"
    if kind == "wrong letter":
        letter = "B" if letter == "A" else "A"
    if kind == "copy":
        rng = random.Random("copy")
    count = 90 if kind == "over-long" else 22
    bodies = [" ".join(rng.choices(WORDS, k=count)) + "." for _ in layout.headings]
    if layout.name == "structured_cot":
        width, height = map(int, re.search(r"is (\d+) pixels wide and (\d+) high", text).groups())
        x, y = rng.randrange(width - 1), rng.randrange(height - 1)
        far = width + 5 if kind == "box outside" else width
        bodies[1] = f"house bbox: [{x}, {y}, {far}, {height}] {bodies[1]}"
    additions = {
        "unseen": " The satellite image shows a yard and the street view confirms it.",
        "verdict": " Therefore the correct answer is clear.",
        "letter": f" It must be {letter}.",
        "control token": " <|image_pad|>",
        "unicode": " Façade “ähnlich” 三 дом 🏠 \u202e\u2028 end",
        "surrogate": " broken \ud83c half",
    }
    bodies[-1] += additions.get(kind, "")
    headings = [""] * len(bodies) if kind == "no sections" else layout.headings
    sections = "\n".join(f"{heading}\n{body}" for heading, body in zip(headings, bodies, strict=True))
    thought = (
        "<think>Let me look. The satellite image shows it, so A.</think>\n" if kind == "thinking" else ""
    )
    ""
    return f"{thought}{sections}\n<answer> {letter} </answer>"


def main(make: Callable[[float], Stub], about: str | None) -> None:
    """Serve the stub that `make` makes of the latency which the command line asks for, until it is ended."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds an answer")

    async def serve(stub: Stub) -> None:
        print(await stub.start(), flush=True)
        await asyncio.Event().wait()

    asyncio.run(serve(make(parser.parse_args().latency)))


if __name__ == "__main__":
    main(lambda latency: Stub(latency=latency, trouble=0.0, flawed=False), __doc__)
