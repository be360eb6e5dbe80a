"""Halves and samples: disjoint, even in every stratum, and little disturbed by what is added."""

import json
import random
from collections import Counter

import pytest

from data_prep.errors import UserError
from data_prep.splits import assign_halves, read_halves, sample

GROUPS = [f"{subset}/{number:07d}" for subset in ("cvusa", "fov") for number in range(2000)]


# Four questions of six categories a group, as far as the paper's shares go: common and rare ones.
CATEGORIES = ["roof"] * 43 + ["distance"] * 28 + ["footprint"] * 26 + ["connection"] * 3


def scenes(names=GROUPS, seed=0):
    rng = random.Random(seed)
    return {
        name: Counter((name.split("/")[0], "g2s", rng.choice(CATEGORIES)) for _ in range(rng.randint(1, 4)))
        for name in names
    }


def excess(groups, halves):
    """Rows of every stratum in the SFT half beyond those in the RL half."""
    difference = Counter()
    for group, strata in groups.items():
        for stratum, rows in strata.items():
            difference[stratum] += rows if halves[group] == "sft" else -rows
    return difference


@pytest.mark.parametrize("seed", range(3))
def test_every_stratum_is_cut_in_half(seed):
    groups = scenes()
    halves = assign_halves(groups, seed)
    assert halves.keys() == groups.keys()
    assert {stratum: rows for stratum, rows in excess(groups, halves).items() if abs(rows) > 2} == {}


def test_the_seed_decides_and_the_order_does_not():
    groups = scenes()
    shuffled = dict(random.Random(1).sample(list(groups.items()), len(groups)))
    halves, others = assign_halves(groups, 0), assign_halves(groups, 1)
    assert assign_halves(shuffled, 0) == halves
    same = sum(halves[group] == half for group, half in others.items())
    assert 0.4 < same / len(groups) < 0.6


def test_half_as_many_groups_again_move_few_of_the_others():
    before = assign_halves(scenes(GROUPS), 0)
    added = scenes([f"fov/{number:07d}" for number in range(2000, 4000)], seed=1)
    after = assign_halves(scenes(GROUPS) | added, 0)
    assert sum(after[group] != half for group, half in before.items()) < 0.05 * len(before)


def test_kept_halves_do_not_move_and_the_rest_evens_them_out():
    kept = dict.fromkeys(GROUPS[:300], "sft")
    groups = scenes()
    halves = assign_halves(groups, 0, kept | {"gone/1": "rl"})
    assert {group: halves[group] for group in kept} == kept
    assert halves.keys() == groups.keys()
    assert max(map(abs, excess(groups, halves).values())) <= 2


@pytest.mark.parametrize("content", ["", "[]", '{"cvusa/1": "test"}', None])
def test_a_file_that_holds_no_halves_is_refused_by_name(tmp_path, content):
    path = tmp_path / "halves.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=r"data\.halves=.*halves\.json"):
        read_halves(path)


def test_halves_are_read_as_they_were_written(tmp_path):
    halves = assign_halves(scenes(GROUPS[:9]), 0)
    (tmp_path / "halves.json").write_text(json.dumps(halves))
    assert read_halves(tmp_path / "halves.json") == halves


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
    halves = assign_halves(scenes(), 0)
    assert abs(sum(halves[group] == "sft" for group in chosen) - 500) < 5 * (1000 * 0.25) ** 0.5
