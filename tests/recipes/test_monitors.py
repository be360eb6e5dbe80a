"""The monitors on simulated GRPO runs: each way of going wrong is called by its name, and in time."""

import math
import random

import pytest
from omegaconf import OmegaConf
from policies import healthy, knows, prose, run_of

from launch.compose import compose
from recipes.answer_metrics import answer_metrics, repeated_share, total_variation
from recipes.monitor_readings import MONITORS
from recipes.monitors import Watch, review

SETTINGS = OmegaConf.to_container(compose(["recipe=imagination_cot", "scale=tiny"]).grpo.monitors)


def prefers_a_letter(rng, done, gold, category):
    """Gives B more and more often, whatever is right."""
    return f"{prose(rng)}\n<answer> {'B' if rng.random() < done else knows(rng, 0.3, gold)} </answer>"


def prefers_a_letter_in_one_category(rng, done, gold, category):
    if category == "facade":
        return prefers_a_letter(rng, min(1.0, 1.5 * done), gold, category)
    return healthy(rng, done, gold, category)


def learns_the_format_alone(rng, done, gold, category):
    """Guesses; forgets the closing of its answer less and less often."""
    formed = rng.random() < 0.2 + 0.8 * done
    return f"{prose(rng)}\n<answer> {rng.choice('ABCD')} </answer>{'' if formed else ' I think.'}"


def is_always_right(rng, done, gold, category):
    return f"{prose(rng)}\n<answer> {gold} </answer>"


def is_always_wrong(rng, done, gold, category):
    return f"{prose(rng)}\n<answer> {rng.choice('ABCD'.replace(gold, ''))} </answer>"


def goes_round_in_circles(rng, done, gold, category):
    text = prose(rng, 12) * 6 if rng.random() < done else prose(rng)
    return f"{text}\n<answer> {knows(rng, 0.4, gold)} </answer>"


def never_ends(rng, done, gold, category):
    return prose(rng, 128) if rng.random() < done else healthy(rng, 0, gold, category)


def gives_up_reasoning(rng, done, gold, category):
    words = max(2, round(60 * (1 - 1.2 * done)))
    return f"{prose(rng, words)}\n<answer> {knows(rng, 0.4, gold)} </answer>"


def rambles_when_wrong(rng, done, gold, category):
    letter = knows(rng, 0.4, gold)
    return f"{prose(rng, 40 if letter == gold else 90)}\n<answer> {letter} </answer>"


def alarms(records, **changed) -> dict[str, int]:
    """Monitor -> the step at which it was first above its limit."""
    found: dict[str, int] = {}
    for alarm, _ in review(records, {**SETTINGS, **changed}).alarms:
        found.setdefault(alarm.monitor, alarm.step)
    return found


def test_every_monitor_has_a_limit():
    assert SETTINGS.keys() == {"window", "stop_on", *MONITORS}


def test_a_healthy_run_raises_no_alarm():
    records = run_of(healthy, steps=60)
    assert records[-1]["accuracy"] > records[0]["accuracy"] + 0.2
    assert alarms(records) == {}


def test_guessing_is_no_collapse():
    """The letters of a few dozen questions differ by chance from those given: that alone is no collapse."""

    def guesses(rng, done, gold, category):
        return f"{prose(rng, 30)}\n<answer> {rng.choice('ABCD')} </answer>"

    assert alarms(run_of(guesses, steps=60)) == {}


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (prefers_a_letter, "letter_collapse"),
        (prefers_a_letter_in_one_category, "letter_collapse"),
        (is_always_right, "all_right"),
        (is_always_wrong, "all_wrong"),
        (goes_round_in_circles, "repetition"),
        (never_ends, "truncation"),
        (gives_up_reasoning, "length_collapse"),
        (rambles_when_wrong, "length_gap"),
        (never_ends, "unparsed"),
    ],
)
def test_a_run_that_goes_wrong_is_caught_by_name_within_30_steps(policy, name):
    assert alarms(run_of(policy, steps=30)).get(name, math.inf) <= 30


def test_a_letter_that_pays_is_caught_by_name():
    """A reward that pays the letter B: reward rises, accuracy does not."""
    records = run_of(prefers_a_letter, pay=lambda answer, gold: float(answer["parsed"] == "B"))
    found = alarms(records)
    assert found["letter_collapse"] <= 30
    assert found["reward_gap"] <= 30


def test_a_format_that_pays_is_caught_by_name():
    """A reward that pays the format alone: groups differ in nothing else."""
    found = alarms(run_of(learns_the_format_alone, pay=lambda answer, gold: answer["format"]))
    assert found["reward_gap"] <= 30
    assert "letter_collapse" not in found


def test_groups_that_differ_in_format_alone_are_told():
    """With the paper's reward, and no answer right: lambda is all that is left to gain."""

    def wrong(rng, done, gold, category):
        return learns_the_format_alone(rng, 0.4, gold, category).replace(f"> {gold} <", "> it <")

    found = alarms(run_of(wrong, steps=10))
    assert {"format_only", "all_wrong"} <= found.keys()


def test_the_paper_s_reward_is_no_gap_even_when_the_format_is_learned_first():
    assert "reward_gap" not in alarms(run_of(learns_the_format_alone))


@pytest.mark.parametrize(
    ("verl", "name"),
    [
        (lambda done: {"actor/kl_loss": 2 * done}, "kl_blowup"),
        (lambda done: {"actor/entropy": 0.5 * (1 - done) ** 3}, "entropy_collapse"),
        (lambda done: {"actor/kl_loss": math.nan if done > 0.5 else 0.1}, "not_finite"),
        (lambda done: {"actor/grad_norm": math.inf if done > 0.5 else 0.1}, "not_finite"),
    ],
)
def test_what_verl_measures_is_watched_too(verl, name):
    records = run_of(healthy, steps=20, verl=verl)
    assert list(alarms(records)) == [name]
    assert all(math.isfinite(r.get("kl", 0)) and math.isfinite(r.get("grad_norm", 0)) for r in records)


