"""A teacher's words for questions: what changes the question never comes through, everything else does."""

import asyncio
import random
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from monosr_scenes import random_scene
from stub_endpoint import Stub
from teacher_runs import teacher_config

from data_prep.errors import UserError
from data_prep.monosr.generate import questions_of
from data_prep.monosr.options import Options
from data_prep.monosr.produce import produce, rows_of
from data_prep.monosr.rewriting import request_of, rewrite
from data_prep.monosr.wording import judge, open_part

ROWS = [row for number in range(12) for row in questions_of(random_scene(number), Options(), 0)]
SWAPS = {
    "left": "right", "right": "left", "above": "below", "below": "above", "behind": "in front of",
    "in front of": "behind", "taller": "shorter", "wider": "longer", "length": "width", "height": "length",
}  # fmt: skip


def one(task: str, form: str | None = None, words: str = "") -> Any:
    return next(r for r in ROWS if r.task == task and form in (None, r.category) and words in r.question)


def longer(question: str) -> str:
    """The same in a few more words, for any question."""
    return f"Please look closely at this place. {question}"


def test_a_faithful_rewording_passes():
    for row in ROWS:
        assert judge(row, longer(open_part(row))).faults == (), row.question


def kinds(row, text: str) -> set[str]:
    return {fault.kind for fault in judge(row, text).faults}


def test_the_question_itself_is_no_rewording():
    assert all(kinds(row, open_part(row)) == {"copy"} for row in ROWS)


def test_a_lost_name_is_found():
    for row in ROWS:
        name = rf"(?<!\w){re.escape(row.meta['names'][-1])}(?!\w)"
        broken = re.sub(name, "that thing", longer(open_part(row)), flags=re.IGNORECASE)
        assert "names" in kinds(row, broken), row.question


def test_names_in_another_order_are_found():
    row = one("sr", "yes_no", "to the ")
    first, second = row.meta["names"]
    text = longer(row.question).replace(first, "@").replace(second, first).replace("@", second)
    assert kinds(row, text) == {"names"}


def test_a_changed_relation_is_found():
    changed = Counter()
    for row in ROWS:
        bare = open_part(row)
        for name in row.meta["names"]:
            bare = re.sub(re.escape(name), "#", bare, flags=re.IGNORECASE)
        for old, new in SWAPS.items():
            if re.search(rf"\b{old}\b", bare) and row.task not in ("og", "situational"):
                text = re.sub(rf"\b{old}\b(?!most)", new, longer(row.question))
                assert kinds(row, text) & {"relations", "names"}, text
                changed[old] += 1
    assert len(changed) == len(SWAPS) - ("shorter" in changed)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("in m", "in cm"),
        ("metres", "feet"),
        ("cm", "mm"),
        ("ft2", "m2"),
        ("centimetres", "inches"),
        ("feet", "yards"),
    ],
)
def test_a_changed_unit_is_found(old, new):
    options = Options(per_format=4, situational=0, tasks=("dist", "size"))
    made = [row for number in range(12, 60) for row in questions_of(random_scene(number), options, 0)]
    rows = [row for row in made if re.search(rf"\b{old}\b", row.question)]
    assert rows
    for row in rows:
        assert "units" in kinds(row, re.sub(rf"\b{old}\b", new, longer(row.question))), row.question


def test_numbers_may_not_come_or_go():
    row = one("oj")
    assert "numbers" in kinds(row, longer(row.question).replace("90", "120"))
    assert "numbers" in kinds(one("dist"), f"The two are 3 apart. {one('dist').question}")
    assert "numbers" in kinds(one("dist"), f"You have seven tries. {one('dist').question}")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{0} Or is it not?", "negation"),
        ("{0} Yes?", "verdict"),
        ("{0} A) To the left B) Behind?", "form"),
        ("Well {0} thanks", "form"),
        ("<image> {0}", "characters"),
        ("{0} " + "and so on " * 20 + "?", "length"),
    ],
)
def test_other_faults_are_found(text, kind):
    row = one("sr", "yes_no")
    assert kind in kinds(row, text.format(row.question))


def test_a_real_paraphrase_passes():
    row = replace(
        one("dist"), question="How far apart are the centres of the bed and the leftmost lamp? Answer in cm.",
        meta={**one("dist").meta, "names": ["the bed", "the leftmost lamp"]},
    )  # fmt: skip
    text = "From the centre of the bed to the centre of the leftmost lamp, what is the distance in cm?"
    assert kinds(row, text) == set()
    text = "How far, in centimetres, is the centre of the bed from that of the leftmost lamp?"
    assert kinds(row, text) == set()
    text = "I'm curious: how far is the centre of the bed from that of the leftmost lamp? Tell me in cm."
    assert kinds(row, text) == set()
    row = replace(
        one("sr", "yes_no"), question="Seen from the camera, is the bed to the left of the lamp?",
        meta={**one("sr").meta, "names": ["the bed", "the lamp"]},
    )  # fmt: skip
    assert kinds(row, "Judging by the camera's picture, does the bed stand left of the lamp?") == set()
    assert kinds(row, "Judging by the camera's picture, does the bed stand right of the lamp?") == {
        "relations"
    }


