"""Option-letter shuffling seeded by the row, against a policy that prefers one letter in every picture."""

import random
import re
from collections.abc import Mapping

from rewards.choice import option_text

_KEEPS_ITS_PLACE = re.compile(
    r"\b(?:all|any|both|either|neither|none|some) of (?:the (?:above|options|choices|others)|these|those)\b",
    re.IGNORECASE,
)
_LETTERS_ONLY = re.compile(
    r"(?i:both |either |neither )?(?i:options? |choices? )?[A-Z](?:(?:, | and | or | nor | & )[A-Z])*\.?"
)


def shuffle_options(
    options: Mapping[str, str], answer: str, row_id: str, seed: int
) -> tuple[dict[str, str], str, dict[str, str]]:
    """Deal a row's option texts anew onto the same letters, the same way on every machine.

    "All of the above" and its like keep their place. A row whose options are letters themselves ("B", the
    name of a panel; "both A and C") is returned as it is.

    Returns:
        The new options, the new answer's letter, and the permutation {new letter: old letter}.

    Raises:
        ValueError: `answer` is not an offered letter.
    """
    if answer not in options:
        raise ValueError(f"row {row_id}: answer {answer!r} is none of the options {', '.join(options)}")
    texts = {letter: option_text(letter, text) for letter, text in options.items()}
    free = [letter for letter, text in texts.items() if not _KEEPS_ITS_PLACE.search(text)]
    if any(_LETTERS_ONLY.fullmatch(text.strip()) for text in texts.values()):
        free = []
    dealt = free.copy()
    random.Random(f"{seed}:{row_id}").shuffle(dealt)
    old = {letter: letter for letter in texts} | dict(zip(free, dealt, strict=True))
    new_answer = next(letter for letter in old if old[letter] == answer)
    return {letter: texts[old[letter]] for letter in old}, new_answer, old
