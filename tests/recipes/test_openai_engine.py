"""Evaluation through a server: what is sent, what is survived, what is refused, and what a kill leaves."""

import base64
import collections
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from eval_endpoint import MODEL, EvalStub
from evaluation_runs import make_eval, make_prep, make_rows
from PIL import Image

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.prompts import build_messages, load_prompt
from data_prep.rows import Row
from recipes import evaluate
from recipes.decoding import MID_GREY
from recipes.engines.answers import row_seed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def prep(tmp_path):
    return make_prep(tmp_path / "prep")


def evaluation(folder, prep, stub, *overrides):
    """An evaluation of whatever the stub serves."""
    return make_eval(
        folder, prep, "endpoint", "eval.engine=openai", f"eval.endpoint.base_url={stub.base_url}",
        "eval.endpoint.timeout=2", *overrides,
    )  # fmt: skip


def rows_of(prep):
    return [Row.from_json(record) for record in read_jsonl(prep.path / "rows/test.jsonl")]


def predictions_of(run):
    return {record["id"]: record for record in read_jsonl(run.path / "predictions.jsonl")}


def test_every_row_is_answered_and_the_server_is_named(tmp_path, prep):
    with EvalStub() as stub:
        run = evaluation(tmp_path / "eval", prep, stub, "eval.max_new_tokens=33")
        evaluate.run(run)
    predictions = predictions_of(run)
    rows = rows_of(prep)
    assert predictions.keys() == {row.id for row in rows}
    assert set(stub.asked.values()) == {1}
    cut = [p for p in predictions.values() if p["truncated"]]
    assert 0 < len(cut) < len(rows)
    assert all(p["tokens"] == len(p["completion"].split()) for p in predictions.values())
    provenance = json.loads((run.path / "scores.json").read_text())["provenance"]
    assert provenance["engine"] == "openai: vllm 0.0.stub"
    assert provenance["served_model"] == provenance["model"] == MODEL
    assert (provenance["decoding"], provenance["failures"], run.manifest["failures"]) == ("greedy", 0, 0)
    assert not (run.path / "failures.jsonl").exists()


@pytest.mark.parametrize("blank", [False, True])
def test_the_prompt_builders_messages_are_sent_with_the_stored_files(blank, tmp_path, prep):
    with EvalStub() as stub:
        evaluate.run(evaluation(tmp_path / "eval", prep, stub, f"eval.blank={blank}", "eval.temperature=0.7"))
    prompt, sent = load_prompt(prep.config.prompt), collections.defaultdict(list)
    for body in stub.bodies:
        [message] = body["messages"]
        sent[message["content"][-1]["text"]].append(body)
    for row in rows_of(prep):
        [built] = build_messages(row, prompt)
        [body] = sent[built["content"][-1]["text"]]
        [message] = body["messages"]
        assert message["role"] == built["role"]
        urls = [part["image_url"]["url"] for part in message["content"][:-1]]
        assert len(urls) == len(row.images) == len(built["content"]) - 1
        for image, url in zip(row.images, urls, strict=True):
            head, content = url.split(",")
            assert head == "data:image/png;base64"
            stored = (prep.path / "images" / image.path).read_bytes()
            if blank:
                grey = Image.open(io.BytesIO(base64.b64decode(content)))
                assert grey.getcolors() == [(image.width * image.height, MID_GREY)]
            else:
                assert base64.b64decode(content) == stored
        assert {key: body[key] for key in ("model", "temperature", "max_tokens")} == {
            "model": MODEL, "temperature": 0.7, "max_tokens": 512,
        }  # fmt: skip
        assert body["seed"] == row_seed(prep.config.seed, row.id) % 2**31


def test_at_the_papers_temperature_the_likeliest_token_is_asked_for(tmp_path, prep):
    with EvalStub() as stub:
        evaluate.run(evaluation(tmp_path / "eval", prep, stub, "eval.max_rows=2"))
    assert [body["temperature"] for body in stub.bodies] == [0.0, 0.0]


