"""Requests to any OpenAI-compatible endpoint, many at once, each sent until it is answered or given up.

Rate limits, time-outs, server errors, cut connections and broken answers are waited out and counted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import openai

from data_prep.endpoint.address import Endpoint, api_key
from data_prep.endpoint.faults import ERRORS, Fault, classify
from data_prep.endpoint.limits import Counts, Limiter, pause
from data_prep.errors import UserError

DOWN_AFTER = 32  # requests given up one after the other, with no answer between them

T = TypeVar("T")
Post = Callable[[openai.AsyncOpenAI, str, dict[str, Any], str], Awaitable[bytes]]
"""Sends (client, model, fields, key of the request) and returns the raw answer."""


async def chat(api: openai.AsyncOpenAI, model: str, body: dict[str, Any], key: str) -> bytes:
    """Send one chat completion with the fields of `body` (whose own `model` goes first); the raw answer."""
    # The library would copy messages that are its own argument part by part, and read the answer into
    # models that check nothing which `read` does not: together the most of a request's time.
    answer = await api.chat.completions.with_raw_response.create(
        model=body.pop("model", model),
        messages=(),
        extra_body=body,
        extra_headers={"Idempotency-Key": key},
    )
    return answer.content


class Sender:
    """Sends chat completions to `endpoint`. Call `close` at the end.

    Args:
        concurrency: most requests at once; fewer while the endpoint is busy.
        timeout: seconds a request.
        tries: times that one request is sent.
        counts: where requests and faults are counted.
        allow: called before each request with the number under way; a UserError from it ends everything.

    Raises:
        UserError: the environment has no key.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        concurrency: int,
        timeout: float,
        tries: int,
        counts: Counts,
        allow: Callable[[int], None] = lambda under_way: None,
    ) -> None:
        self.endpoint, self.counts = endpoint, counts
        self._timeout, self._tries, self._allow = timeout, tries, allow
        self._limiter = Limiter(concurrency)
        self._api = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=api_key(endpoint),
            timeout=timeout,
            max_retries=0,
            # The default transport looks at every open connection for each request.
            http_client=openai.DefaultAioHttpClient(),
        )
        self._sending = 0
        self._given_up_in_a_row = 0
        self._end: UserError | None = None
        self._ended = asyncio.Event()

    async def close(self) -> None:
        await self._api.close()

    @property
    def concurrency(self) -> int:
        """How many requests may be under way at the moment."""
        return self._limiter.limit

    def stop(self, end: UserError) -> UserError:
        """Let nothing more be sent; the first reason is the one that every later request is told."""
        if self._end is None:
            self._end = end
            self._ended.set()
        return self._end

    async def ask(
        self,
        body: Callable[[], dict[str, Any]],
        read: Callable[[bytes], T],
        key: str,
        mend: Callable[[Fault], Fault] = lambda fault: fault,
        post: Post = chat,
    ) -> T | Fault:
        """What `read` makes of the answer, or the last fault of a request that is given up.

        Args:
            body: makes the request's fields; called for each try.
            read: raises MalformedError where the answer is none.
            key: the same for the same request (sent as Idempotency-Key).
            mend: what a fault counts as; it may change what `body` makes next.
            post: sends the fields of `body`, where the request is no chat completion.

        Raises:
            UserError: no request would get an answer, or `allow` raised it.
        """
        fault = Fault("not sent", "")
        for failures in range(1, self._tries + 1):
            outcome = await self._send(body, read, key, post)
            if not isinstance(outcome, Fault):
                self._given_up_in_a_row = 0
                return outcome
            fault = mend(outcome)
            self.counts.faults[fault.name] += 1
            if not fault.again:
                break
            if failures < self._tries:
                await self._sleep(max(fault.wait or 0.0, pause(failures)))
        self._given_up_in_a_row += 1
        if self._given_up_in_a_row >= DOWN_AFTER:
            raise self.stop(
                UserError(
                    f"{self.endpoint.base_url} has answered none of {DOWN_AFTER} requests ({fault}). "
                    "What is answered is kept: give the same command again once it answers."
                )
            )
        return fault

    async def _send(
        self, body: Callable[[], dict[str, Any]], read: Callable[[bytes], T], key: str, post: Post
    ) -> T | Fault:
        async with self._limiter.slot() as taken:
            if self._end:
                raise self._end
            try:
                self._allow(self._sending)
            except UserError as end:
                raise self.stop(end) from None
            self.counts.sent += 1
            self._sending += 1
            try:
                async with asyncio.timeout(self._timeout):
                    content = await post(self._api, self.endpoint.model, body(), key)
                answer = read(content)
            except ERRORS as error:
                fault = self._fault(error)
                if fault.congestion:
                    self._limiter.congested(taken, fault.wait)
                return fault
            finally:
                self._sending -= 1
            self._limiter.answered()
            return answer

    def _fault(self, error: Exception) -> Fault:
        try:
            return classify(error, self.endpoint)
        except UserError as end:
            raise self.stop(end) from None

    async def _sleep(self, seconds: float) -> None:
        """Wait, or less long where everything stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return
