"""How many tokens a prompt takes, by arithmetic: of pictures from their size alone, of text by a tokenizer.

Qwen's image processors scale a picture to whole tokens within a budget of pixels and keep its shape as far
as that allows; a token covers `merge` x `merge` patches. InternVL's cuts it into square tiles, whose number
and grid follow from its shape, and adds the whole picture as one more. Equality with them is tested.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MERGE = 2
PATCH_SIZE = {"qwen2_5_vl": 14, "qwen3_vl": 16, "internvl": 14}  # pixels a side, by model family
TILED = "internvl"  # the family that cuts pictures into tiles
TILE_TOKENS = 256  # of a tile of 448 x 448 pixels
MAX_ASPECT = 200  # Qwen's image processors refuse more


def token_side(family: str) -> int:
    """Pixels on a side of the square that one token covers."""
    return PATCH_SIZE[family] * MERGE


@dataclass(frozen=True)
class ImageBudget:
    """What an image processor makes of pictures: `patch_size` in pixels a side, limits in pixels of area."""

    patch_size: int
    min_pixels: int
    max_pixels: int
    merge: int = MERGE

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Width and height in pixels after Qwen's rule (`smart_resize`), multiples of the token's side.

        Raises:
            ValueError: one side is more than 200 times the other.
        """
        if max(width, height) > MAX_ASPECT * min(width, height):
            raise ValueError(f"{width} x {height}: one side is more than {MAX_ASPECT} times the other")
        side = self.patch_size * self.merge
        # Python's round, to even: 48 / 32 is 2, 80 / 32 is 2.
        new = round(width / side) * side, round(height / side) * side
        if new[0] * new[1] > self.max_pixels:
            shrink = math.sqrt(width * height / self.max_pixels)
            return tuple(max(side, math.floor(old / shrink / side) * side) for old in (width, height))
        if new[0] * new[1] < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (width * height))
            return tuple(math.ceil(old * grow / side) * side for old in (width, height))
        return new

    def tokens(self, width: int, height: int) -> int:
        """Tokens of one picture of this size in pixels."""
        new_width, new_height = self.resized(width, height)
        return new_width * new_height // (self.patch_size * self.merge) ** 2

    def shrinks(self, width: int, height: int) -> bool:
        """Whether the picture loses detail to `max_pixels`."""
        side = self.patch_size * self.merge
        return round(width / side) * round(height / side) * side**2 > self.max_pixels


def most_tiles(max_image_tokens: int) -> int:
    """Tiles that a picture may be cut into, so that they and the whole picture keep to the budget."""
    return max(1, max_image_tokens // TILE_TOKENS - 1)


@dataclass(frozen=True)
class TileBudget:
    """What InternVL's image processor makes of pictures: `tile` in pixels a side, `tokens` of one tile."""

    tile: int
    max_tiles: int
    tile_tokens: int = TILE_TOKENS

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Columns and rows of the tiles: the shape nearest to the picture's, and of equal ones the largest
        that covers less than twice the picture's area."""
        sides = range(1, self.max_tiles + 1)
        grids = [(c, r) for c in sides for r in sides if c * r <= self.max_tiles]
        best, least = (1, 1), math.inf
        for columns, rows in sorted(grids, key=lambda grid: grid[0] * grid[1]):
            off = abs(width / height - columns / rows)
            if off < least:
                best, least = (columns, rows), off
            elif off == least and width * height > 0.5 * self.tile**2 * columns * rows:
                best = (columns, rows)
        return best

    def tokens(self, width: int, height: int) -> int:
        """Tokens of one picture of this size in pixels, with the two that enclose it."""
        columns, rows = self.grid(width, height)
        tiles = columns * rows
        return 2 + self.tile_tokens * (tiles if tiles == 1 else tiles + 1)


def prompt_tokens(
    text: str,
    sizes: Sequence[tuple[int, int]],
    budget: ImageBudget | TileBudget,
    count_text: Callable[[str], int],
) -> int:
    """Tokens of a whole prompt.

    Args:
        text: what the chat template makes of the messages, with one placeholder token a picture.
        sizes: width and height in pixels of every picture.
        count_text: tokens of a text, by the model's tokenizer.
    """
    return count_text(text) + sum(budget.tokens(*size) - 1 for size in sizes)
