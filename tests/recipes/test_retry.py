"""Where the official reading finds no box, the model is asked once more, as by the paper's toolkit."""

import json
from dataclasses import replace

import pytest
from eval_endpoint import EvalStub
from evaluation_runs import make_eval, make_prep

from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.errors import UserError
from recipes import evaluate
from recipes.official import RETRY

BOX = [1.0, 2.0, 11.0, 12.0]


def grounding(row):
    """Every location row becomes a question for a box; the others stay."""
    if row.category != "location":
        return row
    return replace(
        row, task="gs_grounding", category="level4", images=row.images * 2, options=None, answer=BOX,
        answer_type="box", meta={"level": 4},
    )  # fmt: skip


class Hesitant(EvalStub):
    """Gives a box to place 0 at once, to the even places when asked again, and to the others never."""

    def complete(self, body, rng):
        text = body["messages"][-1]["content"][-1]["text"]
        place = int(text.partition("about place ")[2].split("?")[0].split()[0])
        found = place == 0 or (RETRY in text and place % 2 == 0)
        answer = f"<answer> {BOX} </answer>" if found else "I see no such thing."
        message = {"role": "assistant", "content": answer}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}


@pytest.fixture
def prep(tmp_path):
    return make_prep(tmp_path / "prep", groups=4, change=grounding)


def open_eval(folder, prep, stub, *overrides):
    at = f"eval.endpoint.base_url={stub.base_url}"
    return make_eval(
        folder, prep, "endpoint", "eval.engine=openai", at, "eval.endpoint.timeout=2", *overrides
    )


def boxes_of(run):
    found = [p for p in read_jsonl(run.path / "predictions.jsonl") if p["answer_type"] == "box"]
    return sorted(found, key=lambda prediction: prediction["id"])


def test_the_second_reply_counts_in_the_official_reading_alone(tmp_path, prep):
    with Hesitant() as stub:
        run = open_eval(tmp_path / "eval", prep, stub)
        evaluate.run(run)
    boxes = boxes_of(run)
    assert [box["iou"] for box in boxes] == [1.0, 0.0, 0.0, 0.0]
    assert [box["iou_official"] for box in boxes] == [1.0, 0.0, 1.0, 0.0]
    assert [box["retried_official"] for box in boxes] == [False, True, True, True]
    assert ["completion_retry" in box for box in boxes] == [False, True, True, True]
    assert all(box["completion"] == "I see no such thing." for box in boxes[1:])
    again = [text for text in stub.asked if RETRY in text]
    assert sorted(stub.asked[text] for text in again) == [1, 1, 1]
    assert len(stub.asked) == 4 * 3 + 3  # choice questions are never asked again
    scores = json.loads((run.path / "scores.json").read_text())
    assert scores["levels"]["4"]["mean_iou_official"] == pytest.approx(0.5)
    assert scores["official"]["boxes"]["retried"] == 3


def test_a_killed_evaluation_asks_again_only_for_what_is_left(tmp_path, prep):
    with Hesitant() as stub:
        run = open_eval(tmp_path / "eval", prep, stub)
        evaluate.run(run)
        whole = boxes_of(run)
        # As a kill in the middle of the second replies leaves it: the first replies, and one of the second.
        added = {"completion_retry"}
        first = [
            {k: v for k, v in p.items() if k not in added} | {"iou_official": 0.0}
            if "completion_retry" in p
            else p
            for p in read_jsonl(run.path / "predictions.jsonl")
        ]
        write_jsonl(run.path / "predictions.jsonl", first)
        replies = list(read_jsonl(run.path / "retries.jsonl"))
        (run.path / "retries.jsonl").write_text(json.dumps(replies[0]) + '\n{"id": "cut')
        stub.asked.clear()
        evaluate.run(run)
    assert boxes_of(run) == whole
    assert len(stub.asked) == 2
    assert all(RETRY in text for text in stub.asked)


def test_what_is_not_answered_again_is_a_failure_that_can_be_allowed(tmp_path, prep):
    with Hesitant(refuse=RETRY) as stub:
        run = open_eval(tmp_path / "eval", prep, stub)
        with pytest.raises(UserError, match="3 rows were never answered"):
            evaluate.run(run)
        allowed = open_eval(tmp_path / "eval", prep, stub, "eval.allow_failures=true")
        evaluate.run(allowed)
    assert [box["iou_official"] for box in boxes_of(allowed)] == [1.0, 0.0, 0.0, 0.0]
    assert allowed.manifest["rows"] == 12
