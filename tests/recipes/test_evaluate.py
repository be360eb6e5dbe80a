import collections
import dataclasses
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from evaluation_runs import make_checkpoint, make_eval, make_prep, make_rows, tiny_config

from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.errors import UserError
from data_prep.prompts import load_prompt
from data_prep.rows import Row
from recipes import evaluate
from recipes.attempts import results
from recipes.decoding import MID_GREY, Decoder, Pictures
from recipes.engines.answers import batches
from recipes.evaluate import choose_rows, chosen_ids
from recipes.run_dir import RunDir
from recipes.stages import plan, recipe_hash

ROOT = Path(__file__).parents[2]
SHORT = "eval.max_new_tokens=12"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("base") / "checkpoint")


@pytest.fixture
def prep(tmp_path):
    return make_prep(tmp_path / "prep")


def predictions_of(run):
    return {record["id"]: record for record in read_jsonl(run.path / "predictions.jsonl")}


def test_every_row_is_answered_and_scored(tmp_path, prep, checkpoint):
    run = make_eval(tmp_path / "eval", prep, checkpoint, SHORT)
    evaluate.run(run)
    rows = [Row.from_json(record) for record in read_jsonl(prep.path / "rows/test.jsonl")]
    predictions = predictions_of(run)
    assert predictions.keys() == {row.id for row in rows}
    assert all(p["truncated"] and p["tokens"] == 12 for p in predictions.values())  # untrained: never ends
    scores = json.loads((run.path / "scores.json").read_text())
    assert scores["overall"]["n"] == run.manifest["rows"] == len(rows) == 18
    assert {(c["category"], c["n"]) for c in scores["cells"]} == {("location", 6), ("facade", 12)}
    assert scores["provenance"]["decoding"] == "greedy"
    assert scores["provenance"]["prompt_hash"] == load_prompt(prep.config.prompt).hash
    assert run.metrics()[0]["accuracy"] == scores["overall"]["accuracy"] == run.manifest["accuracy"]


def test_answers_depend_neither_on_the_batch_nor_on_the_order_of_rows(tmp_path, prep, checkpoint):
    found = []
    for size in (1, 5, 64):
        run = make_eval(tmp_path / f"eval{size}", prep, checkpoint, SHORT, f"model.eval_batch_size={size}")
        evaluate.run(run)
        found.append(predictions_of(run))
        lines = list(read_jsonl(prep.path / "rows/test.jsonl"))
        random.Random(size).shuffle(lines)
        write_jsonl(prep.path / "rows/test.jsonl", lines)
    assert found[0] == found[1] == found[2]
    assert len({p["completion"] for p in found[0].values()}) > 1


def test_sampling_is_each_rows_own(tmp_path, prep, checkpoint):
    hot = ("eval.temperature=50", "eval.max_new_tokens=60")
    found = []
    for size in (4, 64):
        run = make_eval(tmp_path / f"hot{size}", prep, checkpoint, *hot, f"model.eval_batch_size={size}")
        evaluate.run(run)
        found.append(predictions_of(run))
    assert found[0] == found[1]
    predictions = found[0].values()
    assert len({p["completion"] for p in predictions}) == len(predictions)
    ended = [p for p in predictions if not p["truncated"]]
    assert ended
    assert len(ended) < len(predictions)
    assert all(p["tokens"] <= 60 and "<|im_end|>" not in p["completion"] for p in ended)
    assert all(p["tokens"] == 60 for p in predictions if p["truncated"])


def test_a_killed_evaluation_goes_on_where_it_stopped(tmp_path, prep, checkpoint):
    slow = ("eval.max_new_tokens=96", "model.eval_batch_size=2")
    whole = make_eval(tmp_path / "whole", prep, checkpoint, *slow)
    evaluate.run(whole)
    killed = make_eval(tmp_path / "killed", prep, checkpoint, *slow)
    log = killed.path / "predictions.jsonl"
    process = subprocess.Popen([sys.executable, "-m", "recipes", "eval", killed.path], cwd=ROOT)
    deadline = time.monotonic() + 90
    while not (log.exists() and log.read_bytes().count(b"\n") >= 4):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not killed.finished
    before = log.read_bytes()
    assert before.count(b"\n") < 18
    with open(log, "a") as cut:
        cut.write('{"id": "cvsbench/fov')  # a line that the kill cut short
    evaluate.run(killed)
    assert log.read_bytes().startswith(before)
    assert collections.Counter(r["id"] for r in read_jsonl(log)).most_common(1)[0][1] == 1
    assert predictions_of(killed) == predictions_of(whole)
    assert killed.manifest["accuracy"] == whole.manifest["accuracy"]


