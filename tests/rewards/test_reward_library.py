"""What evaluation, the teacher and data preparation use: batches, readings, golds, metrics, shuffling."""

import doctest
from pathlib import Path

import pytest

import rewards
from rewards import (
    RESPONSE_FORMATS,
    combine,
    compute_score,
    iou,
    mean_relative_accuracy,
    parse_answer,
    render_answer,
    score_batch,
    shuffle_options,
    summarise,
    validate_gold,
)
from rewards.number import score_number
from rewards.question import read_question

OPTIONS = {"A": "Flat roof", "B": "Gabled roof", "C": "All of the above", "D": "Mixed form"}


def test_the_examples_of_the_readme_are_true():
    results = doctest.testfile(str(Path(rewards.__file__).with_name("README.md")), module_relative=False)
    assert (results.attempted, results.failed) == (4, 0)


def test_headings_are_those_of_the_paper():
    assert {name: layout.headings for name, layout in RESPONSE_FORMATS.items()} == {
        "answer_only": (),
        "imagination_cot": (
            "Step 1: Observations",
            "Step 2: Cross-view mapping intention",
            "Step 3: Projection / imagination",
            "Step 4: Final reasoning",
        ),
        "structured_cot": ("Overview", "Key Objects", "Spatial Reasoning"),
        "think_answer": (),
    }
    assert [name for name, layout in RESPONSE_FORMATS.items() if layout.thinks] == ["think_answer"]


def test_a_batch_reports_strict_and_flexible_side_by_side():
    number = {"answer_type": "number", "unit": "m"}
    rows = [
        {"solution_str": "<answer>B</answer>", "ground_truth": "B"},
        {"solution_str": "The answer is B.", "ground_truth": "B", "extra_info": None},
        {"solution_str": "<answer>A</answer><answer>C</answer>", "ground_truth": "B", "data_source": "x"},
        {"solution_str": "no idea", "ground_truth": "B", "extra_info": {}},
        {"solution_str": "It is 250 cm, so the answer is 2.6 m", "ground_truth": 2.5, "extra_info": number},
        {"solution_str": b"2.5", "ground_truth": 2.5, "extra_info": number},
        {"solution_str": "<answer>2.5</answer>", "ground_truth": "much", "extra_info": number},
        {"solution_str": "Answer: 2.5", "ground_truth": "much", "extra_info": number},
    ]
    results = score_batch(rows)
    columns = ("accuracy", "parsed", "accuracy_flexible", "parsed_flexible", "reason")
    assert [tuple(result[column] for column in columns) for result in results] == [
        (1.0, "B", 1.0, "B", ""),
        (0.0, "", 1.0, "B", "no_answer"),
        (0.0, "", 0.0, "C", "several_answers"),
        (0.0, "", 0.0, "", "no_answer"),
        (0.0, "", 1.0, "2.6", "no_answer"),
        (0.0, "", 1.0, "2.5", "no_answer"),
        (0.0, "", 0.0, "", "malformed_row"),
        (0.0, "", 0.0, "", "malformed_row"),
    ]
    assert summarise(results) == {
        "accuracy": 1 / 8,
        "accuracy_flexible": 4 / 8,
        "format": 1 / 8,
        "unparsed": 7 / 8,
        "unparsed_flexible": 3 / 8,
        "malformed": 2 / 8,
    }


def test_a_batch_uses_its_options_in_both_readings():
    rows = [
        {"solution_str": text, "ground_truth": 10, "extra_info": {"answer_type": "number"}}
        for text in ("<answer>10.6</answer>", "Answer: 10.6")
    ]
    assert [r["accuracy_flexible"] for r in score_batch(rows)] == [1.0, 1.0]
    assert [r["accuracy_flexible"] for r in score_batch(rows, tolerance=0.05)] == [0.0, 0.0]
    box = {
        "solution_str": "[0, 0, 5, 10]",
        "ground_truth": [0, 0, 10, 10],
        "extra_info": {"answer_type": "box"},
    }
    assert score_batch([box])[0]["accuracy_flexible"] == 0.5
    assert score_batch([box], iou_threshold=0.5)[0]["accuracy_flexible"] == 1.0


