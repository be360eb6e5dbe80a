"""The intervals cover the truth as often as they say, over simulated models of known accuracy."""

import numpy as np
import pytest

from bench.coverage import BOUNDS, ENOUGH, GROUPS, coverage, draws, intervals, simulate
from recipes.statistics import bootstrap_ci


def test_the_simulation_measures_the_intervals_that_are_reported():
    totals, sizes, _ = simulate(3, 40, np.random.default_rng(1))
    low, high = intervals(totals, sizes, draws(40))
    groups = np.repeat([f"{i:02d}" for i in range(40)], sizes)
    for model in range(3):
        rows = np.concatenate(
            [np.arange(size) < right for size, right in zip(sizes, totals[:, model], strict=True)]
        )
        assert bootstrap_ci(rows, groups) == pytest.approx((low[model], high[model]))


def test_rows_of_a_group_are_right_together():
    totals, sizes, truth = simulate(400, 50, np.random.default_rng(2))
    assert np.mean(totals.sum(axis=0) / sizes.sum() - truth) == pytest.approx(0, abs=0.01)
    spread = np.var(totals[sizes == 8] / 8, axis=0)
    assert np.mean(spread) > 1.5 * np.mean(truth * (1 - truth) / 8)


@pytest.mark.slow
def test_coverage():
    found = {record["groups"]: record["covered"] for record in coverage()}
    assert list(found) == list(GROUPS)
    assert all(BOUNDS[0] <= share <= BOUNDS[1] for count, share in found.items() if count >= ENOUGH)
    assert all(0.92 <= share <= BOUNDS[1] for share in found.values())
