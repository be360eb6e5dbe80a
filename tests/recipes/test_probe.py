"""The probe before GRPO: its estimators against counting, its refusal, and an untrained model."""

import itertools
import shutil

import pytest
from omegaconf import OmegaConf

from data_prep.errors import UserError
from recipes import grpo, probe
from recipes.run_dir import RunDir
from recipes.stages import plan


@pytest.mark.parametrize(
    ("n", "right", "k"), [(8, 0, 4), (8, 8, 4), (8, 3, 1), (8, 3, 4), (8, 5, 8), (6, 2, 3)]
)
def test_pass_at_k_counts_the_draws(n, right, k):
    draws = list(itertools.combinations([True] * right + [False] * (n - right), k))
    assert probe.pass_at_k(n, right, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_groups_are_counted_over_all_draws():
    rows = [[1.0] * 8, [0.0] * 8, [1.0] * 3 + [0.0] * 5]
    found = probe.shares(rows, group=4)
    draws = list(itertools.combinations(rows[2], 4))
    wrong = sum(sum(draw) == 0 for draw in draws) / len(draws)
    assert found["all_wrong"] == pytest.approx((1 + wrong) / 3)
    assert found["all_right"] == pytest.approx(1 / 3)
    assert found["flat"] == pytest.approx((2 + wrong) / 3)
    assert found["pass_at_1"] == pytest.approx((1 + 0 + 3 / 8) / 3)
    assert found["pass_at_8"] == pytest.approx(2 / 3)


def test_a_box_is_flat_only_where_every_overlap_is_the_same():
    found = probe.shares([[0.2] * 8, [0.1, 0.2] * 4], group=2)
    assert (found["all_wrong"], found["all_right"]) == (0, 0)
    assert found["flat"] == pytest.approx((1 + 2 * 6 / 28) / 2)


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        (0.95, 0.0, ["95% are all wrong and 0% all right", "train SFT longer", "grpo.temperature"]),
        (0.05, 0.95, ["5% are all wrong and 95% all right", "harder rows"]),
    ],
)
def test_too_few_groups_that_differ_are_refused(wrong, right, words):
    found = {"rows": 32, "group_size": 4, "all_wrong": wrong, "all_right": right, "flat": wrong + right}
    found |= {f"pass_at_{k}": 0.5 for k in probe.PASSES}
    with pytest.raises(UserError) as caught:
        probe.refuse_flat(found, 0.9)
    words = [*words, "grpo.probe.max_flat_share=1 starts all the same"]
    assert all(word in str(caught.value) for word in words)
    probe.refuse_flat(found, 1.0)
    probe.refuse_flat(found | {"flat": 0.9}, 0.9)


@pytest.fixture
def untrained(tiny) -> RunDir:
    """A GRPO run that starts from an untrained model."""
    config = tiny(
        "grpo.probe.rows=2", "model.max_response_tokens=16", "grpo.batch_size=4", "grpo.mini_batch_size=2",
    )  # fmt: skip
    stage = plan(config, "grpo")
    start = stage.inputs["sft"].path / "checkpoint"
    for left in (start, stage.path):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(plan(tiny(), "base").path / "checkpoint", start)
    return stage.open()


def test_a_model_that_knows_nothing_is_refused_once_measured(untrained, monkeypatch, capfd):
    started = []
    monkeypatch.setattr(grpo, "_train", lambda *_: started.append(1))
    with pytest.raises(UserError, match=r"100% are all wrong and 0% all right, more than 90% together"):
        grpo.run(untrained)
    assert "probing the start checkpoint on 2 rows" in capfd.readouterr().out
    found = probe.stored(untrained)
    assert found is not None
    assert (found["rows"], found["answers"], found["group_size"], found["pass_at_8"]) == (2, 16, 4, 0.0)
    assert not started

    # The refusal is of the stored result, and the key that turns it off does not measure again.
    monkeypatch.setattr(probe, "measure", None)
    monkeypatch.setattr(probe.subprocess, "run", None)
    with pytest.raises(UserError, match=r"grpo\.probe\.max_flat_share=1"):
        grpo.run(untrained)
    config = untrained.config
    config.grpo.probe.max_flat_share = 1.0
    (untrained.path / "config.yaml").write_text(OmegaConf.to_yaml(config))
    with pytest.raises(RuntimeError, match="ended at step 0"):
        grpo.run(untrained)
    assert started
    assert [record["step"] for record in untrained.metrics()] == [0]
    assert untrained.metrics()[0]["probe_all_wrong"] == 1.0


def test_the_same_rows_and_answers_again(untrained):
    first = probe.measure(untrained)
    assert probe.measure(untrained) == first


def test_a_checkpoint_that_cannot_answer_is_told(untrained, capfd):
    shutil.rmtree(untrained.inputs["sft"].path / "checkpoint")
    (untrained.inputs["sft"].path / "checkpoint").mkdir()
    with pytest.raises(UserError, match=r"ended with status .* grpo\.probe\.rows=0 leaves it out"):
        probe.probe(untrained)
    assert probe.stored(untrained) is None


def test_it_can_be_left_out(untrained):
    config = untrained.config
    config.grpo.probe.rows = 0
    (untrained.path / "config.yaml").write_text(OmegaConf.to_yaml(config))
    assert probe.probe(untrained) is None
    assert probe.stored(untrained) is None