def test_a_finished_log_is_scored_without_loading_the_model(tmp_path, prep, checkpoint, monkeypatch):
    run = make_eval(tmp_path / "eval", prep, checkpoint, SHORT)
    evaluate.run(run)
    (run.path / "manifest.json").unlink()
    monkeypatch.setattr("recipes.engines.answer", None)
    evaluate.run(run)
    assert run.finished


def test_blank_pictures_are_grey_and_change_the_answers(tmp_path, prep, checkpoint):
    row = Row.from_json(next(read_jsonl(prep.path / "rows/test.jsonl")))
    [seen] = Pictures(prep.path / "images", blank=False).of(row)
    [blank] = Pictures(prep.path / "images", blank=True).of(row)
    assert blank.size == seen.size == (row.images[0].width, row.images[0].height)
    assert blank.getcolors() == [(blank.width * blank.height, MID_GREY)] != seen.getcolors()
    completions = []
    for value in ("false", "true"):
        run = make_eval(tmp_path / f"blank-{value}", prep, checkpoint, SHORT, f"eval.blank={value}")
        evaluate.run(run)
        completions.append({name: p["completion"] for name, p in predictions_of(run).items()})
    assert completions[0] != completions[1]


def test_a_shared_picture_is_decoded_once(prep, monkeypatch):
    decoded = collections.Counter()
    decode = Pictures._decode
    monkeypatch.setattr(Pictures, "_decode", lambda self, path: decoded.update([path]) or decode(self, path))
    cfg = tiny_config("model.eval_batch_size=2")
    rows = [Row.from_json(record) for record in read_jsonl(prep.path / "rows/test.jsonl")]
    rows = [row for row in rows if len(row.images) == 1]
    pictures = Pictures(prep.path / "images", blank=False, kept=2)
    for batch in batches(rows, 2, cfg.model):
        for row in batch:
            assert len(pictures.of(row)) == len(row.images)
    assert len(rows) == 12
    assert decoded == {row.images[0].path: 1 for row in rows}


def test_longest_prompts_come_first(tmp_path):
    cfg = tiny_config()
    cut = batches(make_rows(tmp_path, 6), 4, cfg.model)
    tokens = [sum(i.width * i.height for i in row.images) for batch in cut for row in batch]
    assert tokens == sorted(tokens, reverse=True)
    assert [len(batch) for batch in cut] == [4, 4, 4, 4, 2]


def test_a_sample_of_rows_is_stable(tmp_path):
    rows = make_rows(tmp_path, 12)

    def chosen(rows, most, seed=0):
        return {row.id for row in choose_rows(iter(rows), most, seed)}

    assert chosen(rows, None) == chosen(rows, 99) == {row.id for row in rows}
    assert len(chosen(rows, 10)) == 10
    assert chosen(rows, 10) < chosen(rows, 20)
    assert chosen(rows[::-1], 10) == chosen(rows, 10) != chosen(rows, 10, seed=1)
    assert chosen([row for row in rows if row.id in chosen(rows, 20)], 10) == chosen(rows, 10)
    write_jsonl(tmp_path / "rows.jsonl", (row.to_json() for row in rows))
    for most in (None, 10, 99):
        assert chosen_ids(tmp_path / "rows.jsonl", most, 3) == chosen(rows, most, seed=3)


