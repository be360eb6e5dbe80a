"""Two engines compared: with a real model behind a server, and with servers that differ in one thing."""

import json

import pytest
from evaluation_runs import make_checkpoint, make_prep, make_rows, tiny_config
from model_server import ModelServer

from data_prep.atomic import read_jsonl
from data_prep.endpoint.faults import Fault
from data_prep.endpoint.wire import Answer
from data_prep.errors import UserError
from launch.pipeline import execute
from recipes import evaluate, parity
from recipes.engines.answers import Completion
from recipes.parity import Ours, Theirs, compare, summary
from recipes.run_dir import RunDir
from recipes.stages import plan

IMAGE = 9
PIXELS = 64 * 32 * 32


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("base") / "checkpoint")


def opened(folder, prep, checkpoint, server, name="parity", *overrides) -> RunDir:
    config = tiny_config(
        f"eval.checkpoint={checkpoint}", f"eval.endpoint.base_url={server.base_url}", "eval.max_new_tokens=8",
        "eval.engine=openai", *overrides,
    )  # fmt: skip
    return RunDir.open(folder, plan(config, name).config, {"prep": prep.path})


@pytest.mark.parametrize("tokenize", ["expanded", "plain", "none"])
def test_the_same_model_on_both_sides_agrees(tokenize, tmp_path, checkpoint, capsys):
    prep = make_prep(tmp_path / "prep", groups=4)
    with ModelServer(checkpoint, PIXELS, tokenize) as server:
        run = opened(tmp_path / "parity", prep, checkpoint, server)
        assert parity.run(run) == 0
    found = json.loads((run.path / "parity.json").read_text())
    rows = len(found["rows"])
    assert rows == 12
    assert found["pictures"] == {"equal": rows, "different": 0, "not_compared": 0}
    assert found["text"]["equal"] == found["answer"]["equal"] == rows
    assert found["ids"]["not_compared" if tokenize == "none" else "equal"] == rows
    assert (found["server"], found["holds"], run.finished) == ("vllm 0.0.model", True, False)
    counted = [record["picture_tokens"] for record in found["rows"]]
    assert all(tokens["arithmetic"] == tokens["transformers"] for tokens in counted)
    assert max(max(tokens["arithmetic"]) for tokens in counted) > 1
    assert "The engines agree." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"spoil": "\nThink."}, "ids"),
        ({"pixels": 4 * 32 * 32}, "pictures"),
        ({"pixels": 4 * 32 * 32, "tokenize": "none"}, "pictures"),
        ({"pixels": 4 * 32 * 32, "tokenize": "plain"}, "pictures"),
    ],
)
def test_another_template_or_picture_size_is_a_difference(change, key, tmp_path, checkpoint, capsys):
    prep = make_prep(tmp_path / "prep", groups=2)
    with ModelServer(checkpoint, **{"pixels": PIXELS, **change}) as server:
        run = opened(tmp_path / "parity", prep, checkpoint, server)
        assert parity.run(run) == 1
    found = json.loads((run.path / "parity.json").read_text())
    assert found[key]["different"] > 0
    assert not found["holds"]
    out = capsys.readouterr().out
    assert "OTHER" in out
    assert "The engines do NOT agree." in out
    if key == "ids":
        assert all(record["first_difference"] > 0 for record in found["rows"])


def test_a_server_that_tells_nothing_is_not_taken_for_equal(tmp_path, checkpoint):
    prep = make_prep(tmp_path / "prep", groups=1)
    with ModelServer(checkpoint, PIXELS, "none", usage=False) as server:
        run = opened(tmp_path / "parity", prep, checkpoint, server)
        assert parity.run(run) == 1
    found = json.loads((run.path / "parity.json").read_text())
    assert found["pictures"]["not_compared"] == found["ids"]["not_compared"] == 3


def test_the_rows_are_chosen_by_the_seed(tmp_path, checkpoint, monkeypatch):
    monkeypatch.setattr(parity, "ROWS", 4)
    prep = make_prep(tmp_path / "prep", groups=3)
    with ModelServer(checkpoint, PIXELS) as server:
        run = opened(tmp_path / "parity", prep, checkpoint, server)
        assert parity.run(run) == 0
    chosen = evaluate.chosen_ids(prep.path / "rows/test.jsonl", 4, prep.config.seed)
    found = json.loads((run.path / "parity.json").read_text())
    assert {record["id"] for record in found["rows"]} == chosen


def test_parity_needs_a_server_and_rows(tmp_path, checkpoint):
    prep = make_prep(tmp_path / "prep", groups=1)
    server = ModelServer(checkpoint, PIXELS)  # not started
    with pytest.raises(UserError, match="No server answers"):
        parity.run(opened(tmp_path / "a", prep, checkpoint, server))
    (prep.path / "rows/test.jsonl").write_text("")
    with pytest.raises(UserError, match="has no test rows"):
        parity.run(opened(tmp_path / "b", prep, checkpoint, server))


