"""Which letters a model prefers, against the right ones of the same questions."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from recipes.answer_metrics import total_variation
from recipes.statistics import spread_test


def letter_bias(parsed: Sequence[str], gold: Sequence[str], groups: Sequence[str]) -> dict[str, Any] | None:
    """The letters that were read (strict reading) against the gold letters of the same choice rows.

    One entry a row: the letter that was read or "", the right one, the image group.
    Keys: `answers`, how many; `distance`, the total variation of the two spreads in [0, 1] (as in the
    monitors of GRPO); `excess`, letter -> share given less share right; `preferred`, the letter with the
    largest excess; `statistic`, `freedom` and `p` of `recipes.statistics.spread_test`. Without a single
    letter: None.
    """
    read = [entry for entry in zip(parsed, gold, groups, strict=True) if entry[0]]
    if not read:
        return None
    letters, right, scenes = zip(*read, strict=True)
    given, wanted = Counter(letters), Counter(right)
    excess = {letter: (given[letter] - wanted[letter]) / len(read) for letter in sorted({*given, *wanted})}
    test = spread_test(letters, right, scenes)
    return {
        "answers": len(read),
        "distance": total_variation(given, wanted),
        "excess": excess,
        "preferred": max(excess, key=lambda letter: excess[letter]),
        "statistic": test.statistic,
        "freedom": test.freedom,
        "p": test.p,
    }
