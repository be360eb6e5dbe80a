"""Halves and samples by hash: disjoint, even, and undisturbed by what is added."""

import random

from data_prep.splits import half_of, sample

GROUPS = [f"{subset}/{number:07d}" for subset in ("cvusa", "fov") for number in range(2000)]


def test_halves_are_even_in_every_subset_and_differ_by_seed():
    for seed in range(5):
        for subset in ("cvusa", "fov"):
            groups = [group for group in GROUPS if group.startswith(subset)]
            sft = sum(half_of(group, seed) == "sft" for group in groups)
            assert abs(sft - 1000) < 5 * (2000 * 0.25) ** 0.5
    same = sum(half_of(group, 0) == half_of(group, 1) for group in GROUPS)
    assert abs(same - 2000) < 5 * (4000 * 0.25) ** 0.5


def test_the_half_of_a_group_is_fixed_for_good():
    # Written down: a change of these would silently exchange the halves of every earlier run.
    expected = {
        "cvusa/0000001": "sft",
        "cvusa/0000002": "rl",
        "fov/0001": "sft",
        "fov/0002": "sft",
        "fov/0007": "rl",
    }
    assert {group: half_of(group, 0) for group in expected} == expected


def test_samples_are_nested_and_keep_no_order():
    shuffled = random.Random(1).sample(GROUPS, len(GROUPS))
    small, large = sample(GROUPS, 50, 0), sample(shuffled, 80, 0)
    assert (len(small), len(large)) == (50, 80)
    assert small < large
    assert sample(GROUPS, 50, 1) != small
    assert sample([*GROUPS, *GROUPS], None, 0) == sample(GROUPS, len(GROUPS) + 1, 0) == set(GROUPS)


def test_a_sample_loses_no_more_than_the_newcomers_take():
    before = sample(GROUPS, 100, 0)
    after = sample([*GROUPS, *(f"new/{number}" for number in range(400))], 100, 0)
    assert {name for name in after if not name.startswith("new/")} <= before


def test_the_sample_and_the_halves_are_independent():
    chosen = sample(GROUPS, 1000, 0)
    assert abs(sum(half_of(group, 0) == "sft" for group in chosen) - 500) < 5 * (1000 * 0.25) ** 0.5