def test_evaluations_by_both_engines_give_the_same_scores(tmp_path, checkpoint):
    prep = make_prep(tmp_path / "prep", groups=4)
    scores = {}
    with ModelServer(checkpoint, PIXELS) as server:
        for engine in ("transformers", "openai"):
            run = opened(tmp_path / engine, prep, checkpoint, server, "eval", f"eval.engine={engine}")
            evaluate.run(run)
            records = sorted(read_jsonl(run.path / "predictions.jsonl"), key=lambda record: record["id"])
            lines = [{**record, "run": None} for record in records]  # the circumstances differ: the engine
            scores[engine] = lines, json.loads((run.path / "scores.json").read_text())["overall"]
    assert scores["transformers"] == scores["openai"]


def test_the_commands_run_their_stages_and_ask_again_each_time(tiny, capfd):
    base = plan(tiny(), "base")
    own = ("eval.checkpoint=base", "eval.max_new_tokens=4", "eval.max_rows=7")
    with ModelServer(base.path / "checkpoint", PIXELS) as server:
        config = tiny(*own, f"eval.endpoint.base_url={server.base_url}", "eval.engine=openai")
        assert execute("parity", config, ["parity"]) == 0
        assert "The engines agree." in capfd.readouterr().out
        found = json.loads((plan(config, "parity").path / "parity.json").read_text())
        rows = {row["id"] for row in read_jsonl(base.inputs["prep"].path / "rows/test.jsonl")}
        assert {record["id"] for record in found["rows"]} == rows
        assert execute("eval", config, ["eval"]) == 0
        server.spoil = " Think."
        assert execute("parity", config, ["parity"]) == 1
        assert execute("eval", config, ["eval"]) == 0
    assert "finished before" in capfd.readouterr().out
    scores = json.loads((plan(config, "eval").path / "scores.json").read_text())
    assert scores["provenance"]["engine"] == "openai: vllm 0.0.model"
    assert scores["overall"]["n"] == 7


def compared(tmp_path, ours, theirs, image_tokens=(2,)):
    row = make_rows(tmp_path, 1)[0]
    own = Ours(ours, list(image_tokens), Completion("a", 1, False))
    return compare(row, own, theirs, IMAGE)


@pytest.mark.parametrize(
    ("ids", "counted", "same_ids", "same_pictures"),
    [
        ([1, IMAGE, IMAGE, 2], 4, True, True),
        ([1, IMAGE, 2], 4, True, True),  # before the picture takes its place
        ([1, IMAGE, 2], 5, True, False),
        ([1, IMAGE, IMAGE, IMAGE, 2], 5, True, False),
        ([1, IMAGE, IMAGE, 3], 4, False, True),
        ([1, IMAGE, IMAGE, 2, 2], 5, False, True),
        ([1, IMAGE, IMAGE, 2, 2], 4, False, False),
        (None, 4, None, True),
        (None, 5, None, False),
        (None, None, None, None),
        ([1, IMAGE, 2], None, True, None),
    ],
)
def test_what_is_compared(ids, counted, same_ids, same_pictures, tmp_path):
    theirs = Theirs(ids, Answer("a", False, False, counted, 1))
    record = compared(tmp_path, [1, IMAGE, IMAGE, 2], theirs)
    assert (record["same_ids"], record["same_pictures"]) == (same_ids, same_pictures)
    assert record["same_text"] is True
    assert (record["first_difference"] is None) == (same_ids is not False)


def test_arithmetic_that_is_off_and_rows_that_fail_are_differences(tmp_path):
    good = Theirs([1, IMAGE, IMAGE, 2], Answer("a", False, False, 4, 1))
    off = compared(tmp_path, [1, IMAGE, IMAGE, 2], good, image_tokens=(3,))
    assert off["same_pictures"] is False
    failed = compared(
        tmp_path, [1, IMAGE, IMAGE, 2], Theirs(None, Fault("status 400", "too long", again=False))
    )
    assert failed["fault"] == "status 400: too long"
    right = compared(tmp_path, [1, IMAGE, IMAGE, 2], good)
    assert summary([right])["holds"]
    assert not summary([right, off])["holds"]
    assert not summary([right, failed])["holds"]


def test_two_pictures_are_counted_one_by_one(tmp_path):
    ours = [1, IMAGE, IMAGE, 7, IMAGE, 2]
    swapped = Theirs([1, IMAGE, 7, IMAGE, IMAGE, 2], Answer("b", False, False, 6, 1))
    record = compared(tmp_path, ours, swapped, image_tokens=(2, 1))
    assert (record["same_ids"], record["same_pictures"], record["same_text"]) == (True, False, False)
    assert record["picture_tokens"]["server"] == [1, 2]
