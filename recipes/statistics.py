"""Intervals and tests for accuracies whose rows come in groups.

Questions about the same scene share its pictures, so they are right or wrong together, and an
interval that takes the rows for independent is too narrow. Here whole image groups are drawn with
replacement (Davison and Hinkley, Bootstrap Methods and their Application, 3.8), and the test of a
difference flips the signs of whole groups (Fisher's randomisation test for pairs).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
_EXACT_UP_TO = 12  # groups that differ; 2^12 sign patterns are enumerated, more are sampled
_DRAWS_AT_ONCE = 2_000_000  # bounds the memory of the bootstrap


class Difference(NamedTuple):
    """Mean of b minus mean of a, its 95 % interval, and the two-sided p-value of no difference."""

    difference: float
    low: float
    high: float
    p: float

    @property
    def direction(self) -> int:
        """1 or -1 where the interval leaves zero out and the test agrees (p below 0.05), else 0."""
        if self.p >= 1.0 - LEVEL:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def bootstrap_ci(
    correct: Sequence[float], groups: Sequence[str], n: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of the mean of `correct` (values in [0, 1], one a row) over image groups.

    Percentiles of `n` resamples of whole groups. Where the groups are all alike (all right, all wrong,
    only one) resampling shows no spread at all; then the interval is the exact binomial one: as many
    unlike groups as could have been missed with probability 2.5 % are granted. No rows give (0, 1).
    The result does not depend on the order of the rows.

    Raises:
        ValueError: `correct` and `groups` differ in length.
    """
    totals, sizes = _by_group(correct, groups)
    return _interval(totals, sizes, 0.0, 1.0, n, seed)


def paired_difference(
    a: Sequence[float], b: Sequence[float], groups: Sequence[str], n: int = 2000, seed: int = 0
) -> Difference:
    """How much better `b` is than `a` on the same rows: mean(b) - mean(a).

    The interval is that of `bootstrap_ci`. The p-value: under no difference the two models may be
    swapped within any group, so the signs of the groups' differences are flipped; all patterns up to
    twelve groups that differ, `n` random ones beyond. No rows give difference 0, (-1, 1), p = 1.

    Raises:
        ValueError: the three sequences differ in length.
    """
    if len(a) != len(b):
        raise ValueError(f"paired sequences differ in length: {len(a)} and {len(b)}")
    changes = np.asarray(b, dtype=float) - np.asarray(a, dtype=float)
    totals, sizes = _by_group(changes, groups)
    low, high = _interval(totals, sizes, -1.0, 1.0, n, seed)
    difference = float(totals.sum() / sizes.sum()) if len(sizes) else 0.0
    return Difference(difference, low, high, _sign_flip_p(totals, n, seed))


def _by_group(values: Sequence[float] | np.ndarray, groups: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the values and number of rows of every group, in the order of the groups' names."""
    if len(values) != len(groups):
        raise ValueError(f"{len(values)} values for {len(groups)} groups")
    index = np.unique(np.asarray(groups, dtype=str), return_inverse=True)[1]
    return np.bincount(index, weights=np.asarray(values, dtype=float)), np.bincount(index)


def _interval(
    totals: np.ndarray, sizes: np.ndarray, least: float, most: float, n: int, seed: int
) -> tuple[float, float]:
    count = len(sizes)
    if count == 0:
        return least, most
    means = totals / sizes
    if np.ptp(means) == 0.0:
        unseen = 1.0 - ((1.0 - LEVEL) / 2) ** (1.0 / count)
        mean = float(means[0])
        return mean + unseen * (least - mean), mean + unseen * (most - mean)
    generator = np.random.default_rng(seed)
    resampled = []
    chunk = max(1, _DRAWS_AT_ONCE // count)
    for start in range(0, n, chunk):
        drawn = generator.integers(0, count, size=(min(chunk, n - start), count))
        resampled.append(totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    tails = [(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2]
    low, high = np.quantile(np.concatenate(resampled), tails)
    return float(low), float(high)


def _sign_flip_p(totals: np.ndarray, n: int, seed: int) -> float:
    changed = totals[totals != 0.0]
    if len(changed) == 0:
        return 1.0
    observed = abs(changed.sum()) - 1e-9
    if len(changed) <= _EXACT_UP_TO:
        patterns = np.arange(2 ** len(changed))[:, None] >> np.arange(len(changed)) & 1
        return float(np.mean(np.abs((1 - 2 * patterns) @ changed) >= observed))
    generator = np.random.default_rng(seed)
    extreme = 0
    chunk = max(1, _DRAWS_AT_ONCE // len(changed))
    for start in range(0, n, chunk):
        signs = generator.choice((-1.0, 1.0), size=(min(chunk, n - start), len(changed)))
        extreme += int(np.sum(np.abs(signs @ changed) >= observed))
    return (1 + extreme) / (1 + n)