def test_right_padding_is_refused(prep, checkpoint):
    cfg = tiny_config()
    decoder = Decoder(str(checkpoint), cfg.model, 0.0, 4, seed=0)
    rows = [Row.from_json(record) for record in read_jsonl(prep.path / "rows/test.jsonl")]
    pictures = Pictures(prep.path / "images", blank=False)
    decoder.processor.tokenizer.padding_side = "right"
    with pytest.raises(RuntimeError, match="padded on the right"):
        decoder.answer(rows, [pictures.of(row) for row in rows], load_prompt(cfg.prompt))


def test_a_batch_too_large_for_the_gpu_is_named(tmp_path, prep, checkpoint, monkeypatch):
    def fail(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.GenerationMixin.generate", fail)
    with pytest.raises(UserError, match=r"18 rows at once.*smaller model\.eval_batch_size"):
        evaluate.run(make_eval(tmp_path / "eval", prep, checkpoint))


def test_an_empty_test_set_is_named(tmp_path, prep, checkpoint):
    (prep.path / "rows/test.jsonl").write_text("")
    with pytest.raises(UserError, match=r"test\.jsonl has no test rows"):
        evaluate.run(make_eval(tmp_path / "eval", prep, checkpoint))


def test_a_missing_checkpoint_is_named(tmp_path, prep, checkpoint):
    run = make_eval(tmp_path / "eval", prep, checkpoint)
    config = (run.path / "config.yaml").read_text().replace(str(checkpoint), str(tmp_path / "gone"))
    (run.path / "config.yaml").write_text(config)
    with pytest.raises(UserError, match=r"no checkpoint at .*gone"):
        evaluate.run(run)


def test_a_doubled_answer_is_not_scored(tmp_path, prep, checkpoint):
    run = make_eval(tmp_path / "eval", prep, checkpoint, SHORT)
    evaluate.run(run)
    log = run.path / "predictions.jsonl"
    log.write_text(log.read_text() + log.read_text().splitlines()[0] + "\n")
    with pytest.raises(RuntimeError, match="exactly once"):
        evaluate.run(run)


def test_a_row_that_shows_the_hidden_view_is_refused(tmp_path, checkpoint):
    def expose(row):
        picture = dataclasses.replace(row.images[0], role="street" if row.task == "s2g" else "satellite")
        return dataclasses.replace(row, images=(picture,))

    run = make_eval(tmp_path / "eval", make_prep(tmp_path / "prep", change=expose), checkpoint, SHORT)
    with pytest.raises(UserError, match="breaks the single-view rule"):
        evaluate.run(run)
    assert not (run.path / "predictions.jsonl").exists()


def test_rotated_options_are_asked_and_scored(tmp_path, prep, checkpoint):
    run = make_eval(tmp_path / "eval", prep, checkpoint, SHORT, "eval.rotate_options=1")
    evaluate.run(run)
    rows = {r["id"]: Row.from_json(r) for r in read_jsonl(prep.path / "rows/test.jsonl")}
    for name, predicted in predictions_of(run).items():
        letters = list(rows[name].options)
        moved = letters[(letters.index(rows[name].answer) + 1) % len(letters)]
        assert predicted["answer"] == moved


def test_every_row_is_joined_to_how_it_was_answered(tmp_path, prep, checkpoint):
    run = make_eval(tmp_path / "eval", prep, checkpoint, SHORT)
    evaluate.run(run)
    provenance = json.loads((run.path / "scores.json").read_text())["provenance"]
    assert provenance["recipe"]["name"] == "imagination_cot"
    joined = list(results(run.path))
    assert len(joined) == 18
    for key in ("commit", "recipe", "prompt_hash", "engine", "max_pixels", "seed", "rows", "date", "views"):
        assert key in provenance
        if key != "date":
            assert {json.dumps(row["run"][key]) for row in joined} == {json.dumps(provenance[key])}
    assert provenance["attempts"] == 1
    assert json.loads((run.path / "official.json").read_text())["rows"] == []


def test_the_recipes_hash_is_the_stages():
    stage = plan(tiny_config("eval.checkpoint=base"), "eval")
    assert recipe_hash(RunDir(stage.path)) == stage.hash
    assert plan(tiny_config("eval.checkpoint=base", "eval.rotate_options=2"), "eval").hash != stage.hash
