"""Intervals and tests for accuracies whose rows come in groups.

Questions about the same scene share its pictures, so they are right or wrong together, and an
interval that takes the rows for independent is too narrow. Here whole image groups are drawn with
replacement (Davison and Hinkley, Bootstrap Methods and their Application, 3.8), and the test of a
difference flips the signs of whole groups (Fisher's randomisation test for pairs). `docs/evaluation.md` has
how often the intervals cover the truth.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
TAILS = ((1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2)
_EXACT_UP_TO = 12  # groups that differ; 2^12 sign patterns are enumerated, more are sampled
_DRAWS_AT_ONCE = 200_000  # bounds the memory of the bootstrap


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


class Homogeneity(NamedTuple):
    """Whether two answers to the same rows are spread alike; see `spread_test`."""

    distance: float
    statistic: float
    freedom: int
    p: float


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


def spread_test(
    given: Sequence[str], gold: Sequence[str], groups: Sequence[str], n: int = 2000, seed: int = 0
) -> Homogeneity:
    """Whether the answers `given` are spread over the values as the `gold` answers of the same rows are.

    `distance` is the total variation of the two spreads, in [0, 1]. `statistic` is Stuart's and Maxwell's for
    equal margins with whole groups in place of rows: D' V^-1 D, where D sums a group's counts of given less
    gold, and V their products; about chi-squared with `freedom` degrees where groups are many. The p-value
    needs no such limit: were the margins alike, a group's difference could as well have the other sign, so
    it is the share of sign patterns with a statistic as large, as in `paired_difference`.

    Raises:
        ValueError: the three sequences differ in length.
    """
    if not len(given) == len(gold) == len(groups):
        raise ValueError(f"{len(given)} answers, {len(gold)} golds and {len(groups)} groups")
    values = sorted({*given, *gold})
    columns = [
        _by_group([(a == value) - (b == value) for a, b in zip(given, gold, strict=True)], groups)[0]
        for value in values
    ]
    if not columns:
        return Homogeneity(0.0, 0.0, 0, 1.0)
    changes = np.column_stack(columns)
    distance = float(np.abs(changes.sum(axis=0)).sum() / (2 * len(given)))
    changes = changes[np.any(changes != 0.0, axis=1)]
    if len(changes) == 0:
        return Homogeneity(distance, 0.0, 0, 1.0)
    products = changes.T @ changes
    inverse = np.linalg.pinv(products, hermitian=True)

    def statistic(sums: np.ndarray) -> np.ndarray:
        return np.einsum("...i,ij,...j", sums, inverse, sums)

    observed = float(statistic(changes.sum(axis=0)))
    p = _flipped_p(changes, statistic, observed, n, seed)
    return Homogeneity(distance, observed, int(np.linalg.matrix_rank(products, hermitian=True)), p)


def resamples(count: int, n: int, seed: int) -> Iterator[np.ndarray]:
    """The bootstrap's draws: `n` rows of `count` group numbers, in chunks that bound the memory.

    They depend on the number of groups and the seed alone, so models that answer the same rows are resampled
    alike.
    """
    generator = np.random.default_rng(seed)
    chunk = max(1, _DRAWS_AT_ONCE // count)
    for start in range(0, n, chunk):
        yield generator.integers(0, count, size=(min(chunk, n - start), count))


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
    resampled = [totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1) for drawn in resamples(count, n, seed)]
    low, high = np.quantile(np.concatenate(resampled), TAILS)
    return float(low), float(high)


def _sign_flip_p(totals: np.ndarray, n: int, seed: int) -> float:
    changed = totals[totals != 0.0]
    if len(changed) == 0:
        return 1.0
    return _flipped_p(changed, np.abs, abs(changed.sum()), n, seed)


def _flipped_p(
    changes: np.ndarray,
    statistic: Callable[[np.ndarray], np.ndarray],
    observed: float,
    n: int,
    seed: int,
) -> float:
    """The share of sign patterns of the groups in whose sum of `changes` the statistic is as large."""
    least = observed - 1e-9
    count = len(changes)
    if count <= _EXACT_UP_TO:
        patterns = np.arange(2**count)[:, None] >> np.arange(count) & 1
        return float(np.mean(statistic((1 - 2 * patterns) @ changes) >= least))
    generator = np.random.default_rng(seed)
    extreme = 0
    chunk = max(1, _DRAWS_AT_ONCE // count)
    for start in range(0, n, chunk):
        signs = generator.choice((-1.0, 1.0), size=(min(chunk, n - start), count))
        extreme += int(np.sum(statistic(signs @ changes) >= least))
    return (1 + extreme) / (1 + n)
