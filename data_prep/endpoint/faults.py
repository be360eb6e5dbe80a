"""What may go wrong with one request over HTTP, and what it means for the next."""

from dataclasses import dataclass

import aiohttp
import openai

from data_prep.endpoint.address import Endpoint
from data_prep.endpoint.limits import retry_after
from data_prep.endpoint.wire import MalformedError
from data_prep.errors import UserError
from data_prep.secrets import mask

ERRORS = (openai.OpenAIError, aiohttp.ClientError, TimeoutError, MalformedError)
"""What a request over HTTP may raise."""

LONGEST_RETRY_AFTER = 600.0  # seconds; an endpoint that asks for more is out of quota rather than busy


@dataclass(frozen=True)
class Fault:
    """A request that brought no completion.

    - `name`: what it is counted as.
    - `again`: whether the same request may go through later.
    - `congestion`: whether it says that the endpoint is asked too fast.
    - `wait`: seconds that the endpoint asks to wait.
    """

    name: str
    detail: str
    again: bool = True
    congestion: bool = False
    wait: float | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}" if self.detail else self.name


def classify(error: Exception, endpoint: Endpoint) -> Fault:
    """The fault behind one of `ERRORS`.

    Raises:
        UserError: every request to the endpoint would fail in this way.
    """
    if isinstance(error, MalformedError):
        return Fault("malformed answer", mask(str(error)))
    if isinstance(error, openai.APIStatusError):
        return _status(error, endpoint)
    # The library takes a connection that was cut for a time-out; what led to it tells them apart.
    causes = [error]
    while isinstance(cause := causes[-1].__cause__, Exception):
        causes.append(cause)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return Fault("time-out", "", congestion=True)
    return Fault("connection lost", mask(str(causes[-1]))[:80])


def _status(error: openai.APIStatusError, endpoint: Endpoint) -> Fault:
    # A server may repeat the key that it refuses.
    status, said = error.status_code, mask(" ".join(error.message.split()))[:200]
    key = f"the key in {endpoint.key_name}" if endpoint.key_name else "requests without a key"
    if status in (401, 403):
        raise UserError(
            f"{endpoint.base_url} refuses {key} (status {status}: {said}). Set that environment variable, or "
            f"name the right one with {endpoint.section}.api_key_env=."
        )
    if status == 404 or error.code == "model_not_found":
        raise UserError(
            f"{endpoint.base_url} has no model {endpoint.model!r} (status {status}: {said}). Mend "
            f"{endpoint.section}.model= or {endpoint.section}.base_url=."
        )
    wait = retry_after(error.response.headers)
    if status == 402 or error.code == "insufficient_quota" or (wait or 0.0) > LONGEST_RETRY_AFTER:
        asked = f" and asks to wait {wait:.0f} s" if wait else ""
        raise UserError(
            f"The quota at {endpoint.base_url} is used up{asked} (status {status}: {said}). What is paid for "
            "is kept: give the same command again once there is more."
        )
    if status == 429:
        return Fault("rate limit", said, congestion=True, wait=wait)
    if status == 408:
        return Fault("time-out", said, congestion=True, wait=wait)
    if status >= 500:
        return Fault(f"status {status}", said, congestion=status in (503, 529), wait=wait)
    return Fault(f"status {status}", said, again=status in (409, 425))
