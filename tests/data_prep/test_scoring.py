"""Letters dealt anew and golds that can be scored: alone, and through the whole of prep."""

from collections import Counter

import pytest
from miniature import put_cvusa, put_lines, reasoning
from prep_runs import open_release
from pyarrow import parquet

from data_prep.atomic import read_jsonl
from data_prep.prompts import load_prompt, prompt_text
from data_prep.rows import ImageRef, Row
from data_prep.scoring import box_fault, deal_letters, frame, gold_fault
from recipes import prep, prep_rows
from rewards import compute_score, parse_answer

TEXTS = {"A": "centre", "B": "left", "C": "right", "D": "far edge"}


def row(**fields) -> Row:
    asked = {
        "id": "cvsbench/cvusa/s2g/1.NA.q0", "benchmark": "cvsbench", "subset": "cvusa", "task": "s2g",
        "category": "location", "group": "cvusa/1", "images": (), "question": "Where?", "options": TEXTS,
        "answer": "C",
    }  # fmt: skip
    return Row(**{**asked, **fields})


def test_the_right_text_stays_right():
    dealt = [deal_letters(row(id=f"row{number}", reasoning=reasoning("C")), 0) for number in range(200)]
    for one in dealt:
        assert one.options is not None
        assert sorted(one.options.values()) == sorted(TEXTS.values())
        assert one.options[one.answer] == "right"
        assert one.reasoning is not None
        assert parse_answer(one.reasoning, options=one.options).value == one.answer
        assert {letter: TEXTS[old] for letter, old in one.meta["dealt"].items()} == one.options
        assert one.reasoning.rpartition("<answer>")[0] == reasoning("C").rpartition("<answer>")[0]
    counts = Counter(one.answer for one in dealt)
    assert counts.keys() == TEXTS.keys()
    assert min(counts.values()) > 30


def test_the_deal_depends_on_row_and_seed_alone():
    again = [deal_letters(row(question="Other words?"), 0).options, deal_letters(row(), 0).options]
    assert again[0] == again[1]
    assert len({str(deal_letters(row(), seed).options) for seed in range(20)}) > 5


@pytest.mark.parametrize(
    "kept",
    [
        row(answer_type="number", options=None, answer=3.0),
        row(answer_type="yes_no", options=None, answer="yes"),
    ],
)
def test_rows_without_options_stay_as_they_are(kept):
    assert deal_letters(kept, 0) == kept


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"answer": "E"}, "no choice answer"),
        ({"answer": None}, "no finite choice answer"),
        ({"answer_type": "number", "options": None, "answer": float("nan")}, "number"),
        ({"answer_type": "number", "options": None, "answer": 3.0, "unit": "furlong"}, "unit must be one of"),
        ({"answer_type": "box", "options": None, "answer": [1, 2, 1, 4]}, "with an area"),
        ({"answer_type": "yes_no", "options": None, "answer": "perhaps"}, "no yes_no answer"),
    ],
)
def test_golds_that_the_reward_cannot_score(fields, words):
    fault = gold_fault(row(**fields))
    assert fault is not None
    assert words in fault


def test_sound_golds():
    for sound in (
        row(),
        row(answer_type="number", options=None, answer=2.5, unit="m"),
        row(answer_type="box", options=None, answer=[1, 2, 3, 4]),
        row(answer_type="yes_no", options=None, answer="no"),
    ):
        assert gold_fault(sound) is None


def test_prep_sets_a_gold_aside_that_cannot_be_scored(tmp_path, monkeypatch):
    put_cvusa(tmp_path / "release", train=16, test=4)
    monkeypatch.setattr(
        prep_rows, "gold_fault", lambda row: "the answer cannot be scored" if row.answer == "B" else None
    )
    run = open_release(tmp_path / "runs", tmp_path / "release")
    prep.run(run)
    aside = list(read_jsonl(run.path / "quarantine.jsonl"))
    assert {item["reason"] for item in aside} == {"the answer cannot be scored"}
    assert {item["kind"] for item in aside} == {"row"}
    assert all(item["id"].endswith(".q1") for item in aside)
    assert len(aside) == 20


