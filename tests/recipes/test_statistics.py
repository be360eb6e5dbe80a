import numpy as np
import pytest

from recipes.statistics import bootstrap_ci, paired_difference, resamples, spread_test


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


@pytest.mark.parametrize(
    ("given", "gold", "groups", "distance", "statistic", "freedom", "p"),
    [
        ([], [], [], 0.0, 0.0, 0, 1.0),
        (list("ABAB"), list("BABA"), list("wxyz"), 0.0, 0.0, 1, 1.0),  # wrong everywhere, no letter preferred
        (list("AAAA"), list("BBBB"), list("wxyz"), 1.0, 4.0, 1, 2 / 16),  # ++++ and ---- of sixteen patterns
        (list("AAAA"), list("BBBB"), ["w"] * 4, 1.0, 1.0, 1, 1.0),  # one scene proves nothing
        (list("AAB"), list("AAB"), list("xyz"), 0.0, 0.0, 0, 1.0),
        # D = (2, -1, -1); by hand V = [[2,-1,-1],[-1,1,0],[-1,0,1]], and D' V^+ D = 2
        (list("AA"), list("BC"), list("xy"), 1.0, 2.0, 2, 1.0),
    ],
)
def test_spread_of_few_groups_is_exact(given, gold, groups, distance, statistic, freedom, p):
    found = spread_test(given, gold, groups)
    assert (found.distance, found.statistic, found.freedom, found.p) == pytest.approx(
        (distance, statistic, freedom, p)
    )


def test_a_preferred_letter_is_found_and_a_fair_one_is_not():
    generator = np.random.default_rng(8)
    gold = generator.choice(list("ABCD"), p=[0.4, 0.22, 0.24, 0.14], size=600)
    groups = [str(i // 3) for i in range(600)]
    fair = generator.permutation(gold)
    biased = np.where(generator.random(600) < 0.2, "A", gold)
    assert spread_test(fair, gold, groups).p > 0.05
    found = spread_test(biased, gold, groups)
    assert found.p < 0.01
    assert found.freedom == 3
    assert found.statistic > 11.3  # chi-squared, 1 % at three degrees of freedom


def test_spread_test_keeps_its_promise_under_no_preference():
    generator = np.random.default_rng(9)
    p = []
    for _ in range(300):
        gold, given = generator.choice(list("ABC"), size=(2, 60), p=[0.5, 0.3, 0.2])
        p.append(spread_test(given, gold, [str(i // 2) for i in range(60)], n=300).p)
    assert 0.015 <= np.mean(np.array(p) <= 0.05) <= 0.09


def test_models_on_the_same_groups_are_resampled_alike():
    first, again = (np.concatenate(list(resamples(3000, 1500, 0))) for _ in range(2))
    assert first.shape == (1500, 3000)
    assert np.array_equal(first, again)
    assert first.max() == 2999


def test_unequal_lengths_of_letters_are_refused():
    with pytest.raises(ValueError, match="2 answers, 1 golds and 2 groups"):
        spread_test(["A", "B"], ["A"], ["x", "y"])