def test_a_request_names_what_has_to_stay_and_gives_no_answer():
    row = one("og")
    request = request_of(row)
    assert all(name in request.text for name in row.meta["names"])
    assert "metres in the camera's frame" not in request.text
    assert request.images == ()
    for row in ROWS:
        if row.answer_type == "number":
            assert f"{row.answer:g}" not in request_of(row).text.split()
    row = one("situational")
    assert row.meta["scenario"] in request_of(row).system


class Rewriter(Stub):
    """Rewords with `longer`; one reply in three is flawed, now and then for every try."""

    def complete(self, body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        text = body["messages"][1]["content"][-1]["text"]
        question = text.split("\n")[0].removeprefix("Question: ")
        made = longer(question)
        flaw = rng.choice(("number", "relation", "empty", *["none"] * 6)) if self.flawed else "none"
        if "the leftmost" in question and self.flawed:
            flaw = "name"
        if flaw == "number":
            made += " Within 2.5 seconds?"
        elif flaw == "relation":
            made = made.replace("?", " behind or below?")
        elif flaw == "name":
            made = made.replace("the leftmost", "the first")
        elif flaw == "empty":
            made = ""
        message = {"role": "assistant", "content": made}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}


def read(start, stop):
    for number in range(start, stop):
        yield random_scene(number), None


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    produce(read, 16, folder, Options(per_format=1, situational=2), 0, chunk=8)
    return folder


def reworded_rows(plain, tmp_path, stub, **keys):
    config = teacher_config(stub.base_url, **keys)
    report = asyncio.run(rewrite(plain, tmp_path / "made", config, tmp_path / "replies", 0))
    return report, list(rows_of(tmp_path / "made"))


def test_a_run_rewords_what_it_can_and_changes_nothing_else(plain, tmp_path):
    with Rewriter(trouble=0.0) as stub:
        report, rows = reworded_rows(plain, tmp_path, stub)
        sent = len(stub.log)
        assert reworded_rows(plain, tmp_path, stub)[1] == rows
        assert len(stub.log) == sent  # nothing is asked twice
    before = list(rows_of(plain))
    assert [replace(row, question="", meta={}) for row in rows] == [
        replace(r, question="", meta={}) for r in before
    ]
    words = Counter(row.meta["words"] for row in rows)
    assert report["words"] == dict(words)
    assert words["teacher"] > len(rows) / 2
    assert {"names", "numbers"} <= set(report["faults_sent_back"])
    for old, new in zip(before, rows, strict=True):
        assert {**new.meta, "words": 0} == {**old.meta, "words": 0}
        if new.meta["words"] == "template":
            assert new.question == old.question
        else:
            assert judge(old, open_part(new)).faults == ()
            assert "the leftmost" not in old.question


def test_a_killed_run_goes_on(plain, tmp_path):
    with Rewriter(trouble=0.0, flawed=False) as stub:
        config = teacher_config(stub.base_url, max_requests=20)
        with pytest.raises(UserError, match="max_requests"):
            asyncio.run(rewrite(plain, tmp_path / "made", config, tmp_path / "replies", 0))
        report, rows = reworded_rows(plain, tmp_path, stub)
        assert len({key for key, _ in stub.log}) == len(stub.log)
    assert report["words"] == {"teacher": len(rows)}


def test_a_share_is_left_in_the_templates_words(plain, tmp_path):
    with Rewriter(trouble=0.0, flawed=False) as stub:
        config = teacher_config(stub.base_url)
        asyncio.run(rewrite(plain, tmp_path / "made", config, tmp_path / "replies", 0, share=0.3))
    rows = list(rows_of(tmp_path / "made"))
    plain_rows = [row for row in rows if row.task != "situational"]
    assert {row.meta["words"] for row in rows if row.task == "situational"} == {"teacher"}
    assert 0.1 < sum(row.meta["words"] == "teacher" for row in plain_rows) / len(plain_rows) < 0.5


def test_an_endpoint_that_never_answers_ends_the_run(plain, tmp_path):
    with Rewriter(status=400) as stub:
        config = teacher_config(stub.base_url, tries=1)
        with pytest.raises(UserError):
            asyncio.run(rewrite(plain, tmp_path / "made", config, tmp_path / "replies", 0))
    assert not list((tmp_path / "made").glob("*.jsonl"))
