"""Letters balanced by leaving rows out: the bound holds, the choice is the seed's, no more goes than must."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.generation.balance import distribution, surplus

COUNTS = st.dictionaries(st.sampled_from("ABCD"), st.integers(1, 60), min_size=1)


def letters_of(counts):
    return {f"{letter}{number}": letter for letter, count in counts.items() for number in range(count)}


def left(counts, most, seed=0):
    letters = letters_of(counts)
    gone = surplus(letters, most, seed)
    return Counter(letter for name, letter in letters.items() if name not in gone)


@given(COUNTS, st.sampled_from([1.0, 1.5, 3.0]))
def test_no_letter_exceeds_the_bound_and_none_is_lost(counts, most):
    after = left(counts, most)
    assert set(after) == set(counts)
    for letter, count in after.items():
        others = [n for other, n in after.items() if other != letter]
        # One row of each letter always stays.
        assert not others or count <= max(1, most * sum(others) / len(others) + 1e-9)


@pytest.mark.parametrize(
    ("before", "most", "after"),
    [
        ({"A": 30, "B": 20}, 1.5, {"A": 30, "B": 20}),
        ({"A": 50, "B": 20}, 1.5, {"A": 30, "B": 20}),
        ({"A": 50, "B": 20}, 1.0, {"A": 20, "B": 20}),
        ({"A": 50, "B": 50, "C": 50, "D": 1}, 1.5, {"A": 50, "B": 50, "C": 50, "D": 1}),
        ({"A": 100, "B": 10, "C": 10, "D": 1}, 1.5, {"A": 10, "B": 10, "C": 10, "D": 1}),
        ({"A": 7}, 1.5, {"A": 7}),
    ],
)
def test_worked_examples(before, most, after):
    assert left(before, most) == after


def test_the_choice_is_the_seeds_whatever_the_order():
    letters = letters_of({"A": 40, "B": 10})
    shuffled = list(letters.items())
    random.Random(1).shuffle(shuffled)
    assert surplus(letters, 1.5, 0) == surplus(dict(shuffled), 1.5, 0)
    assert surplus(letters, 1.5, 0) != surplus(letters, 1.5, 1)


def test_a_distribution_counts_letters_by_category():
    answers = [("fov", "g2s", "roof", "B"), ("fov", "g2s", "roof", "A"), ("fov", "g2s", "roof", "B")]
    assert distribution(answers) == {"fov/g2s/roof": {"A": 1, "B": 2}}
