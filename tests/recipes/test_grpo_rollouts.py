"""The logs of a GRPO run, whatever a kill left behind. Here a step is two prompts with two answers each."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from data_prep.atomic import JsonlLog, read_jsonl
from data_prep.errors import UserError
from recipes.rollouts import StepLogs, drop_after, step_metrics

VERL = {"actor/kl_loss": 0.002, "actor/lr": 1e-4, "timing_s/step": 3.5, "actor/entropy": None, "perf/x": 1.0}
ANSWERS = 4


def answer(
    folder: Path, step: int, count: int = ANSWERS, worker: str = "a", completion: str = "text"
) -> None:
    """What reward worker `worker` notes of a step; answers arrive in any order."""
    path = folder / "verl" / "answers" / f"{worker}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as out:
        for place in reversed(range(count)):
            index, session = divmod(place, 2)
            record = {
                "step": step,
                "index": index,
                "session": session,
                "id": f"row{index}",
                "completion": completion,
            }
            record |= {"score": float(session), "accuracy": float(session), "format": 1.0, "parsed": "A"}
            record |= {"task": "g2s", "category": "facade", "answer_type": "choice", "gold": "A"}
            out.write(json.dumps(record | {"tokens": 10 + place, "truncated": place == 3}) + "\n")


def finish(folder: Path, step: int) -> None:
    """What verl's file logger writes at the end of a step."""
    with open(folder / "verl" / "metrics.jsonl", "a") as out:
        out.write(json.dumps({"step": step, "data": VERL}) + "\n")


@contextlib.contextmanager
def attempt(folder: Path, done: int = 0) -> Iterator[StepLogs]:
    """The logs of one attempt that goes on after step `done`."""
    drop_after(folder, done)
    out = folder / "verl"
    with JsonlLog(folder / "metrics.jsonl") as metrics, StepLogs(folder, out, ANSWERS, metrics) as logs:
        logs.start_attempt(done)
        yield logs


def logged(folder: Path) -> dict[str, list[int]]:
    return {
        name: [record["step"] for record in read_jsonl(folder / f"{name}.jsonl")]
        for name in ("metrics", "rollouts")
    }


def test_a_finished_step_is_logged_once(tmp_path):
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1)
        assert list(logs.poll()) == []
        finish(tmp_path, 1)
        answer(tmp_path, 2, count=1)
        assert [record["step"] for record in logs.poll()] == [1]
        assert list(logs.poll()) == []
    assert logged(tmp_path) == {"metrics": [1], "rollouts": [1] * 4}


def test_answers_stand_in_the_order_of_rows_and_sessions(tmp_path):
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1)
        finish(tmp_path, 1)
        list(logs.poll())
    found = list(read_jsonl(tmp_path / "rollouts.jsonl"))
    assert [(record["id"], record["tokens"]) for record in found] == [
        ("row0", 10),
        ("row0", 11),
        ("row1", 12),
        ("row1", 13),
    ]
    assert set(found[0]) == {
        "step",
        "id",
        "task",
        "category",
        "answer_type",
        "gold",
        "completion",
        "score",
        "accuracy",
        "format",
        "parsed",
        "tokens",
        "truncated",
    }


def test_half_a_line_waits_for_its_other_half(tmp_path):
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1)
        finish(tmp_path, 1)
        whole = (tmp_path / "verl/metrics.jsonl").read_text()
        (tmp_path / "verl/metrics.jsonl").write_text(whole[:20])
        assert list(logs.poll()) == []
        (tmp_path / "verl/metrics.jsonl").write_text(whole)
        assert len(list(logs.poll())) == 1


def test_a_lost_group_stops_the_run(tmp_path):
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1, count=2)
        finish(tmp_path, 1)
        with pytest.raises(UserError, match="step 1 has 2 of 4 answers"):
            list(logs.poll())