def test_every_stage_sees_the_same_letters(tmp_path):
    """The sets of prep with and without dealing: same questions, same right texts, other letters."""
    root = tmp_path / "release"
    put_cvusa(root, train=24, test=6)
    sets = {}
    for dealt in (False, True):
        run = open_release(tmp_path / "runs", root, f"data.shuffle_options={str(dealt).lower()}")
        prep.run(run)
        sets[dealt] = {
            name: {r["id"]: Row.from_json(r) for r in read_jsonl(run.path / f"rows/{name}.jsonl")}
            for name in ("sft", "rl", "test")
        }
    prompt = load_prompt(run.config.prompt)
    moved = 0
    for name, rows in sets[True].items():
        assert rows.keys() == sets[False][name].keys()
        for row_id, one in rows.items():
            before = sets[False][name][row_id]
            assert one.options[one.answer] == before.options[before.answer]
            moved += one.answer != before.answer
            for letter, text in one.options.items():
                assert f"\n{letter}) {text}" in prompt_text(one, prompt)
            if name == "sft":
                info = {"options": one.options, "response_format": prompt.format}
                assert compute_score("any", one.reasoning, one.answer, info)["score"] == 1.0
    assert moved > 20
    for record in parquet.read_table(run.path / "rl.parquet").to_pylist():
        one = sets[True]["rl"][record["extra_info"]["id"]]
        offered = {k: v for k, v in record["extra_info"]["options"].items() if v is not None}
        assert record["reward_model"]["ground_truth"] == one.answer
        assert offered == one.options
        assert record["prompt"][0]["content"].endswith(prompt_text(one, prompt))


def test_reasoning_is_checked_against_the_released_letters(tmp_path):
    """A teacher that answers the letter which dealing makes right is still wrong."""
    root = tmp_path / "release"
    put_cvusa(root, train=12, test=2, teach=False)
    taught = [
        {"id": f"cvsbench/cvusa/{task}/{number:07d}.NA.q{index}", "reasoning": reasoning(letter)}
        for number in range(1, 13)
        for task, index, letter in (("g2s", 0, "A"), ("g2s", 1, "B"), ("s2g", 0, "D"))
    ]
    put_lines(root / "reasoning.jsonl", *taught)
    run = open_release(tmp_path / "runs", root, "data.shuffle_options=true")
    prep.run(run)
    aside = list(read_jsonl(run.path / "quarantine.jsonl"))
    assert aside
    assert all("the reasoning answers D, the row's answer is C" in item["reason"] for item in aside)
    kept = [Row.from_json(r) for r in read_jsonl(run.path / "rows/sft.jsonl")]
    assert kept
    assert {one.task for one in kept} == {"g2s"}


def box_row(answer, width=100):
    images = (ImageRef("a", "marked", "", 7, 7), ImageRef("b", "satellite", "", width, 50))
    return row(options=None, answer=answer, answer_type="box", images=images)


@pytest.mark.parametrize(
    ("answer", "off"),
    [
        ([10, 10, 20, 20], False),
        ([-5, -5, 5, 5], False),
        ([90, 40, 130, 70], False),
        ([100, 10, 120, 20], True),
        ([10, 50, 20, 60], True),
        ([-20, 10, 0, 20], True),
        ([10, -20, 20, -1], True),
    ],
)
def test_a_box_off_its_picture_is_a_fault_and_one_over_the_edge_is_none(answer, off):
    assert ("off its picture of 100 x 50" in (box_fault(box_row(answer)) or "")) is off
    assert box_fault(box_row(answer, width=0)) is None


def test_the_frame_of_a_box_is_the_last_picture_and_other_rows_have_none():
    assert frame(box_row([1, 2, 3, 4])) == {"coordinates": "pixel", "image_size": [100, 50]}
    assert frame(row()) == {"coordinates": None, "image_size": None}
