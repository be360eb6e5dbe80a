"""A client for any OpenAI-compatible endpoint that is asked many things at once and survives its bad days.

Rate limits, time-outs, server errors, cut connections and broken answers are waited out and counted.
Refusals, empty and cut-off answers come back as faults. What is paid for is never asked for again
(`data_prep.teacher.cache`).
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import openai
from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from data_prep.teacher.cache import ReplyCache
from data_prep.teacher.faults import ERRORS, Endpoint, Fault, classify
from data_prep.teacher.limits import Budget, Limiter, Stopped, Usage, pause
from data_prep.teacher.messages import (
    Reply,
    Request,
    read_reply,
    request_key,
    request_messages,
    response_format,
)

__all__ = ["Client", "Reply", "Request", "Stopped"]

DOWN_AFTER = 32  # requests given up one after the other, with no answer between them


class Client:
    """Asks the endpoint of a configuration's `teacher` section. Asynchronous context manager.

    Args:
        config: `base_url`, `model`, `api_key_env`, `options`, `concurrency`, `timeout`, `tries`,
            `max_requests`, `max_cost`, `price_in`, `price_out`, `cache`.
        folder: where replies are kept, unless `cache` names another folder.

    Raises:
        UserError: the environment has no key, or the folder is in use.
    """

    def __init__(self, config: DictConfig, folder: Path) -> None:
        self._config = config
        self._options: dict[str, Any] = OmegaConf.to_container(config.options)  # type: ignore[assignment]
        self._endpoint = Endpoint(config.base_url, config.model, config.api_key_env)
        self._cache = ReplyCache(Path(config.cache) if config.cache else folder)
        self._limiter = Limiter(config.concurrency)
        self.usage = Usage(config.price_in, config.price_out)
        self._budget = Budget(self.usage, config.max_requests, config.max_cost)
        self._api = openai.AsyncOpenAI(
            base_url=config.base_url,
            api_key=_api_key(config.api_key_env),
            timeout=config.timeout,
            max_retries=0,
            # The default transport looks at every open connection for each request.
            http_client=openai.DefaultAioHttpClient(),
        )
        self._asked: dict[str, asyncio.Task[Reply]] = {}
        self._counted: set[str] = set()
        self._sending = 0
        self._given_up_in_a_row = 0
        self._takes_schema = True
        self._end: UserError | None = None
        self._ended = asyncio.Event()

    async def __aenter__(self) -> "Client":
        await self._cache.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Wait for what is under way, which is paid for; only an interrupt (Ctrl-C) does not wait."""
        self._stop(UserError("The client is closed."))
        under_way = list(self._asked.values())
        for task in under_way if kind is asyncio.CancelledError else ():
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._api.close()
        await self._cache.__aexit__(kind, *error)

    @property
    def concurrency(self) -> int:
        """How many requests may be under way at the moment."""
        return self._limiter.limit

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
        return request_key(request, self._endpoint.model, self._options)

    def _count(self, key: str, reply: Reply) -> None:
        self._counted.add(key)
        self.usage.prompt_tokens += reply.prompt_tokens
        self.usage.completion_tokens += reply.completion_tokens

    async def _pay(self, key: str, request: Request) -> Reply:
        reply = await self._try(key, request)
        if not reply.given_up:
            self._count(key, reply)
            await self._cache.put(key, reply)
        return reply

    async def _try(self, key: str, request: Request) -> Reply:
        """Send the request until it is answered, or as often as `tries` allows."""
        fault = Fault("not sent", "")
        for failures in range(1, self._config.tries + 1):
            outcome = await self._send(key, request)
            if isinstance(outcome, Reply):
                self._given_up_in_a_row = 0
                return outcome
            fault = outcome
            self.usage.faults[fault.name] += 1
            if not fault.again:
                break
            if failures < self._config.tries:
                await self._sleep(max(fault.wait or 0.0, pause(failures)))
        self._given_up_in_a_row += 1
        if self._given_up_in_a_row >= DOWN_AFTER:
            raise self._stop(
                UserError(
                    f"{self._endpoint.base_url} has answered none of {DOWN_AFTER} requests ({fault}). "
                    "What is paid for is kept: give the same command again once it answers."
                )
            )
        return Reply(None, str(fault), given_up=True)

    async def _send(self, key: str, request: Request) -> Reply | Fault:
        async with self._limiter.slot() as taken:
            if self._end:
                raise self._end
            try:
                self._budget.check(self._sending)
            except Stopped as stopped:
                raise self._stop(stopped) from None
            self.usage.sent += 1
            self._sending += 1
            try:
                async with asyncio.timeout(self._config.timeout):
                    content = await self._post(key, request)
                reply = read_reply(content, request.system + request.text)
            except ERRORS as error:
                fault = self._fault(error)
                if fault.congestion:
                    self._limiter.congested(taken, fault.wait)
                if request.json_schema and self._takes_schema and fault.name == "status 400":
                    self._takes_schema = False  # older servers know no response_format
                    return Fault("no response_format", fault.detail)
                return fault
            finally:
                self._sending -= 1
            self._limiter.answered()
            return reply

    async def _post(self, key: str, request: Request) -> bytes:
        body = {**self._options, "messages": request_messages(request)}
        if request.json_schema and self._takes_schema:
            body["response_format"] = response_format(request.json_schema)
        # The library would copy messages that are its own argument part by part, and read the answer into
        # models that check nothing which `read_reply` does not: together the most of a request's time.
        answer = await self._api.chat.completions.with_raw_response.create(
            model=request.model or self._endpoint.model,
            messages=(),
            extra_body=body,
            extra_headers={"Idempotency-Key": key},
        )
        return answer.content

    def _fault(self, error: Exception) -> Fault:
        try:
            return classify(error, self._endpoint)
        except UserError as end:
            raise self._stop(end) from None

    def _stop(self, end: UserError) -> UserError:
        """Let nothing more be sent; the first reason is the one that every later request is told."""
        if self._end is None:
            self._end = end
            self._ended.set()
        return self._end

    async def _sleep(self, seconds: float) -> None:
        """Wait, or less long where the client stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return


def _api_key(name: str | None) -> str:
    """The key in the environment variable `name`; a stand-in where the endpoint wants none.

    Raises:
        UserError: the variable is not set.
    """
    if name is None:
        return "none"
    key = os.environ.get(name, "").strip()
    if not key:
        raise UserError(
            f"The environment variable {name} holds no key for the teacher. Set it, name another with "
            "teacher.api_key_env=, or set that to null for an endpoint that wants none."
        )
    return key
