"""The eight prompts of the teacher: they differ, hold the rules, show what they may, and are our own
words."""

from itertools import product
from pathlib import Path

import pytest

from data_prep.errors import UserError
from data_prep.rows import ImageRef, Row
from data_prep.teacher.prompts import TeacherPrompt, load_teacher_prompt
from rewards import RESPONSE_FORMATS

FORMATS = ("imagination_cot", "structured_cot")
ALL = list(product(FORMATS, ("g2s", "s2g"), ("cvusa", "fov")))
PAPER = Path(__file__).parents[3] / "shared/papers/cvsbench.txt"
STORE, HIDDEN = Path("/store"), (Path("/hidden/0.png"), Path("/hidden/1.png"))


def row(task: str = "g2s", subset: str = "fov", pictures: int = 1) -> Row:
    role = "street" if task == "g2s" else "satellite"
    return Row(
        id="r", benchmark="cvsbench", subset=subset, task=task, category="roof", group="g",
        images=tuple(ImageRef(f"{n}.jpg", role, "", 640 + n, 480) for n in range(pictures)),
        question="What roof?", options={"A": "Flat roof", "B": "Pitched roof"}, answer="B",
    )  # fmt: skip


def system(response_format: str, task: str, subset: str) -> str:
    return TeacherPrompt(response_format, give_answer=True).request(row(task, subset), STORE, HIDDEN).system


def test_all_eight_differ():
    assert len({system(*which) for which in ALL}) == 8


@pytest.mark.parametrize(("response_format", "task", "subset"), ALL)
def test_each_holds_the_rules(response_format, task, subset):
    text = system(response_format, task, subset)
    places = [text.index(f"\n{heading}\n") for heading in RESPONSE_FORMATS[response_format].headings]
    assert places == sorted(places)
    assert text.endswith("<answer> X </answer>")
    for rule in ("200 words", "option's letter", "names of places, shops or brands", "uncertain", "withheld"):
        assert rule in text or (rule == "withheld" and "leave no trace" in text), rule
    assert ("bbox: [x1, y1, x2, y2]" in text) == (response_format == "structured_cot")
    assert ("arrow" in text) == ((task, subset) == ("s2g", "fov"))


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not here")
@pytest.mark.parametrize(("response_format", "task", "subset"), ALL)
def test_no_sentence_of_the_paper_is_copied(response_format, task, subset):
    """Eight words in a row; the headings are the format's own."""
    headings = RESPONSE_FORMATS[response_format].headings
    lines = [line for line in system(response_format, task, subset).split("\n") if line not in headings]
    paper = " ".join(PAPER.read_text(encoding="utf-8").lower().split())
    words = " ".join(lines).lower().split()
    assert not [run for i in range(len(words) - 7) if (run := " ".join(words[i : i + 8])) in paper]


@pytest.mark.parametrize(
    ("response_format", "pictures", "hidden", "sent"),
    [
        ("imagination_cot", 1, 1, ["/store/0.jpg", "/hidden/0.png"]),
        ("imagination_cot", 1, 0, ["/store/0.jpg"]),
        ("imagination_cot", 6, 1, [*(f"/store/{n}.jpg" for n in range(4)), "/hidden/0.png"]),
        ("structured_cot", 1, 2, ["/store/0.jpg"]),
        ("structured_cot", 6, 1, [f"/store/{n}.jpg" for n in range(4)]),
    ],
)
def test_imagination_shows_both_views_and_structured_one(response_format, pictures, hidden, sent):
    prompt = TeacherPrompt(response_format, give_answer=True)
    request = prompt.request(row(pictures=pictures), STORE, HIDDEN[:hidden])
    assert [str(path) for path in request.images] == sent
    assert ("of the hidden view" in request.text) == (len(sent) > min(pictures, 4))
    assert ("and after it" in request.system) == (len(sent) > min(pictures, 4))


def test_the_gold_is_given_or_kept():
    given, kept = (TeacherPrompt("structured_cot", give).request(row(), STORE).text for give in (True, False))
    assert "The right option is B." in given
    assert "right option" not in kept
    assert "A) Flat roof\nB) Pitched roof" in kept
    assert "Picture 1 is 640 pixels wide and 480 high." in kept


def test_a_retry_names_the_reasons_and_is_another_request():
    prompt = TeacherPrompt("imagination_cot", give_answer=True)
    first = prompt.request(row(), STORE)
    second = prompt.request(row(), STORE, attempt=1, reasons=["it has 240 words", "it names a letter"])
    assert (first.attempt, second.attempt) == (0, 1)
    assert "- it has 240 words\n- it names a letter" in second.text
    assert second.text.startswith(first.text)


def test_a_prompt_of_ones_own(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("Explain it.\n", encoding="utf-8")
    prompt = load_teacher_prompt("imagination_cot", True, str(file))
    assert prompt.request(row("view_arrow"), STORE).system == "Explain it."


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_a_prompt_file_that_is_none_is_told(tmp_path, content):
    file = tmp_path / "mine.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=r"teacher\.prompt_file"):
        load_teacher_prompt("imagination_cot", True, str(file))


@pytest.mark.parametrize(
    ("response_format", "task"), [("imagination_cot", "grounding"), ("think_answer", "g2s")]
)
def test_a_row_without_a_prompt_is_told(response_format, task):
    with pytest.raises(UserError, match=r"teacher\.prompt_file="):
        TeacherPrompt(response_format, give_answer=True).request(row(task), STORE)
