"""What a teacher's run may spend, and what it has spent."""

from dataclasses import dataclass

from data_prep.endpoint.limits import Counts
from data_prep.errors import UserError


class Stopped(UserError):
    """`max_requests` or `max_cost` is reached. What was paid for is kept."""


@dataclass
class Usage(Counts):
    """What a run has asked for and got. Prices are dollars a million tokens."""

    price_in: float | None = None
    price_out: float | None = None
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

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
    section: str = "teacher"

    def check(self, under_way: int) -> None:
        """Return where one more request may be sent beside those under way, which are taken to cost the mean.

        Raises:
            Stopped: a limit would be passed.
        """
        usage = self.usage
        kept = "What is paid for is kept: raise it and give the same command again."
        if self.max_requests is not None and usage.requests + 1 > self.max_requests:
            raise Stopped(
                f"{self.section}.max_requests={self.max_requests} is reached after {usage.requests} requests."
                f" {kept}"
            )
        if self.max_cost is None or usage.cost is None:
            return
        paid = max(usage.requests - under_way, 1)
        if usage.cost + usage.cost / paid * (under_way + 1) > self.max_cost:
            raise Stopped(
                f"{self.section}.max_cost={self.max_cost:g} is reached: {usage.cost:.2f} dollars are spent "
                f"and {under_way} requests under way. {kept}"
            )
