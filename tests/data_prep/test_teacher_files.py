"""Teacher reasoning: files that are read or refused, texts that are kept or set aside."""

from dataclasses import replace
from pathlib import Path

import pytest
from miniature import put_lines, reasoning
from omegaconf import OmegaConf

from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.rows import Row
from data_prep.teacher.files import Taught, fault, read_reasoning, read_taught, reasoning_path
from rewards import RESPONSE_FORMATS

ROW = Row(
    id="r", benchmark="cvsbench", subset="fov", task="g2s", category="facade", group="fov/0001", images=(),
    question="?", options={"A": "Visible in Satellite", "B": "Not visible in Satellite"}, answer="B",
)  # fmt: skip
GOOD = reasoning("B")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD, None),
        (reasoning("B) Not visible in Satellite"), None),
        (None, "no reasoning"),
        ("", "no answer"),
        (reasoning("A"), "answers A, the row's answer is B"),
        (reasoning("D"), "no answer that can be read"),
        (GOOD.replace("</answer>", ""), "no answer"),
        (GOOD + "\n<answer> B </answer>", "no answer"),
        (GOOD.replace("Step 2", "Part 2"), "laid out"),
        (GOOD + "\nThat is it.", "laid out"),
        (reasoning("B", words="It must be B because it is."), "names the option"),
        (reasoning("B", words="word " * 170), None),
        (reasoning("B", words="word " * 200), "words, more than 200"),
    ],
)
def test_what_may_teach(text, reason):
    found = fault(ROW, text, "imagination_cot")
    assert found is None if reason is None else found is not None and reason in found


def test_each_format_has_its_own_sections():
    headings = RESPONSE_FORMATS["structured_cot"].headings
    text = "".join(f"{heading}\nA house ahead.\n" for heading in headings) + "<answer> B </answer>"
    assert fault(ROW, text, "structured_cot") is None
    assert fault(ROW, text, "imagination_cot") is not None


@pytest.mark.parametrize(
    ("answer", "answer_type", "unit", "options"),
    [("B", "choice", None, ROW.options), ("no", "yes_no", None, None), (2.5, "number", "m", None)],
)
def test_the_answer_alone_teaches_where_no_reasoning_is_asked(answer, answer_type, unit, options):
    row = replace(ROW, answer=answer, answer_type=answer_type, unit=unit, options=options)
    taught = read_taught(
        OmegaConf.create({"kind": "answer", "path": None}), DataRoot(Path(".")), "answer_only"
    )
    assert fault(row, taught.text(row), "answer_only") is None
    assert "laid out" in fault(row, taught.text(row), "imagination_cot")
    assert Taught({"r": GOOD}, {}, {}).text(row) == GOOD
    assert Taught({}, {}, {}).text(row) is None


def test_reasoning_by_id(tmp_path):
    path = tmp_path / "r.jsonl"
    put_lines(path, {"id": "a", "reasoning": "x"}, "", {"id": "b", "reasoning": "ü", "model": "any"})
    assert read_reasoning(path) == {"a": "x", "b": "ü"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not"),
        ("[]", "line 2 is not"),
        ('{"id": "b"}', "line 2 is not"),
        ('{"id": 1, "reasoning": "x"}', "line 2: id and reasoning must be texts"),
        ('{"id": "a", "reasoning": "y"}', "line 2: 'a' comes a second time"),
        (b'{"id": "\xff", "reasoning": "y"}', "line 2 is not"),
    ],
)
def test_broken_files_are_named_with_the_line(tmp_path, line, message):
    path = tmp_path / "r.jsonl"
    put_lines(path, {"id": "a", "reasoning": "x"}, line)
    with pytest.raises(UserError, match=message) as error:
        read_reasoning(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("kind", "path"), [("file", None), ("file", "absent.jsonl"), ("oracle", None), ("magic", "x")]
)
def test_a_teacher_without_a_file_is_told_how_to_name_one(tmp_path, kind, path):
    with pytest.raises(UserError, match="teacher"):
        reasoning_path(kind, path, tmp_path, "imagination_cot")


def test_where_the_two_teachers_lie(tmp_path):
    put_lines(tmp_path / "teacher/structured_cot.jsonl")
    put_lines(tmp_path / "mine.jsonl")
    assert reasoning_path("oracle", None, tmp_path, "structured_cot").parent == tmp_path / "teacher"
    assert reasoning_path("file", str(tmp_path / "mine.jsonl"), tmp_path, "x").name == "mine.jsonl"
