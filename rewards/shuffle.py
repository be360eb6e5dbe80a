"""Option-letter shuffling seeded by the row, against a policy that prefers a letter whatever the picture shows."""

import random
import re
from collections.abc import Mapping

from rewards.choice import option_text

_PINNED = re.compile(
    r"\b(?:all|none|both|neither|any) of (?:the |these|those)|\b(?:above|below)\b", re.IGNORECASE
)
_NAMES_LETTERS = re.compile(
    r"^[A-Z]$|\b(?:both|either|neither) [A-Z]\b|\b[A-Z] (?:and|or|nor) [A-Z]\b|\boptions? [A-Z]\b"
)


def shuffle_options(
    options: Mapping[str, str], answer: str, row_id: str, seed: int
) -> tuple[dict[str, str], str, dict[str, str]]:
    """Deal the option texts anew onto the same letters.

    Returns (options, answer letter, permutation {new letter: old letter}), the same for the same row and seed on every
    machine. "All of the above" keeps its place. Options whose texts are or name letters ("B", "both A and C")
    refer to something fixed, so such a row is returned as it is. ValueError when `answer` is not offered.
    """
    if answer not in options:
        raise ValueError(f"answer {answer!r} is not among the options {sorted(options)} of row {row_id}")
    texts = {letter: option_text(letter, text) for letter, text in options.items()}
    if any(_NAMES_LETTERS.search(text.strip()) for text in texts.values()):
        permutation = {letter: letter for letter in options}
    else:
        free = [letter for letter, text in texts.items() if not _PINNED.search(text)]
        dealt = free.copy()
        random.Random(f"{seed}:{row_id}").shuffle(dealt)
        permutation = {letter: letter for letter in options} | dict(zip(free, dealt, strict=True))
    new_answer = next(new for new, old in permutation.items() if old == answer)
    return {new: texts[old] for new, old in permutation.items()}, new_answer, permutation
