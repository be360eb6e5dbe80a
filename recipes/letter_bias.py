"""Which letters a model prefers, against the right ones of the same questions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from recipes.answer_metrics import total_variation
from recipes.statistics import spread_test


def letter_bias(predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The letters that were read (strict reading) against the gold letters of the same choice rows.

    Keys: `answers`, how many; `distance`, the total variation of the two spreads in [0, 1] (as in the
    monitors of GRPO); `excess`, letter -> share given less share right; `preferred`, the letter with the
    largest excess; `statistic`, `freedom` and `p` of `recipes.statistics.spread_test`. Without a single
    letter: None.
    """
    read = [p for p in predictions if p["answer_type"] == "choice" and p["parsed"]]
    if not read:
        return None
    given, gold = Counter(p["parsed"] for p in read), Counter(p["answer"] for p in read)
    excess = {letter: (given[letter] - gold[letter]) / len(read) for letter in sorted({*given, *gold})}
    test = spread_test([p["parsed"] for p in read], [p["answer"] for p in read], [p["group"] for p in read])
    return {
        "answers": len(read),
        "distance": total_variation(given, gold),
        "excess": excess,
        "preferred": max(excess, key=lambda letter: excess[letter]),
        "statistic": test.statistic,
        "freedom": test.freedom,
        "p": test.p,
    }
