"""Letters balanced within a category. Options are fixed classes, so rows are left out, never relabelled.

The paper balances the labels and does not say how (3.1). Here no letter of a category may have more than
`most` times the mean of the category's other letters that occur; of one that has more, a sample stays.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from data_prep.splits import sample


def surplus(letters: dict[str, str], most: float, seed: int) -> set[str]:
    """The ids to leave out of one category.

    Args:
        letters: right letter by question id.
        most: how many times the mean of the other letters one may have; at least 1.
    """
    ids: dict[str, list[str]] = defaultdict(list)
    for question_id, letter in letters.items():
        ids[letter].append(question_id)
    cap = _cap([len(found) for found in ids.values()], most)
    return {name for found in ids.values() for name in {*found} - sample(found, cap, seed)}


def _cap(counts: list[int], most: float) -> int:
    """The largest count at which no letter that reaches it exceeds `most` times the mean of the others."""
    if len(counts) < 2:
        return max(counts, default=0)

    def fair(cap: int) -> bool:
        cut = sorted(min(count, cap) for count in counts)
        return cut[-1] <= most * sum(cut[:-1]) / (len(cut) - 1)

    return next(cap for cap in range(max(counts), 0, -1) if fair(cap))


def distribution(answers: Iterable[tuple[str, str, str, str]]) -> dict[str, dict[str, int]]:
    """{"subset/task/category": {letter: questions}} of (subset, task, category, letter)."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for *where, letter in answers:
        counts["/".join(where)][letter] += 1
    return {where: dict(sorted(letters.items())) for where, letters in sorted(counts.items())}