def test_a_picture_is_encoded_once(tmp_path, prep, monkeypatch):
    read = collections.Counter()
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read.update([self.name]) or real(self))
    with EvalStub() as stub:
        evaluate.run(evaluation(tmp_path / "eval", prep, stub))
    pictures = {name: count for name, count in read.items() if name.endswith(".png")}
    assert pictures == {Path(image.path).name: 1 for row in rows_of(prep) for image in row.images}


def test_trouble_is_waited_out(tmp_path, prep, monkeypatch, capsys):
    monkeypatch.setattr("data_prep.endpoint.limits.FIRST_WAIT", 0.01)
    monkeypatch.setattr("stub_endpoint.HARDSHIPS", ("rate limit", "server error", "half JSON", "cut"))
    with EvalStub(trouble=1.0) as stub:
        run = evaluation(tmp_path / "eval", prep, stub)
        evaluate.run(run)
    assert len(predictions_of(run)) == len(rows_of(prep)) < sum(stub.asked.values())
    assert "waited out or given up:" in capsys.readouterr().out


def test_a_row_that_fails_for_good_is_listed_and_the_run_is_not_whole(tmp_path, prep):
    row = rows_of(prep)[3]
    with EvalStub(refuse=row.question) as stub:
        run = evaluation(tmp_path / "eval", prep, stub)
        with pytest.raises(UserError, match=r"1 rows were never answered .* status 400.*allow_failures=true"):
            evaluate.run(run)
        assert not run.finished
        [failure] = read_jsonl(run.path / "failures.jsonl")
        assert failure["id"] == row.id
        assert "too long" in failure["reason"]
        allowed = evaluation(tmp_path / "eval", prep, stub, "eval.allow_failures=true")
        evaluate.run(allowed)
        assert max(stub.asked.values()) == 2  # the refused row alone was asked for again
        assert next(text for text, times in stub.asked.items() if times == 2).count(row.question) == 1
        scores = json.loads((allowed.path / "scores.json").read_text())
        assert (scores["provenance"]["failures"], allowed.manifest["failures"]) == (1, 1)
        assert scores["overall"]["n"] == len(rows_of(prep)) - 1
    (allowed.path / "manifest.json").unlink()
    with EvalStub() as stub:  # a server that has learned better
        evaluate.run(evaluation(tmp_path / "eval", prep, stub))
    assert set(stub.asked.values()) == {1}
    assert len(stub.asked) == 1
    assert not (allowed.path / "failures.jsonl").exists()


def test_a_server_that_refuses_or_is_down_ends_the_run(tmp_path, prep, monkeypatch):
    monkeypatch.setattr("data_prep.endpoint.limits.FIRST_WAIT", 0.001)
    with EvalStub(status=401) as stub, pytest.raises(UserError, match=r"eval\.endpoint\.api_key_env="):
        evaluate.run(evaluation(tmp_path / "a", prep, stub))
    with pytest.raises(UserError, match=r"No server answers at .*launch serve.*eval\.serve=true"):
        evaluate.run(evaluation(tmp_path / "b", prep, stub))
    many = make_prep(tmp_path / "many", groups=15)
    with EvalStub(status=500) as stub, pytest.raises(UserError, match="answered none of 32 requests"):
        evaluate.run(evaluation(tmp_path / "c", many, stub, "eval.endpoint.tries=1"))


def test_no_row_answered_is_no_result(tmp_path, prep):
    with EvalStub(status=400) as stub, pytest.raises(UserError, match="no row was answered"):
        evaluate.run(evaluation(tmp_path / "eval", prep, stub, "eval.allow_failures=true"))


def test_an_unknown_model_is_asked_for_by_name(tmp_path, prep, monkeypatch):
    monkeypatch.setattr(EvalStub, "_models", _two_models)
    with EvalStub() as stub:
        with pytest.raises(UserError, match=r"lists one, two: name one with eval\.endpoint\.model="):
            evaluate.run(evaluation(tmp_path / "a", prep, stub))
        run = evaluation(tmp_path / "b", prep, stub, "eval.endpoint.model=two", "eval.max_rows=1")
        evaluate.run(run)
    assert [body["model"] for body in stub.bodies] == ["two"]


