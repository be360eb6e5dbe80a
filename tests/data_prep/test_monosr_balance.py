"""What balance promises, counted on the rows that were written; and that all runs write the same files."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from monosr_scenes import random_scene

from data_prep.errors import UserError
from data_prep.monosr.balance import Cell, deviation, fill, plan
from data_prep.monosr.options import Options
from data_prep.monosr.produce import produce, rows_of

DOMAINS = ("indoor", "indoor", "indoor", "outdoor", "outdoor", "object_centric")
IMAGES = 360
OPTIONS = Options()


def read(start: int, stop: int):
    for number in range(start, stop):
        yield random_scene(number, DOMAINS[number % len(DOMAINS)]), None


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("balanced")
    report = produce(read, IMAGES, folder, OPTIONS, 0, chunk=60)
    return report, list(rows_of(folder)), folder


def counted(rows, key):
    found = defaultdict(Counter)
    for row in rows:
        where, what = key(row)
        found[where][what] += 1
    return found


def base(row):
    return row.meta.get("base", row.task)


def test_levels_have_their_shares(made):
    _, rows, _ = made
    levels = Counter(row.meta["level"] for row in rows)
    for level, share in (("low", 0.52), ("mid", 0.38), ("high", 0.10)):
        assert levels[level] / len(rows) == pytest.approx(share, abs=0.012)


def test_yes_and_no_are_equal_in_every_task_domain_and_relation(made):
    _, rows, _ = made
    yes_no = [row for row in rows if row.category == "yes_no"]
    for key in (
        lambda row: ((row.subset, row.task), row.answer),
        lambda row: ((row.subset, row.task, base(row), row.meta.get("relation")), row.answer),
    ):
        for where, said in counted(yes_no, key).items():
            assert said["yes"] == said["no"], where
    assert len(yes_no) > 500


def test_right_letters_are_uniform(made):
    _, rows, _ = made
    choices = [row for row in rows if row.answer_type == "choice"]
    for where, letters in counted(
        choices, lambda r: ((r.subset, r.task, base(r), r.category), r.answer)
    ).items():
        assert max(letters.values()) - min(letters[k] for k in "ABCD"[: int(where[-1][2])]) <= 1
    # and follow no pattern from row to row
    answers = [row.answer for row in choices if row.task == "sr"]
    assert max(Counter(pairwise(answers)).values()) < len(answers) / 8


def test_three_answers_are_equal(made):
    _, rows, _ = made
    seen = counted([r for r in rows if r.category == "mc3"], lambda r: (r.task, r.options[r.answer]))
    for found in seen.values():
        assert len(found) == 3
        assert len(set(found.values())) == 1


def test_relations_are_within_ten_percent(made):
    _, rows, _ = made
    for task in ("sr", "pr", "og", "dim"):
        asked = Counter(r.meta.get("relation") or r.meta["quantity"] for r in rows if r.task == task)
        assert deviation(asked.values()) <= 0.10, (task, asked)
        assert len(asked) == (6 if task in ("sr", "pr") else 4)


def test_formats_of_a_task_are_equal_in_every_domain(made):
    _, rows, _ = made
    for where, formats in counted(rows, lambda r: ((r.subset, r.task, base(r)), r.category)).items():
        assert len(set(formats.values())) == 1, where


def test_the_report_says_what_the_rows_hold(made):
    report, rows, folder = made
    assert report["rows"] == len(rows)
    assert report["candidates"] > len(rows)
    assert sum(report["domains"].values()) == sum(report["tasks"].values()) == len(rows)
    assert report["letters"]["indoor/sr/mc4"] == Counter(
        r.answer for r in rows if (r.subset, r.task, r.category) == ("indoor", "sr", "mc4")
    )
    assert set(report["yes_share"].values()) == {0.5}
    assert json.loads((folder / "balance.json").read_text()) == report
    assert not (folder / "candidates").exists()


def test_options_keep_their_text_when_letters_move(made):
    _, rows, _ = made
    for row in rows:
        if base(row) == "sr" and row.category == "mc4":
            words = {"To the left": "left", "To the right": "right", "In front": "front"}
            text = row.options[row.answer]
            assert words.get(text, text.lower()) == row.meta["relation"]
        if base(row) == "og":
            assert row.meta["boxes"][row.answer] == row.meta["objects"][2]


def test_a_total_is_kept_to(tmp_path):
    report = produce(read, 120, tmp_path, OPTIONS, 0, total=400, chunk=60)
    assert 380 <= report["rows"] <= 400
    assert report["levels"]["low"] == pytest.approx(0.52, abs=0.03)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    produce(read, 60, folder, OPTIONS, 3, chunk=10)
    return files(folder)


def test_the_number_of_workers_does_not_matter(small, tmp_path):
    produce(read, 60, tmp_path, OPTIONS, 3, chunk=10, workers=2)
    assert files(tmp_path) == small


class Breaks:
    """Reads as `read` does, until the one range that it breaks at."""

    def __init__(self, at: int) -> None:
        self.at, self.asked = at, []

    def __call__(self, start, stop):
        self.asked.append(start)
        if start == self.at:
            raise KeyboardInterrupt
        return read(start, stop)


def test_a_broken_run_goes_on_and_ends_alike(small, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        produce(Breaks(at=30), 60, tmp_path, OPTIONS, 3, chunk=10)
    (tmp_path / "candidates/questions-00004.jsonl").write_text("{}\n")  # without its keys it does not count
    again = Breaks(at=-1)
    produce(again, 60, tmp_path, OPTIONS, 3, chunk=10)
    assert again.asked == [30, 40, 50]
    assert files(tmp_path) == small
    produce(Breaks(at=0), 60, tmp_path, OPTIONS, 3, chunk=10)  # nothing is read again


def test_a_run_that_broke_while_rows_were_copied_ends_alike(small, tmp_path, monkeypatch):
    def stop(step, done, of):
        if (step, done) == ("balance", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        produce(read, 60, tmp_path, OPTIONS, 3, chunk=10, progress=stop)
    assert (tmp_path / "questions-00001.jsonl").exists()
    produce(Breaks(at=0), 60, tmp_path, OPTIONS, 3, chunk=10)
    assert files(tmp_path) == small


def test_a_folder_of_other_questions_is_refused(tmp_path):
    produce(read, 6, tmp_path, OPTIONS, 0, chunk=10)
    with pytest.raises(UserError, match="other images or options"):
        produce(read, 6, tmp_path, Options(pixels=30), 0, chunk=10)


def test_no_image_is_no_question(tmp_path):
    assert produce(read, 0, tmp_path, OPTIONS, 0)["rows"] == 0


def cells(task, forms, counts, domain="indoor"):
    """Cells of a task: {what is asked: candidates}; the answers of a yes/no question share them."""
    found = {}
    for form in forms:
        for asked, count in counts.items():
            for answer in ("yes", "no") if form == "yes_no" else ("",):
                found[Cell(domain, task, form, asked, answer)] = count // (2 if form == "yes_no" else 1)
    return found


def test_the_rarest_relation_sets_the_others():
    counts = cells("sr", ["mc4"], {"left": 100, "right": 100, "above": 60, "below": 50})
    quotas = plan(counts).quotas
    assert {cell.asked: n for cell, n in quotas.items()} == {
        "left": 52,
        "right": 52,
        "above": 52,
        "below": 50,
    }


def test_a_relation_that_is_hardly_ever_found_goes():
    counts = cells(
        "sr", ["mc4"], {"left": 100, "right": 100, "front": 90, "behind": 90, "above": 2, "below": 9}
    )
    made = plan(counts)
    assert sorted(made.left_out) == [("sr", "above"), ("sr", "below")]
    assert sum(made.quotas.values()) >= 360


def test_domains_share_what_a_relation_may_have():
    counts = cells("sr", ["mc4"], {"left": 100, "above": 100, "right": 100, "below": 100})
    counts |= cells("sr", ["mc4"], {"left": 100, "above": 0, "right": 100, "below": 0}, "outdoor")
    quotas = plan(counts).quotas
    assert (
        quotas[Cell("indoor", "sr", "mc4", "left", "")]
        == quotas[Cell("outdoor", "sr", "mc4", "left", "")]
        == 52
    )
    assert quotas[Cell("indoor", "sr", "mc4", "above", "")] == 100


def test_the_scarcer_answer_and_format_set_the_others():
    counts = cells("dim", ["yes_no"], {"taller": 40})
    counts[Cell("indoor", "dim", "yes_no", "taller", "no")] = 7
    assert set(plan(counts).quotas.values()) == {7}
    counts = cells("sr", ["mc4"], {"left": 10, "right": 10}) | cells(
        "sr", ["yes_no"], {"left": 100, "right": 100}
    )
    assert sum(plan(counts).quotas.values()) == 40


def test_a_level_without_questions_leaves_the_others_their_proportions():
    counts = {
        Cell("object_centric", "dist", "numeric", "camera_distance", ""): 520,
        Cell("object_centric", "situational.dist", "numeric", "camera_distance", ""): 1000,
    }
    assert sorted(plan(counts).quotas.values()) == [100, 520]


def test_what_one_task_lacks_the_others_give():
    weights, room = {"a": 1, "b": 1, "c": 2}, {"a": 5, "b": 100, "c": 100}
    assert fill(80, weights, room) == pytest.approx({"a": 5, "b": 25, "c": 50})
    assert fill(1000, weights, room) == pytest.approx(room)
    assert fill(0, weights, room) == {"a": 0, "b": 0, "c": 0}
