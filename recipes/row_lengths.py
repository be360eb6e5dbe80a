"""Tokens of prompts and answers without torch: by the tokenizer's file, the chat template, pictures' sizes.

Equal to what the processor makes of the same rows (a test compares). A text is taken apart behind its line
breaks, where byte-level tokenizers never join, and every piece is counted once: the prompts of a set share
most of their lines.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.prompts import PromptSpec, prompt_text
from data_prep.rows import Row
from data_prep.tokens import PATCH_SIZE, TILED, ImageBudget, TileBudget, most_tiles, token_side
from recipes.model_folder import ModelFolder
from recipes.serve import least_pixels

TILE = 448  # pixels a side of InternVL's tiles
CHARACTERS = 4.0  # a token of English prose, where no tokenizer is at hand
PIECES = re.compile(r"[^\n]*\n+|[^\n]+")
TEXT = "\ue000"  # stands for a message's text while the template is rendered
# Around a user's message of Qwen's chat format, pictures aside, where no template is at hand: tokens.
FRAME = 10


@dataclass(frozen=True)
class Lengths:
    """Tokens of a set's texts: how many there are, two quantiles, the longest, and those above `limit`."""

    count: int
    p50: int
    p95: int
    longest: int
    limit: int
    above: dict[str, int]

    def __str__(self) -> str:
        return f"p50 {self.p50}, p95 {self.p95}, longest {self.longest} of {self.limit} tokens"


def summarise(tokens: dict[str, int], limit: int) -> Lengths:
    """The lengths of `tokens` (row id to tokens; at least one row)."""
    ordered = sorted(tokens.values())

    def quantile(share: float) -> int:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    above = {row_id: count for row_id, count in tokens.items() if count > limit}
    return Lengths(len(ordered), quantile(0.5), quantile(0.95), ordered[-1], limit, above)


class Measure:
    """Counts the tokens of rows for a model whose folder is `folder`, or estimates them where that is None.

    Args:
        folder: holds tokenizer.json and the chat template.
        model: the `model` section of the configuration.
    """

    def __init__(self, folder: Path | None, model: Any) -> None:
        self._known: dict[str, int] = {}
        self._encode: Callable[[str], int] | None = None
        self._template: str | None = None
        self.budget = picture_budget(folder, model)
        if folder is not None and (folder / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._encode = lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
            self._template = ModelFolder(folder).chat_template
        self._frames: dict[int, int] = {}

    @property
    def exact(self) -> bool:
        """Whether tokens are counted; else a token is taken for four characters."""
        return self._encode is not None

    def text(self, text: str) -> int:
        """Tokens of a text by itself."""
        if self._encode is None:
            return round(len(text) / CHARACTERS)
        total = 0
        for piece in PIECES.findall(text):
            if piece not in self._known:
                self._known[piece] = self._encode(piece)
            total += self._known[piece]
        return total

    def prompt(self, row: Row, prompt: PromptSpec) -> int:
        """Tokens of a row's whole prompt, pictures and chat template with it.

        Raises:
            UserError: the row shows a view that its task hides.
        """
        pictures = sum(self.budget.tokens(image.width, image.height) - 1 for image in row.images)
        return self._frame(len(row.images)) + self.text(prompt_text(row, prompt)) + pictures

    def answer(self, text: str) -> int:
        """Tokens of an answer, with the one that ends it."""
        return self.text(text) + 1

    def prompts(self, rows: Iterable[Row], prompt: PromptSpec) -> dict[str, int]:
        """Row id to the tokens of its prompt."""
        return {row.id: self.prompt(row, prompt) for row in rows}

    def _frame(self, pictures: int) -> int:
        """Tokens that the template puts around a text, with one placeholder a picture."""
        if pictures not in self._frames:
            if self._encode is None or self._template is None:
                self._frames[pictures] = FRAME + 3 * pictures
            else:
                before, _, after = render(self._template, pictures).partition(TEXT)
                self._frames[pictures] = self._encode(before) + self._encode(after)
        return self._frames[pictures]


def picture_budget(folder: Path | None, model: Any) -> ImageBudget | TileBudget:
    """The arithmetic of pictures that the processor of `folder` will have under the budget of `model`."""
    if model.family == TILED:
        return TileBudget(TILE, most_tiles(model.max_image_tokens))
    most = model.max_image_tokens * token_side(model.family) ** 2
    return ImageBudget(PATCH_SIZE[model.family], least_pixels(str(folder or ""), model.family), most)


def render(template: str, pictures: int) -> str:
    """What `template` makes of a user's message of `pictures` pictures and the text `TEXT`."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    content: Sequence[dict[str, str]] = [*[{"type": "image"}] * pictures, {"type": "text", "text": TEXT}]
    messages = [{"role": "user", "content": content}]
    return environment.from_string(template).render(messages=messages, add_generation_prompt=True)