async def _two_models(self, request):
    from aiohttp import web

    return web.json_response({"data": [{"id": "one"}, {"id": "two"}]})


def test_a_full_disk_ends_the_run(tmp_path, prep, monkeypatch):
    def full(self, *records):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("data_prep.atomic.JsonlLog.append", full)
    with EvalStub(latency=0.01) as stub, pytest.raises(OSError, match="No space"):
        evaluate.run(evaluation(tmp_path / "eval", prep, stub, "eval.endpoint.concurrency=2"))
    assert len(stub.asked) <= 4


def test_a_line_that_is_no_row_is_not_passed_over(tmp_path, prep):
    path = prep.path / "rows/test.jsonl"
    path.write_text(path.read_text().replace('"category"', '"catgory"', 1))
    with EvalStub() as stub, pytest.raises(TypeError, match="catgory"):
        evaluate.run(evaluation(tmp_path / "eval", prep, stub))


def test_rows_are_streamed(tmp_path, prep, monkeypatch):
    """Never more rows out of the file than may be under way."""
    read, most = 0, 0
    stream = evaluate._stream

    def counted(source, wanted, rotated=0):
        nonlocal read, most
        answering = (tmp_path / "eval/predictions.jsonl").exists()  # before, rows are looked over one by one
        for row in stream(source, wanted, rotated):
            if not answering:
                yield row
                continue
            read += 1
            written = (tmp_path / "eval/predictions.jsonl").read_bytes().count(b"\n")
            most = max(most, read - written)
            yield row

    monkeypatch.setattr(evaluate, "_stream", counted)
    with EvalStub(latency=0.005) as stub:
        evaluate.run(evaluation(tmp_path / "eval", prep, stub, "eval.endpoint.concurrency=3"))
    assert read == len(rows_of(prep))
    assert most <= 3


def test_a_killed_evaluation_asks_for_nothing_twice_that_was_written(tmp_path):
    prep = make_prep(tmp_path / "prep", groups=80)
    rows = rows_of(prep)
    with EvalStub(latency=0.15) as stub:
        killed = evaluation(tmp_path / "killed", prep, stub, "eval.endpoint.concurrency=8")
        log = killed.path / "predictions.jsonl"
        for least in (20, 60):
            process = subprocess.Popen([sys.executable, "-m", "recipes", "eval", killed.path], cwd=ROOT)
            deadline = time.monotonic() + 90
            while not (log.exists() and log.read_bytes().count(b"\n") >= least):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.kill()
            process.wait()
            assert not killed.finished
            with open(log, "a") as cut:
                cut.write('{"id": "cvsbench/fov')  # a line that the kill cut short
        written = log.read_bytes()
        before = stub.asked.copy()
        stub.latency = 0.0
        evaluate.run(killed)
    kept = [json.loads(line)["id"] for line in written.split(b"\n")[:-1]]
    assert 60 <= len(kept) < len(rows)
    again = stub.asked - before
    prompt = load_prompt(prep.config.prompt)
    texts = {row.id: build_messages(row, prompt)[0]["content"][-1]["text"] for row in rows}
    assert set(again) == {texts[row.id] for row in rows} - {texts[name] for name in kept}
    assert set(again.values()) == {1}
    predictions = list(read_jsonl(log))
    assert sorted(p["id"] for p in predictions) == sorted(row.id for row in rows)
    assert killed.finished


def test_the_engine_needs_no_torch(tmp_path, prep):
    with EvalStub() as stub:
        run = evaluation(tmp_path / "eval", prep, stub)
        script = (
            "import sys\nfrom pathlib import Path\n"
            "from recipes import evaluate\nfrom recipes.run_dir import RunDir\n"
            "evaluate.run(RunDir(Path(sys.argv[1])))\n"
            "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", script, run.path], cwd=ROOT, check=False).returncode == 0
    assert run.finished
    assert len(make_rows(tmp_path / "again", 6)) == len(predictions_of(run))