def test_a_batch_refuses_wrong_options_even_without_rows():
    with pytest.raises(ValueError, match="tolerance"):
        score_batch([], tolerance=2)
    with pytest.raises(TypeError, match="tolerence"):
        score_batch([], tolerence=0.05)
    assert score_batch([]) == []


def test_the_summary_of_one_is_itself_and_of_nothing_zero():
    [right] = score_batch([{"solution_str": "<answer>B</answer>", "ground_truth": "B"}])
    assert summarise([right])["accuracy"] == summarise([right, right])["accuracy"] == 1.0
    assert set(summarise([]).values()) == {0.0}


def test_the_canonical_spelling_is_what_a_table_shows():
    answers = {"choice": "(b)", "yes_no": "TRUE", "number": "250 cm", "box": "(1, 2), (3, 4.5)"}
    golds = {"choice": "B", "yes_no": "yes", "number": 2.5, "box": [1, 2, 3, 4.5]}
    parsed = {
        name: compute_score(
            "x", f"<answer>{answer}</answer>", golds[name], {"answer_type": name, "unit": "m"}
        )
        for name, answer in answers.items()
    }
    assert {name: result["parsed"] for name, result in parsed.items()} == {
        "choice": "B",
        "yes_no": "yes",
        "number": "2.5",
        "box": "[1, 2, 3, 4.5]",
    }


def test_combine_gates_only_when_asked():
    assert combine(0.0, 1.0) == 0.1
    assert combine(0.0, 1.0, gate_format=True) == 0.0


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("zero", 0),
        ("nineteen", 19),
        ("ninety-nine", 99),
        ("a hundred", 100),
        ("three hundred and five", 305),
        ("two hundred twenty-five", 225),
        ("twelve hundred", 1200),
        ("one thousand two hundred", 1200),
        ("two thousand and one", 2001),
        ("a thousand and a half", 1000.5),
        ("two hundred thousand", 200_000),
        ("two million three hundred thousand and four", 2_300_004),
        ("one billion two million", 1_002_000_000),
        ("a dozen", 12),
        ("two dozen and five", 29),
        ("two dozen thousand", 24_000),
        ("half", 0.5),
        ("half a", 0.5),
        ("one half", 0.5),
        ("zero point zero two five", 0.025),
        ("one hundred point five", 100.5),
        ("negative two and a half", -2.5),
        ("3 million", 3_000_000),
        ("2.5 thousand", 2500),
        ("1.5 dozen", 18),
    ],
)
def test_number_words(words, value):
    assert parse_answer(f"<answer>{words}</answer>", "number").value == value


@pytest.mark.parametrize(
    ("value", "answer_type", "about", "text"),
    [
        ("B", "choice", {}, "<answer>B</answer>"),
        ("Z", "choice", {"options": {"A": "x", "Z": "y"}}, "<answer>Z</answer>"),
        ("Gabled roof", "choice", {"options": OPTIONS}, "<answer>B</answer>"),
        (True, "yes_no", {}, "<answer>yes</answer>"),
        ("No", "yes_no", {}, "<answer>no</answer>"),
        (3.0, "number", {}, "<answer>3</answer>"),
        (-2.5, "number", {"unit": "meters"}, "<answer>-2.5 m</answer>"),
        (1e15, "number", {}, "<answer>1000000000000000.0</answer>"),
        (1e15 - 1, "number", {}, "<answer>999999999999999</answer>"),
        ([10, 20.5, 110, 220], "box", {}, "<answer>[10, 20.5, 110, 220]</answer>"),
        ([110, 220, 10, 20], "box", {}, "<answer>[10, 20, 110, 220]</answer>"),
        (
            [10, 20, 110, 220],
            "box",
            {"coordinates": "resized_pixel", "image_size": [200, 400], "resized_size": [100, 100]},
            "<answer>[5, 5, 55, 55]</answer>",
        ),
        (
            [10, 20, 110, 221],
            "box",
            {"coordinates": "norm1000", "image_size": [200, 400]},
            "<answer>[50, 50, 550, 552]</answer>",
        ),
        (
            [10, 20, 110, 221],
            "box",
            {"coordinates": "norm1", "image_size": [300, 400]},
            "<answer>[0.0333, 0.05, 0.3667, 0.5525]</answer>",
        ),
    ],
)
def test_render_answer(value, answer_type, about, text):
    assert render_answer(value, answer_type, **about) == text
    if answer_type == "choice":
        assert render_answer(value, **about) == text


