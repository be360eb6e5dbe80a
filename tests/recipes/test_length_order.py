"""SFT's order: the rows of an update are random, its micro-batches are of about one length."""

import random

import pytest

from recipes.length_order import LengthOrder

LENGTHS = [length + i % 7 for i, length in enumerate(random.Random(5).choices((100, 120, 140, 700), k=96))]
UPDATE, MICRO = 32, 4


def padded(order: list[int], size: int) -> int:
    """Tokens of all micro-batches with their padding."""
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return sum(len(part) * max(LENGTHS[row] for row in part) for part in parts)


def updates(order: LengthOrder) -> list[list[int]]:
    rows = list(order)
    return [rows[start : start + UPDATE] for start in range(0, len(rows), UPDATE)]


def test_every_row_comes_once_an_epoch_and_updates_are_drawn_anew():
    order = LengthOrder(LENGTHS, UPDATE, seed=1)
    first = updates(order)
    order.set_epoch(1)
    second = updates(order)
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == list(range(len(LENGTHS)))
    assert len(order) == len(LENGTHS)
    assert {frozenset(rows) for rows in first}.isdisjoint(frozenset(rows) for rows in second)


def test_an_update_has_the_rows_that_it_has_in_accelerates_order():
    from accelerate.data_loader import SeedableRandomSampler

    usual = SeedableRandomSampler(LENGTHS, data_seed=4)
    order = LengthOrder(LENGTHS, UPDATE, seed=4)
    for epoch in range(2):
        usual.set_epoch(epoch)
        order.set_epoch(epoch)
        rows = list(usual)
        assert [set(update) for update in updates(order)] == [
            set(rows[start : start + UPDATE]) for start in range(0, len(rows), UPDATE)
        ]


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_and_an_epoch_give_one_order(seed):
    one, other = LengthOrder(LENGTHS, UPDATE, seed), LengthOrder(LENGTHS, UPDATE, seed)
    assert list(one) == list(other)
    assert list(one) != list(LengthOrder(LENGTHS, UPDATE, seed + 1))
    other.set_epoch(3)
    assert list(one) != list(other)


def test_long_rows_meet_within_an_update_and_updates_stay_mixed():
    order = LengthOrder(LENGTHS, UPDATE, seed=2)
    rows = list(order)
    plain = random.Random(3).sample(rows, len(rows))
    tokens = sum(LENGTHS)
    assert tokens < padded(rows, MICRO) < 1.2 * tokens < 1.5 * tokens < padded(plain, MICRO)
    for update in updates(order):
        lengths = [LENGTHS[row] for row in update]
        assert lengths == sorted(lengths, reverse=True)
        assert min(lengths) < 200 < 600 < max(lengths)
