"""A teacher's client: an OpenAI-compatible endpoint that is asked many things at once, each paid for once.

How requests are sent and what is waited out: `data_prep.endpoint.sender`. Refusals, empty and cut-off answers
come back as faults. What is paid for is never asked for again (`data_prep.teacher.cache`).
"""

import asyncio
from pathlib import Path
from typing import Any

import openai
from omegaconf import DictConfig, OmegaConf

from data_prep.endpoint.address import Endpoint
from data_prep.endpoint.faults import Fault
from data_prep.endpoint.sender import Sender, chat
from data_prep.errors import UserError
from data_prep.teacher.cache import ReplyCache
from data_prep.teacher.limits import Budget, Stopped, Usage
from data_prep.teacher.messages import (
    Reply,
    Request,
    read_reply,
    request_key,
    request_messages,
    response_format,
)

__all__ = ["Client", "Reply", "Request", "Stopped"]


class Client:
    """Asks the endpoint of a configuration's `teacher` section. Asynchronous context manager.

    Args:
        config: `base_url`, `model`, `api_key_env`, `options`, `concurrency`, `timeout`, `tries`,
            `max_requests`, `max_cost`, `price_in`, `price_out`, `cache`.
        folder: where replies are kept, unless `cache` names another folder.
        section: how messages call that part of the configuration.

    Raises:
        UserError: the environment has no key, or the folder is in use.
    """

    def __init__(self, config: DictConfig, folder: Path, section: str = "teacher") -> None:
        self._model = config.model
        self._options: dict[str, Any] = OmegaConf.to_container(config.options)  # type: ignore[assignment]
        self._cache = ReplyCache(Path(config.cache) if config.cache else folder, section)
        self.usage = Usage(config.price_in, config.price_out)
        budget = Budget(self.usage, config.max_requests, config.max_cost, section)
        endpoint = Endpoint(config.base_url, config.model, config.api_key_env, section)
        self._sender = Sender(
            endpoint, config.concurrency, config.timeout, config.tries, self.usage, budget.check
        )
        self._asked: dict[str, asyncio.Task[Reply]] = {}
        self._counted: set[str] = set()
        self._takes_schema = True

    async def __aenter__(self) -> "Client":
        await self._cache.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Wait for what is under way, which is paid for; only an interrupt (Ctrl-C) does not wait."""
        self._sender.stop(UserError("The client is closed."))
        under_way = list(self._asked.values())
        for task in under_way if kind is asyncio.CancelledError else ():
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._sender.close()
        await self._cache.__aexit__(kind, *error)

    @property
    def concurrency(self) -> int:
        """How many requests may be under way at the moment."""
        return self._sender.concurrency

    def is_paid(self, request: Request) -> bool:
        return self._cache.get(self._key(request)) is not None

    async def ask(self, request: Request) -> Reply:
        """The reply to a request, at once where it is paid for. One request's faults are in its reply.

        Raises:
            Stopped: `max_requests` or `max_cost` is reached.
            UserError: no request would get an answer: the key or the model is refused, or nothing answers.
            OSError: the reply cannot be kept, as on a full disk.
        """
        key = self._key(request)
        known = self._cache.get(key)
        if known is not None:
            if key not in self._counted:
                self._count(key, known)
                self.usage.cached += 1
            return known
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._pay(key, request))
            task.add_done_callback(lambda _: self._asked.pop(key, None))
        return await asyncio.shield(task)

    def _key(self, request: Request) -> str:
        return request_key(request, self._model, self._options)

    def _count(self, key: str, reply: Reply) -> None:
        self._counted.add(key)
        self.usage.prompt_tokens += reply.prompt_tokens
        self.usage.completion_tokens += reply.completion_tokens

    async def _pay(self, key: str, request: Request) -> Reply:
        def mend(fault: Fault) -> Fault:
            if request.json_schema and self._takes_schema and fault.name == "status 400":
                self._takes_schema = False  # older servers know no response_format
                return Fault("no response_format", fault.detail)
            return fault

        outcome = await self._sender.ask(
            lambda: self._body(request), lambda content: self._read(content, request), key, mend, self._post
        )
        if isinstance(outcome, Fault):
            return Reply(None, str(outcome), given_up=True)
        self._count(key, outcome)
        await self._cache.put(key, outcome)
        return outcome

    def _body(self, request: Request) -> dict[str, Any]:
        """The fields that `_post` sends."""
        fields = {**self._options, "messages": request_messages(request)}
        if request.model:
            fields["model"] = request.model
        if request.json_schema and self._takes_schema:
            fields["response_format"] = response_format(request.json_schema)
        return fields

    async def _post(self, api: openai.AsyncOpenAI, model: str, body: dict[str, Any], key: str) -> bytes:
        """As `data_prep.endpoint.sender.chat`, which other kinds of request replace."""
        return await chat(api, model, body, key)

    def _read(self, content: bytes, request: Request) -> Reply:
        return read_reply(content, request.system + request.text)