def test_parse_answer_gives_values_in_the_questions_terms():
    assert parse_answer("<answer>5 ft</answer>", "number", unit="m").value == pytest.approx(1.524)
    about = {"coordinates": "norm1000", "image_size": [200, 400]}
    assert parse_answer("<answer>[50, 50, 550, 550]</answer>", "box", **about).value == (10, 20, 110, 220)
    assert parse_answer("<answer>B</answer>").value == "B"
    assert parse_answer("").reason == "no_answer"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: read_question("row"), ValueError, "^extra_info must be a mapping, got str$"),
        (
            lambda: read_question({"options": {"B": ["x"]}}),
            ValueError,
            "^options must map single capital letters to texts$",
        ),
        (
            lambda: parse_answer("", mode="loose"),
            ValueError,
            "mode must be one of strict, flexible, got 'loose'",
        ),
        (lambda: parse_answer("", "essay"), ValueError, "answer_type must be one of choice, .* got 'essay'"),
        (
            lambda: parse_answer("", "number", units="m"),
            TypeError,
            "unknown keyword units; take any of answer_type, ",
        ),
        (lambda: render_answer("x", "number"), ValueError, r"gold 'x' is no number answer \(unreadable\)"),
        (lambda: validate_gold("E"), ValueError, r"gold 'E' is no choice answer \(not_offered\)"),
        (lambda: validate_gold("E", options={"A": "x"}), ValueError, "not_offered"),
        (lambda: validate_gold(None), ValueError, "gold of type NoneType is no finite choice answer"),
        (
            lambda: validate_gold(float("nan"), "number"),
            ValueError,
            "gold of type float is no finite number answer",
        ),
        (lambda: validate_gold("3 s", "number", unit="m"), ValueError, "wrong_dimension"),
        (lambda: validate_gold(3, "number", unit="x"), ValueError, "unit must be one of m, cm, .* got 'x'"),
        (
            lambda: validate_gold([0, 0, 1], "box"),
            ValueError,
            r"^gold of a box question must be \[x_min, .* y_max\] with an area, in original pixels$",
        ),
        (
            lambda: validate_gold([0, 0, 1, 1], "box", coordinates="norm1"),
            ValueError,
            r"^coordinates=norm1 needs image_size \[width, height\]$",
        ),
        (
            lambda: validate_gold([0, 0, 1, 1], "box", coordinates="resized_pixel", image_size=[1, 1]),
            ValueError,
            r"^coordinates=resized_pixel needs resized_size \[width, height\]$",
        ),
        (
            lambda: validate_gold([0, 0, 1, 1], "box", image_size=[1]),
            ValueError,
            r"image_size must be \[width, height\]",
        ),
        (
            lambda: validate_gold("A", options=["x"]),
            ValueError,
            "options must map letters to texts, got list",
        ),
        (
            lambda: validate_gold("A", options={"AA": "x"}),
            ValueError,
            "^options must map single capital letters to texts$",
        ),
        (
            lambda: validate_gold("A", options={"A": None}),
            ValueError,
            "^options must offer at least one letter$",
        ),
        (
            lambda: shuffle_options({"A": "x", "C": "y"}, "B", "row7", 0),
            ValueError,
            "row row7: answer 'B' is none of the options A, C$",
        ),
    ],
)
def test_errors_name_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_good_golds_pass():
    validate_gold("B", options=OPTIONS, response_format="imagination_cot")
    validate_gold("yes", "yes_no")
    validate_gold("250 cm", "number", unit="m")
    validate_gold([0, 0, 1, 1], "box", coordinates="norm1000", image_size=[4, 4])


