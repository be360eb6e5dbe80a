"""What a teacher will cost, told before the first request. Rough: tokens are not counted but guessed."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image

from data_prep.teacher.limits import Usage
from data_prep.teacher.messages import Request

PIXELS_A_TOKEN = 1024  # between what the common endpoints take: one token for about 780 to 2300 pixels
LETTERS_A_TOKEN = 4
COMPLETION_TOKENS = 280  # 200 words


@dataclass
class Estimate:
    """Rows, those whose first request is paid for, and the requests and tokens of one round of the others."""

    rows: int = 0
    answered: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, request: Request, paid: bool, judged: bool) -> None:
        self.rows += 1
        if paid:
            self.answered += 1
            return
        times = 2 if judged else 1
        self.requests += times
        self.prompt_tokens += times * prompt_tokens(request)
        self.completion_tokens += COMPLETION_TOKENS

    def sentence(self, model: str, retries: int, usage: Usage) -> str:
        """From no rejection at all to the rejection of every text."""
        most = retries + 1
        parts = [
            f"teacher: {self.rows:,} rows, {self.answered:,} of them answered before. "
            f"{self.requests:,} to {self.requests * most:,} requests to {model}, about "
            f"{_millions(self.prompt_tokens, most)} prompt and {_millions(self.completion_tokens, most)} "
            "completion tokens"
        ]
        if (cost := usage.price_of(self.prompt_tokens, self.completion_tokens)) is not None:
            parts.append(f"{cost:,.2f} to {cost * most:,.2f} dollars")
        else:
            parts.append("cost unknown (teacher.price_in and price_out are not set)")
        return ", ".join(parts) + "."


def prompt_tokens(request: Request) -> int:
    letters = len(request.system) + len(request.text)
    return letters // LETTERS_A_TOKEN + sum(_pixels(path) for path in request.images) // PIXELS_A_TOKEN


@lru_cache(maxsize=4096)
def _pixels(path: Path) -> int:
    with Image.open(path) as image:
        return image.width * image.height


def _millions(tokens: int, most: int) -> str:
    return f"{tokens / 1e6:,.2f} to {tokens * most / 1e6:,.2f} million"
