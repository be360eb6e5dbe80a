"""An endpoint that answers test rows as vLLM would, for tests and the bench.

python tests/recipes/eval_endpoint.py [--latency SECONDS]    prints its address and serves until it is ended
"""

import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1] / "data_prep"))
from stub_endpoint import Stub, main

MODEL = "stub"
CUT_OFF = 0.1  # share of answers that reach the token limit


@dataclass
class EvalStub(Stub):
    """Answers with a letter that is drawn by the request's content.

    `asked` counts requests by the text of the message; `bodies` holds some of them. `refuse` is a word: rows
    whose text has it get status 400.
    """

    flawed: bool = False
    trouble: float = 0.0
    refuse: str | None = None
    asked: Counter[str] = field(default_factory=Counter)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def routes(self) -> list[web.RouteDef]:
        return [
            *super().routes(),
            web.get("/v1/models", self._models),
            web.get("/version", self._version),
        ]

    def refusal(self, body: dict[str, Any]) -> str | None:
        text = body["messages"][-1]["content"][-1]["text"]
        self.asked[text] += 1
        if len(self.bodies) < 64:
            self.bodies.append(body)
        return "the prompt is too long" if self.refuse is not None and self.refuse in text else None

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": MODEL, "owned_by": "vllm"}]})

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": "0.0.stub"})

    def complete(self, body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        text = body["messages"][-1]["content"][-1]["text"]
        letters = re.findall(r"^([A-Z])\) ", text, re.MULTILINE)
        letter = rng.choice(letters or ["A"])
        cut = rng.random() < CUT_OFF
        answer = "It stands by the road." if cut else f"A road.\n<answer> {letter} </answer>"
        return {
            "choices": [
                {
                    "message": {"role": "assistant", "content": answer},
                    "finish_reason": "length" if cut else "stop",
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": len(answer.split())},
        }


if __name__ == "__main__":
    main(lambda latency: EvalStub(latency=latency), __doc__)
