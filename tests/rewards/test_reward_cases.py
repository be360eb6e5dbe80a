"""The policy as tables: every file in `cases/` is read row by row; its last column says why a row is there.

In the tables ``⏎`` stands for a line break, and options read ``A=red chair|B=left table``.
"""

import csv
from pathlib import Path

import pytest

from rewards import compute_score, parse_answer, score_batch

CASES = Path(__file__).parent / "cases"
OPTIONS = {"A": "red chair", "B": "left table", "C": "lamp", "D": "sofa"}


def table(name):
    with (CASES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        pytest.param(row, id=f"{line}: {row['why']}: {row.get('answer', row.get('completion'))[:40]}")
        for line, row in enumerate(rows, 2)
    ]


def size(text):
    return [int(side) for side in text.split("x")] if text else None


def offered(text):
    return dict(option.partition("=")[::2] for option in text.split("|")) if text else None


def score(row, extra_info):
    completion = f"<answer>{row['answer']}</answer>".replace("⏎", "\n")
    result = compute_score("table", completion, row["gold"], extra_info)
    assert result["parsed"].isascii()
    assert (result["parsed"] == "") == (row["reason"] != "")
    assert result["format"] == (row["reason"] == "")
    assert result["score"] == pytest.approx(0.9 * result["accuracy"] + 0.1 * result["format"])
    return result["accuracy"], result["reason"], result["out_of_range"]


@pytest.mark.parametrize("row", table("choice"))
def test_choice(row):
    extra_info = {"answer_type": "choice", "options": offered(row["options"])}
    assert score(row, extra_info) == (float(row["accuracy"]), row["reason"], 0)


@pytest.mark.parametrize("row", table("yes_no"))
def test_yes_no(row):
    assert score(row, {"answer_type": "yes_no"}) == (float(row["accuracy"]), row["reason"], 0)


@pytest.mark.parametrize("row", table("number"))
def test_number(row):
    extra_info = {"answer_type": "number", "unit": row["unit"]}
    assert score(row, extra_info) == (float(row["accuracy"]), row["reason"], 0)


@pytest.mark.parametrize("row", table("box"))
def test_box(row):
    extra_info = {
        "answer_type": "box",
        "coordinates": row["coordinates"] or None,
        "image_size": size(row["image_size"]),
        "resized_size": size(row["resized_size"]),
    }
    accuracy, reason, out_of_range = score(row, extra_info)
    assert accuracy == pytest.approx(float(row["accuracy"]), abs=1e-9)
    assert (reason, out_of_range) == (row["reason"], int(row["out_of_range"]))


@pytest.mark.parametrize("row", table("answer_block"))
def test_answer_block(row):
    completion = row["completion"].replace("⏎", "\n")
    strict = parse_answer(completion, options=OPTIONS)
    assert (strict.text, strict.reason) == (row["parsed"], row["reason"])
    assert parse_answer(completion, options=OPTIONS, mode="flexible").text == row["flexible"]
    [scored] = score_batch(
        [{"solution_str": completion, "ground_truth": "B", "extra_info": {"options": OPTIONS}}]
    )
    assert scored["accuracy"] == (row["parsed"] == "B")
    assert scored["accuracy_flexible"] == (row["flexible"] == "B")
    assert (scored["parsed"], scored["parsed_flexible"]) == (row["parsed"], row["flexible"])
