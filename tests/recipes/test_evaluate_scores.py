import pytest

from data_prep.rows import Row
from recipes.scores import chance, predict, summarise
from recipes.statistics import bootstrap_ci

REWARD = {"format_weight": 0.1, "format_mode": "answer", "gate_format": False}


def row(
    answer="B",
    options=("flat", "gabled", "arched"),
    answer_type="choice",
    name="q0",
    group="cvusa/1",
    **fields,
):
    letters = dict(zip("ABCD", options, strict=False)) if options else None
    return Row(
        id=name,
        benchmark="cvsbench",
        subset="cvusa",
        task="g2s",
        category="roof_form",
        group=group,
        images=(),
        question="?",
        options=letters,
        answer=answer,
        answer_type=answer_type,
        **fields,
    )


def judged(asked, completion, truncated=False):
    return predict(asked, completion, 7, truncated, "imagination_cot", REWARD)


@pytest.mark.parametrize(
    ("completion", "strict", "flexible", "correct", "correct_flexible", "score"),
    [
        ("Step. <answer> B </answer>", "B", "B", True, True, 1.0),
        ("Step. <answer> C </answer>", "C", "C", False, False, 0.1),
        ("The answer is B.", "", "B", False, True, 0.0),
        ("The answer is A.", "", "A", False, False, 0.0),
        ("I cannot tell", "", "", False, False, 0.0),
        ("<answer> D </answer>", "", "", False, False, 0.0),  # not offered
        ("", "", "", False, False, 0.0),
    ],
)
def test_both_readings_of_a_completion(completion, strict, flexible, correct, correct_flexible, score):
    record = judged(row(), completion)
    assert (record["parsed"], record["parsed_flexible"]) == (strict, flexible)
    assert (record["correct"], record["correct_flexible"]) == (correct, correct_flexible)
    assert record["score"] == pytest.approx(score)
    assert record["completion"] == completion
    assert record["chance"] == pytest.approx(1 / 3)
    assert bool(record["reason"]) is (strict == "")


@pytest.mark.parametrize(
    ("asked", "completion", "accuracy", "correct"),
    [
        (row("yes", None, "yes_no"), "<answer>Yes</answer>", 1.0, True),
        (row(40.0, None, "number", unit="m"), "<answer>42 m</answer>", 1.0, True),
        (row(40.0, None, "number", unit="m"), "<answer>60 m</answer>", 0.0, False),
        (row([0, 0, 10, 10], None, "box"), "<answer>[0, 0, 10, 8]</answer>", 0.8, True),
        (row([0, 0, 10, 10], None, "box"), "<answer>[0, 0, 10, 4]</answer>", 0.4, False),
    ],
)
def test_other_answer_types(asked, completion, accuracy, correct):
    record = judged(asked, completion)
    assert record["accuracy"] == pytest.approx(accuracy)
    assert record["correct"] is correct


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (row(options=("a", "b")), 0.5),
        (row(options=("a", "b", "c", "d")), 0.25),
        (row("no", None, "yes_no"), 0.5),
        (row(3.0, None, "number"), 0.0),
    ],
)
def test_chance(asked, expected):
    assert chance(asked) == expected


def test_scores_of_a_small_set_counted_by_hand():
    given = [("B", "B"), ("B", "B"), ("A", "B"), ("A", "A"), ("C", "loose"), ("B", "")]
    texts = {"loose": "the answer is C", "": "no idea"}
    records = [
        judged(
            row(gold, name=f"q{i}", group=f"cvusa/{i // 2}"),
            texts.get(said, f"<answer>{said}</answer>"),
            truncated=said == "",
        )
        for i, (gold, said) in enumerate(given)
    ]
    found = summarise(records)
    overall = found["overall"]
    expected = {
        "n": 6,
        "groups": 3,
        "accuracy": 3 / 6,
        "accuracy_flexible": 4 / 6,
        "chance": 1 / 3,
        "majority": 3 / 6,
        "majority_by_category": 3 / 6,
        "majority_answer": "B",
        "unparsed": 2 / 6,
        "unparsed_flexible": 1 / 6,
        "truncated": 1 / 6,
        "format": 4 / 6,
        "score": (3 + 0.1) / 6,
        "mean_tokens": 7,
    }
    assert {key: overall[key] for key in expected} == pytest.approx(expected)
    assert overall["letters"] == {"A": 1, "B": 3, "none": 2}
    assert overall["gold"] == {"A": 2, "B": 3, "C": 1}
    groups = [record["group"] for record in records]
    assert (overall["low"], overall["high"]) == bootstrap_ci([1, 1, 0, 1, 0, 0], groups)
    assert overall["low_flexible"] <= overall["accuracy_flexible"] <= overall["high_flexible"]
    [cell] = found["cells"]
    assert (cell["subset"], cell["task"], cell["category"]) == ("cvusa", "g2s", "roof_form")


def test_the_blind_baseline_knows_the_category():
    records = [judged(row(gold, name=f"a{i}"), "") for i, gold in enumerate("AAAB")]
    others = [judged(row(gold, name=f"b{i}"), "") | {"category": "location"} for i, gold in enumerate("BBBC")]
    overall = summarise([*records, *others])["overall"]
    assert overall["majority"] == 0.5  # B, four of eight
    assert overall["majority_by_category"] == 0.75