@pytest.mark.parametrize(
    ("value", "gold", "expected"),
    [
        (10, 10, 1.0),
        (10.4, 10, 1.0),
        (10.5, 10, 0.9),
        (9.5, 10, 0.9),
        (11, 10, 0.8),
        (12, 10, 0.6),
        (14.9, 10, 0.1),
        (15, 10, 0.0),
        (-10, 10, 0.0),
        (-11, -10, 0.8),
        (0, 0, 1.0),
        (0.001, 0, 0.0),
        (0, 10, 0.0),
        (float("nan"), 10, 0.0),
        (10, float("inf"), 0.0),
    ],
)
def test_mean_relative_accuracy(value, gold, expected):
    assert mean_relative_accuracy(value, gold) == pytest.approx(expected)


def test_mean_relative_accuracy_over_other_thresholds():
    assert mean_relative_accuracy(12, 10, thresholds=(0.5, 0.7, 0.8, 0.9)) == 0.5


def test_a_number_is_right_within_a_tenth_by_default():
    assert [score_number(value, -10.0) for value in (-11.0, -9.0, -11.01, -8.99, 10.0)] == [1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 0, 2, 2), (0, 0, 2, 2), 1.0),
        ((0, 0, 2, 2), (1, 1, 3, 3), 1 / 7),
        ((0, 0, 2, 2), (2, 0, 4, 2), 0.0),
        ((0, 0, 2, 2), (0, 2, 2, 4), 0.0),
        ((0, 0, 4, 4), (1, 1, 3, 3), 0.25),
        ((0, 0, 0.5, 0.5), (0, 0, 0.25, 0.5), 0.5),
        ((0, 0, 1e-200, 1e-200), (0, 0, 1e-200, 1e-200), 0.0),
        ((0, 0, 1e200, 1e200), (0, 0, 1e200, 1e200), 0.0),
    ],
)
def test_iou(a, b, expected):
    assert iou(a, b) == pytest.approx(expected)


def test_shuffling_differs_by_row_and_seed_and_is_fixed_for_both():
    options = {letter: f"text {letter}." for letter in "ABCD"}
    orders = {tuple(shuffle_options(options, "A", f"row{i}", 0)[2].values()) for i in range(200)}
    assert len(orders) == 24
    assert len({tuple(shuffle_options(options, "A", "row", seed)[2].values()) for seed in range(200)}) == 24
    assert shuffle_options(options, "A", "row0", 0) == (
        {"A": "text B.", "B": "text C.", "C": "text A.", "D": "text D."},
        "C",
        {"A": "B", "B": "C", "C": "A", "D": "D"},
    )


@pytest.mark.parametrize(
    "pinned",
    ["All of the above", "none of these", "Neither of the options", "Both of those.", "any of the others"],
)
def test_an_option_about_the_others_keeps_its_place(pinned):
    options = {"A": "x", "B": "y", "C": pinned, "D": "z"}
    permutations = [shuffle_options(options, "C", str(i), 0) for i in range(50)]
    assert {answer for _, answer, _ in permutations} == {"C"}
    assert {tuple(new.values()) for new, _, _ in permutations} == {
        (a, b, pinned, c) for a, b, c in ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx")
    }


@pytest.mark.parametrize("text", ["B", "Both A and C", "options A, B", "Neither A nor B.", "choice C"])
def test_options_that_are_letters_are_left_alone(text):
    options = {"A": "x", "B": "y", "C": text, "D": "z"}
    for i in range(20):
        assert shuffle_options(options, "B", str(i), 0) == (
            options,
            "B",
            dict(zip("ABCD", "ABCD", strict=True)),
        )


@pytest.mark.parametrize("text", ["Building B", "Above the chair", "A house", "All chairs", "both"])
def test_other_options_move(text):
    options = {"A": "x", "B": "y", "C": text, "D": "z"}
    assert len({shuffle_options(options, "C", str(i), 0)[1] for i in range(50)}) == 4


def test_shuffling_drops_labels_that_would_be_wrong():
    options = {"A": "A) x", "B": "B. y", "C": "(C) z"}
    for i in range(10):
        assert set(shuffle_options(options, "A", str(i), 0)[0].values()) == {"x", "y", "z"}
