import numpy as np
import pytest

from recipes.statistics import bootstrap_ci, paired_difference


def clustered(generator, groups, rows, mean, concentration=4.0):
    """Right/wrong rows whose chance of being right varies from group to group around `mean`."""
    chances = generator.beta(mean * concentration, (1 - mean) * concentration, size=groups)
    correct = generator.random((groups, rows)) < chances[:, None]
    names = np.repeat([f"g{i}" for i in range(groups)], rows)
    return correct.ravel().astype(float), names


def test_interval_covers_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        correct, groups = clustered(generator, groups=60, rows=5, mean=0.6)
        low, high = bootstrap_ci(correct, groups, n=400, seed=trial)
        covered += low <= 0.6 <= high
    assert 0.91 <= covered / 300 <= 0.98


def test_interval_of_groups_is_wider_than_that_of_rows():
    correct, groups = clustered(np.random.default_rng(2), groups=60, rows=10, mean=0.5, concentration=1.0)
    by_group = np.ptp(bootstrap_ci(correct, groups))
    by_row = np.ptp(bootstrap_ci(correct, [str(i) for i in range(len(correct))]))
    assert by_group > 1.5 * by_row


@pytest.mark.parametrize(
    ("correct", "groups", "low", "high"),
    [
        ([], [], 0.0, 1.0),
        ([1, 1, 1, 1], ["a", "b", "c", "d"], 0.025**0.25, 1.0),  # exact binomial, Clopper and Pearson
        ([0, 0, 0, 0], ["a", "b", "c", "d"], 0.0, 1 - 0.025**0.25),
        ([1, 1, 1, 1], ["a"] * 4, 0.025, 1.0),  # four rows of one scene are one observation
        ([1, 0], ["a", "a"], 0.0125, 0.9875),
    ],
)
def test_interval_without_spread_is_still_an_interval(correct, groups, low, high):
    assert bootstrap_ci(correct, groups) == pytest.approx((low, high))


def test_interval_does_not_depend_on_the_order_of_the_rows():
    correct, groups = clustered(np.random.default_rng(3), groups=20, rows=3, mean=0.4)
    order = np.random.default_rng(4).permutation(len(correct))
    assert bootstrap_ci(correct, groups) == bootstrap_ci(correct[order], groups[order])


def test_difference_is_found_where_there_is_one_and_not_elsewhere():
    generator = np.random.default_rng(5)
    a, groups = clustered(generator, groups=200, rows=2, mean=0.5)
    better = np.maximum(a, generator.random(len(a)) < 0.3)
    found = paired_difference(a, better, groups)
    assert found.difference == pytest.approx(better.mean() - a.mean())
    assert 0 < found.low < found.difference < found.high
    assert found.p < 0.01
    same = paired_difference(a, generator.permutation(a), groups)
    assert same.low < 0 < same.high
    assert same.p > 0.05


def test_p_value_keeps_its_promise_under_no_difference():
    generator = np.random.default_rng(6)
    p = []
    for _ in range(300):
        a, groups = clustered(generator, groups=30, rows=2, mean=0.5)
        b = (generator.random(len(a)) < 0.5).astype(float)
        p.append(paired_difference(a, b, groups, n=300).p)
    assert 0.015 <= np.mean(np.array(p) <= 0.05) <= 0.09


@pytest.mark.parametrize(
    ("a", "b", "groups", "difference", "p"),
    [
        ([], [], [], 0.0, 1.0),
        ([1, 0], [1, 0], ["x", "y"], 0.0, 1.0),
        ([0, 0, 0], [1, 1, 1], ["x", "y", "z"], 1.0, 2 / 8),  # +++ and --- of eight patterns
        ([0, 0, 0], [1, 1, 1], ["x", "x", "x"], 1.0, 1.0),  # one scene proves nothing
        ([0] * 6, [1] * 6, list("uvwxyz"), 1.0, 2 / 64),
    ],
)
def test_difference_of_few_groups_is_exact(a, b, groups, difference, p):
    found = paired_difference(a, b, groups)
    assert (found.difference, found.p) == (difference, p)
    assert -1.0 <= found.low <= difference <= found.high <= 1.0
    assert found.low < found.high


def test_many_groups_are_drawn_in_bounded_memory():
    correct, groups = clustered(np.random.default_rng(7), groups=3000, rows=2, mean=0.5)
    low, high = bootstrap_ci(correct, groups, n=1500)
    assert 0.45 < low < correct.mean() < high < 0.55


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="3 values for 2 groups"):
        bootstrap_ci([1, 0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="1 and 2"):
        paired_difference([1], [1, 0], ["a", "b"])
