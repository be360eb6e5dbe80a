from data_prep.atomic import read_jsonl, write_jsonl
from recipes import attempts

FACTS = {"commit": "abc", "engine": "transformers 5", "seed": 0, "rows": 2, "date": "2026-01-01"}


def test_the_same_circumstances_are_kept_once_whatever_the_date(tmp_path):
    name = attempts.note(tmp_path, FACTS)
    assert attempts.note(tmp_path, {**FACTS, "date": "2026-01-02"}) == name
    other = attempts.note(tmp_path, {**FACTS, "commit": "def"})
    assert other != name
    assert list(read_jsonl(tmp_path / "attempts.jsonl")) == [
        {"run": name, **FACTS},
        {"run": other, **FACTS, "commit": "def"},
    ]


def test_every_row_is_joined_to_its_own_circumstances(tmp_path):
    names = [attempts.note(tmp_path, {**FACTS, "commit": commit}) for commit in ("abc", "def")]
    write_jsonl(tmp_path / "predictions.jsonl", ({"id": f"q{i}", "run": names[i]} for i in range(2)))
    assert [(r["id"], r["run"]["commit"]) for r in attempts.results(tmp_path)] == [
        ("q0", "abc"),
        ("q1", "def"),
    ]


def test_a_run_that_answered_nothing_has_none(tmp_path):
    assert attempts.read(tmp_path) == {}
