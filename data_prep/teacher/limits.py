"""How fast an endpoint is asked: concurrency that adapts, waits between tries, limits on what is spent."""

import asyncio
import contextlib
import email.utils
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from data_prep.errors import UserError

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries, where the endpoint does not say
START = 16  # requests at once before anything is known of the endpoint
BACK_OFF = 0.7


class Stopped(UserError):
    """`max_requests` or `max_cost` is reached. What was paid for is kept."""


class Limiter:
    """Slots for requests, as many at once as the endpoint bears.

    Their number doubles over each round of answers until the first sign of congestion (429, 503, a time-out),
    then grows by one a round. A sign cuts it to 70 %, once for all requests that were under way together.
    `most` is never passed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(min(START, most))
        self._slow_start = True
        self._running = 0
        self._open_from = 0.0
        self._backed_off = 0.0
        self._freed = asyncio.Condition()

    @property
    def limit(self) -> int:
        return int(self._limit)

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a slot; gives the time at which it was taken."""
        async with self._freed:
            await self._freed.wait_for(lambda: self._running < self.limit)
            self._running += 1
        try:
            while (wait := self._open_from - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            yield time.monotonic()
        finally:
            self._running -= 1
            async with self._freed:
                self._freed.notify_all()

    def answered(self) -> None:
        """One request went through."""
        step = 1.0 if self._slow_start else 1.0 / self._limit
        self._limit = min(self._limit + step, self._most)

    def congested(self, taken: float, retry_after: float | None = None) -> None:
        """A request whose slot was taken at the time `taken` met congestion; nothing is sent for
        `retry_after` seconds."""
        now = time.monotonic()
        if retry_after:
            self._open_from = max(self._open_from, now + retry_after)
        if taken < self._backed_off:
            return
        self._slow_start = False
        self._backed_off = now
        self._limit = max(self._limit * BACK_OFF, 1.0)


def pause(failures: int) -> float:
    """Seconds to wait after that many failures of one request: doubling, with jitter so that requests which
    failed together do not return together."""
    return min(FIRST_WAIT * 2 ** (failures - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait (a number, or an HTTP date), or None."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        with contextlib.suppress(ValueError):
            return max(float(value) / scale, 0.0)
        with contextlib.suppress(ValueError):
            return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return None


@dataclass
class Usage:
    """What a run has asked for and got. Prices are dollars a million tokens."""

    price_in: float | None = None
    price_out: float | None = None
    sent: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def requests(self) -> int:
        """Requests of this run: all that were sent, and the replies that an earlier attempt had paid for."""
        return self.sent + self.cached

    @property
    def cost(self) -> float | None:
        """Dollars for all replies of this run, those of earlier attempts too; None without prices."""
        return self.price_of(self.prompt_tokens, self.completion_tokens)

    def price_of(self, prompt_tokens: float, completion_tokens: float) -> float | None:
        if self.price_in is None or self.price_out is None:
            return None
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


@dataclass
class Budget:
    """`max_requests` and `max_cost` of a run, over all its attempts."""

    usage: Usage
    max_requests: int | None
    max_cost: float | None

    def check(self, under_way: int) -> None:
        """Return where one more request may be sent beside those under way, which are taken to cost the mean.

        Raises:
            Stopped: a limit would be passed.
        """
        usage = self.usage
        kept = "What is paid for is kept: raise it and give the same command again."
        if self.max_requests is not None and usage.requests + 1 > self.max_requests:
            raise Stopped(
                f"teacher.max_requests={self.max_requests} is reached after {usage.requests} requests. {kept}"
            )
        if self.max_cost is None or usage.cost is None:
            return
        paid = max(usage.requests - under_way, 1)
        if usage.cost + usage.cost / paid * (under_way + 1) > self.max_cost:
            raise Stopped(
                f"teacher.max_cost={self.max_cost:g} is reached: {usage.cost:.2f} dollars are spent and "
                f"{under_way} requests under way. {kept}"
            )
