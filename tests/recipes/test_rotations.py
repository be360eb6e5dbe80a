import pytest
from evaluation_runs import finish_eval, make_eval, make_prep, make_rows

from data_prep.errors import UserError
from data_prep.scoring import movable_letters, rotate_options
from recipes.rotations import across_rotations, main, read_passes
from recipes.scores import predict


@pytest.fixture
def rows(tmp_path):
    return make_rows(tmp_path / "images", 20)


def passes(rows, policy, rotations=(0, 1, 2)):
    """Predictions of a policy (row -> letter) in every pass."""
    turned = {k: [rotate_options(row, k) for row in rows] for k in rotations}
    return {
        k: [predict(row, f"<answer>{policy(row)}</answer>", 1, False, "answer_only", {}) for row in asked]
        for k, asked in turned.items()
    }


def with_options(row, texts, answer):
    return type(row)(**{**vars(row), "options": dict(zip("ABCD", texts, strict=False)), "answer": answer})


@pytest.mark.parametrize(
    ("texts", "answer", "places", "expected", "letter"),
    [
        (("one", "two", "three"), "A", 1, ("three", "one", "two"), "B"),
        (("one", "two", "three"), "C", 1, ("three", "one", "two"), "A"),
        (("one", "two", "three"), "A", 2, ("two", "three", "one"), "C"),
        (("one", "two", "three"), "B", 3, ("one", "two", "three"), "B"),
        (("one", "two"), "A", 1, ("two", "one"), "B"),
        (("one", "two"), "A", 2, ("one", "two"), "A"),
        (("one", "two", "none of the above"), "A", 1, ("two", "one", "none of the above"), "B"),
        (("A", "B", "C", "D"), "C", 1, ("A", "B", "C", "D"), "C"),  # names of panels
    ],
)
def test_texts_move_and_letters_stay(rows, texts, answer, places, expected, letter):
    asked = with_options(rows[0], texts, answer)
    turned = rotate_options(asked, places)
    assert tuple(turned.options.values()) == expected
    assert list(turned.options) == list(asked.options)
    assert turned.answer == letter
    assert turned.options[turned.answer] == asked.options[answer]
    for now, before in turned.meta.get("rotated", {}).items():
        assert turned.options[now] == asked.options[before]


def test_a_row_without_options_stays(rows):
    box = type(rows[0])(**{**vars(rows[0]), "options": None, "answer": [0, 0, 1, 1], "answer_type": "box"})
    assert rotate_options(box, 1) is box
    assert movable_letters(rows[0]) == ["A", "B", "C"]


def test_a_model_that_reads_the_options_loses_nothing(rows):
    found = across_rotations(passes(rows, lambda row: row.answer))
    assert [p["accuracy"] for p in found["passes"]] == [1.0, 1.0, 1.0]
    assert (found["in_all"], found["in_any"], found["mean"]) == (1.0, 1.0, 1.0)


def test_a_model_that_prefers_a_letter_is_right_in_no_row_always(rows):
    asked = [row for row in rows if len(row.options) == 3]
    found = across_rotations(passes(asked, lambda row: "A"))
    assert found["in_all"] == 0.0
    assert found["in_any"] == 1.0  # each of three letters is the right one once
    assert found["mean"] == pytest.approx(1 / 3)
    assert found["rows"] == len(asked)
    first, second, _ = found["passes"]
    share = sum(row.answer == "A" for row in asked) / len(asked)
    assert first["accuracy"] == pytest.approx(share)
    assert second["difference"] == pytest.approx(second["accuracy"] - first["accuracy"])
    assert first["letter_distance"] == pytest.approx(1 - share)


def test_passes_of_other_rows_are_refused(rows):
    asked = passes(rows, lambda row: "A")
    with pytest.raises(ValueError, match="two passes"):
        across_rotations({0: asked[0]})
    with pytest.raises(ValueError, match="same rows"):
        across_rotations({0: asked[0], 1: asked[1][1:]})


def test_from_run_directories(tmp_path, capsys):
    prep = make_prep(tmp_path / "prep", groups=4)
    runs = [
        finish_eval(make_eval(tmp_path / f"eval-{k}", prep, "base", f"eval.rotate_options={k}"), 0.5).path
        for k in (0, 1)
    ]
    assert list(read_passes(runs)) == [0, 1]
    assert main([*map(str, runs), "--json", str(tmp_path / "out.json")]) == 0
    assert "right in all" in capsys.readouterr().out
    assert (tmp_path / "out.json").exists()
    other = make_eval(tmp_path / "other", prep, "base", "eval.rotate_options=2", "eval.blank=true")
    with pytest.raises(UserError, match="other is not finished"):
        read_passes([*runs, other.path])
    with pytest.raises(UserError, match=r"rotate_options=1 is there twice"):
        read_passes([*runs, runs[1]])
    finish_eval(other, 0.5)
    with pytest.raises(UserError, match=r"differs from the others in more than eval\.rotate_options"):
        read_passes([*runs, other.path])
    assert main([str(runs[0]), str(other.path)]) == 2