def test_steps_after_the_checkpoint_are_trained_anew(tmp_path):
    with attempt(tmp_path) as logs:
        for step in (1, 2, 3):
            answer(tmp_path, step)
            finish(tmp_path, step)
        list(logs.poll())
    with attempt(tmp_path, done=2) as logs:
        assert logged(tmp_path) == {"metrics": [1, 2], "rollouts": [1] * 4 + [2] * 4}
        answer(tmp_path, 3, completion="second", worker="b")
        finish(tmp_path, 3)
        list(logs.poll())
    assert logged(tmp_path) == {"metrics": [1, 2, 3], "rollouts": [1] * 4 + [2] * 4 + [3] * 4}
    assert {
        record["completion"] for record in read_jsonl(tmp_path / "rollouts.jsonl") if record["step"] == 3
    } == {"second"}


@pytest.mark.parametrize("finished", [True, False], ids=["after verl logged it", "before verl logged it"])
def test_a_saved_step_that_was_not_logged_is_completed(tmp_path, finished):
    with attempt(tmp_path):
        answer(tmp_path, 1)
        if finished:
            finish(tmp_path, 1)
        answer(tmp_path, 2, count=3)
    with attempt(tmp_path, done=1):
        assert logged(tmp_path) == {"metrics": [1], "rollouts": [1] * 4}
    (record,) = read_jsonl(tmp_path / "metrics.jsonl")
    assert record["reward"] == 0.5
    assert ("kl" in record) == finished


def test_a_log_cut_between_the_two_files_is_completed(tmp_path):
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1)
        finish(tmp_path, 1)
        list(logs.poll())
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "rew')
    with attempt(tmp_path, done=1):
        assert logged(tmp_path) == {"metrics": [1], "rollouts": [1] * 4}


def test_what_is_logged_needs_nothing_of_an_earlier_attempt(tmp_path):
    """A kill may leave only a part of what a new attempt clears away."""
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1)
        finish(tmp_path, 1)
        list(logs.poll())
    (tmp_path / "verl/answers/a.jsonl").unlink()
    answer(tmp_path, 1, count=1, worker="b")
    with attempt(tmp_path, done=1):
        assert logged(tmp_path) == {"metrics": [1], "rollouts": [1] * 4}
    assert list((tmp_path / "verl").iterdir()) == []


def test_the_metrics_of_a_step():
    row = {"task": "g2s", "category": "facade", "answer_type": "choice", "gold": "A", "format": 1.0}
    answers = [
        row
        | {
            "id": name,
            "completion": "A road.",
            "parsed": "A" if score == 1 else "B",
            "score": score,
            "accuracy": float(score == 1),
            "tokens": tokens,
            "truncated": tokens == 30,
        }
        for name, score, tokens in (("a", 1.0, 10), ("a", 0.1, 30), ("b", 0.1, 20), ("b", 0.1, 20))
    ]
    letters = {"letters": {"A": 1, "B": 3}, "gold_letters": {"A": 4}}
    apart = {"answers": 4, "accuracy": 0.25, "format": 1.0, **letters}
    assert step_metrics(7, answers, VERL) == {
        "step": 7, "reward": pytest.approx(0.325), "accuracy": 0.25, "format": 1.0, "response_tokens": 20.0,
        "truncated": 0.25, "flat_groups": 0.5, "all_wrong": 0.5, "all_right": 0.0, "format_only": 0.0,
        "unparsed": 0.0, "repeated": 0.0, "tokens_right": 10.0, "tokens_wrong": pytest.approx(70 / 3),
        **letters, "letter_distance": 0.75, "by_task": {"g2s": apart}, "by_category": {"facade": apart},
        "kl": 0.002, "lr": 1e-4, "seconds": 3.5,
    }  # fmt: skip


def test_a_metric_that_is_no_number_reaches_the_log_as_a_name(tmp_path):
    with attempt(tmp_path) as logs:
        answer(tmp_path, 1)
        data = json.dumps({"step": 1, "data": {**VERL, "actor/kl_loss": float("nan")}})
        (tmp_path / "verl" / "metrics.jsonl").write_text(data + "\n")
        list(logs.poll())
    (record,) = read_jsonl(tmp_path / "metrics.jsonl")
    assert record["not_finite"] == ["kl"]
    assert "kl" not in record
