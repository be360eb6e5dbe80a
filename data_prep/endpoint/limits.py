"""How fast an endpoint is asked: concurrency that adapts, waits between tries, and what is counted."""

import asyncio
import contextlib
import email.utils
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries, where the endpoint does not say
START = 16  # requests at once before anything is known of the endpoint
BACK_OFF = 0.7


@dataclass(kw_only=True)
class Counts:
    """Requests that were sent, and by name the faults that they met."""

    sent: int = 0
    faults: Counter[str] = field(default_factory=Counter)


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