def test_an_alarm_says_what_and_where():
    [(alarm, last), *_] = review(run_of(prefers_a_letter_in_one_category), SETTINGS).alarms
    text = str(alarm)
    assert text.startswith("letter_collapse: distance of the letters given from the right ones 0.")
    assert ", limit 0.3 (facade: B is given " in text
    assert "data.shuffle_options=true" in text
    assert (alarm.step, last) == (alarm.step, 30)


def test_an_alarm_begins_once_and_ends():
    watch = Watch({**SETTINGS, "window": 2, "stop_on": ["truncation"]})
    base = run_of(healthy, steps=6)
    begun, stopping = [], []
    for record, truncated in zip(base, (0.0, 0.3, 0.3, 0.3, 0.0, 0.0), strict=True):
        begun.append([alarm.monitor for alarm in watch.see({**record, "truncated": truncated})])
        stopping.append(watch.stopping and watch.stopping.step)
    assert begun == [[], ["truncation"], [], [], [], []]
    assert stopping == [None, 2, 2, 2, 2, None]


def test_an_alarm_that_comes_and_goes_is_one_alarm():
    records = [
        {**record, "flat_groups": float(record["step"] in (3, 5, 6, 9))} for record in run_of(healthy)[:9]
    ]
    found = review(records, {**SETTINGS, "window": 1}).alarms
    assert [(alarm.step, last) for alarm, last in found] == [(3, 3), (5, 6), (9, 9)]
    found = review(records, {**SETTINGS, "window": 2, "flat_groups": 0.4}).alarms
    assert [(alarm.step, last) for alarm, last in found] == [(3, 9)]


def test_no_window_no_alarm():
    """Four steps of nothing but B are too few to judge by."""
    records = run_of(prefers_a_letter)[-4:]
    assert alarms(records) == {}
    assert alarms(records, window=4) != {}


@pytest.mark.parametrize("name", MONITORS)
def test_an_infinite_limit_turns_a_monitor_off(name):
    records = [
        {**record, "out_of_range": 1.0, "kl": 9.0, "entropy": 1 / record["step"] ** 2, "not_finite": ["loss"]}
        for policy in (prefers_a_letter, never_ends, rambles_when_wrong)
        for record in run_of(policy)[-10:]
    ]
    assert name not in alarms(records, **{name: math.inf})


def test_records_without_answers_are_no_step():
    watch = Watch(SETTINGS)
    assert watch.see({"step": 0, "probe_pass_at_1": 0.5}) == []
    assert watch.values == {}


def answer(row, score, accuracy, **fields):
    record = {"id": row, "task": "g2s", "category": "facade", "answer_type": "choice", "gold": "A"}
    record |= {"completion": "A road.", "tokens": 10, "truncated": False, "parsed": "A", "format": 1.0}
    return record | {"score": score, "accuracy": accuracy, "out_of_range": 0} | fields


def test_groups_are_told_apart():
    found = answer_metrics(
        [
            *(answer("right", 1.0, 1.0) for _ in range(2)),
            *(answer("wrong", 0.1, 0.0) for _ in range(2)),
            answer("form", 0.1, 0.0),
            answer("form", 0.0, 0.0, format=0.0),
            answer("mixed", 1.0, 1.0),
            answer("mixed", 0.1, 0.0),
        ]
    )
    names = ("flat_groups", "all_right", "all_wrong", "format_only")
    assert [found[name] for name in names] == [0.5, 0.25, 0.5, 0.25]


def test_length_letters_and_parts_are_apart():
    found = answer_metrics(
        [
            answer("a", 1.0, 1.0, tokens=10),
            answer("a", 0.1, 0.0, tokens=40, parsed="B"),
            answer("b", 0.0, 0.0, tokens=60, parsed="", format=0.0, truncated=True),
            answer("b", 0.5, 0.5, answer_type="box", parsed="[1, 2, 3, 4]", out_of_range=2, category="where"),
        ]
    )
    assert (found["tokens_right"], found["tokens_wrong"], found["truncated"]) == (10, 50, 0.25)
    assert (found["letters"], found["gold_letters"]) == ({"A": 1, "B": 1}, {"A": 2})
    assert (found["letter_distance"], found["unparsed"], found["out_of_range"]) == (0.5, 0.25, 1.0)
    assert found["by_category"]["where"] == {
        "answers": 1, "accuracy": 0.5, "format": 1.0, "letters": {}, "gold_letters": {},
    }  # fmt: skip
    assert found["by_task"]["g2s"]["accuracy"] == 0.375


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("the road is left of it. " * 2, 0, 0),
        ("the road runs along the house. " * 10, 0.8, 1),
        ("!" * 300, 0.9, 1),
        ("abc" * 200, 0.9, 1),
        (" ".join(random.Random(0).choices("abcdefghijklmnop", k=200)), 0, 0.05),
    ],
)
def test_text_that_repeats_itself(text, low, high):
    assert low <= repeated_share(text) <= high


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [({"A": 2}, {"A": 7}, 0), ({"A": 1}, {"B": 1}, 1), ({"A": 3, "B": 1}, {"A": 2, "B": 2}, 0.25)],
)
def test_total_variation(one, other, distance):
    assert total_variation(one, other) == pytest.approx(distance)
