"""The prep stage with a model for a teacher: what is asked, kept, set aside, reported, shown before, and
resumed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from miniature import put_cvusa
from prep_runs import compose_config, open_prep
from stub_endpoint import Stub

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.teacher.cache import FILE
from data_prep.teacher.limits import Stopped
from launch.cli import main
from recipes import prep
from recipes.run_dir import RunDir
from recipes.stages import plan

ROOT = Path(__file__).parents[2]


@pytest.fixture
def release(tmp_path):
    put_cvusa(tmp_path / "release", train=40, test=4, teach=False)
    return tmp_path / "release"


def words(release: Path, base_url: str, *more: str) -> list[str]:
    return [
        f"data.root={release}", "data.subsets=[cvusa]", "teacher=openai", "teacher.model=stub",
        f"teacher.base_url={base_url}", "teacher.api_key_env=null", "teacher.timeout=1", *more,
    ]  # fmt: skip


def lines(run: RunDir, name: str) -> list[dict]:
    return list(read_jsonl(run.path / name))


@pytest.mark.parametrize(("response_format", "pictures"), [("imagination_cot", {2}), ("structured_cot", {1})])
def test_the_sft_half_is_taught(response_format, pictures, release, tmp_path, capsys):
    with Stub(flawed=True) as stub:
        run = open_prep(tmp_path, *words(release, stub.base_url, f"prompt={response_format}"))
        prep.run(run)
    sft, aside = lines(run, "rows/sft.jsonl"), lines(run, "quarantine.jsonl")
    assert set(stub.pictures) == pictures
    assert {record["id"]: record["reasoning"] for record in sft} == {
        record["id"]: record["reasoning"] for record in lines(run, "teacher/reasoning.jsonl")
    }
    rejected = lines(run, "teacher/rejected.jsonl")
    assert [record["id"] for record in aside] == [record["id"] for record in rejected]
    assert all(record["kind"] == "reasoning" for record in aside)
    assert all("rejected 3 times" in record["reason"] for record in aside)
    assert not any(record["reasoning"] for record in lines(run, "rows/rl.jsonl"))
    found = json.loads((run.path / "teacher_report.json").read_text())
    assert (found["kept"], found["rows"]) == (len(sft), len(sft) + len(aside))
    assert sum(counts["rows"] for counts in found["categories"].values()) == found["rows"]
    assert run.manifest["teacher"]["kept"] == len(sft)
    told = capsys.readouterr().out
    assert f"teacher: {found['rows']} rows, 0 of them answered before" in told
    assert "cost unknown" in told
    prompts = (run.path / "teacher/prompts.md").read_text()
    assert prompts.count("### system") == 3


def test_the_report_names_what_was_rejected(release, tmp_path):
    with Stub(flawed=True, trouble=0.0) as stub:
        once = words(release, stub.base_url, "prompt=structured_cot", "teacher.retries=0")
        run = open_prep(tmp_path, *once)
        prep.run(run)
    found = json.loads((run.path / "teacher_report.json").read_text())
    rejected = lines(run, "teacher/rejected.jsonl")
    assert len(rejected) == found["rows"] - found["kept"] > 0
    checks = {check for record in rejected for check in record["attempts"][-1]["checks"]}
    assert set(found["checks"]) == set(found["examples"]) == checks
    text = (run.path / "teacher_report.md").read_text()
    assert all(f"## Rejected by `{check}`" in text for check in checks)
    assert all(record["id"] in text for record in rejected[:3])


def test_nothing_is_paid_for_while_pictures_are_broken(release, tmp_path):
    (release / "cvusa/data/streetview/0000003.jpg").write_bytes(b"broken")
    with Stub(flawed=False) as stub:
        run = open_prep(tmp_path, *words(release, stub.base_url))
        with pytest.raises(UserError, match="have a picture that is missing or cannot be read"):
            prep.run(run)
        assert not stub.log


def test_a_limit_that_is_raised_goes_on_in_the_same_directory(release, tmp_path):
    patient = "teacher.timeout=60"  # a busy machine may take more than the others' second, and ask again
    with Stub(flawed=False, trouble=0.0) as stub:
        limited = open_prep(tmp_path, *words(release, stub.base_url, patient, "teacher.max_requests=5"))
        with pytest.raises(Stopped, match="max_requests=5"):
            prep.run(limited)
        assert len(stub.log) == 5
        raised = open_prep(tmp_path, *words(release, stub.base_url, patient, "teacher.max_requests=500"))
        assert raised.path == limited.path
        prep.run(raised)
        assert len(stub.log) == len(lines(raised, "rows/sft.jsonl"))


def test_rows_that_were_never_answered_are_asked_for_again_or_set_aside(release, tmp_path, monkeypatch):
    monkeypatch.setattr("data_prep.endpoint.limits.FIRST_WAIT", 0.001)
    with Stub(flawed=False, trouble=0.2) as stub:
        asked = words(release, stub.base_url, "teacher.tries=1")
        run = open_prep(tmp_path, *asked)
        with pytest.raises(UserError, match="rows without an answer"):
            prep.run(run)
        again = open_prep(tmp_path, *asked, "teacher.allow_unanswered=true")
        assert again.path == run.path
        prep.run(again)
        aside = lines(again, "quarantine.jsonl")
        assert all("gave no answer" in record["reason"] for record in aside)
        assert again.manifest["teacher"]["unanswered"] == len(aside)


def test_a_judge_may_reject(release, tmp_path):
    with Stub(flawed=False, trouble=0.0) as stub:
        run = open_prep(tmp_path, *words(release, stub.base_url, "teacher.judge=judge", "teacher.retries=1"))
        prep.run(run)
    assert stub.judged > 0
    found = json.loads((run.path / "teacher_report.json").read_text())
    assert found["checks"]["judge"]["texts"] > 0
    assert found["kept"] > found["checks"]["judge"]["rows_lost"]


OUTPUTS = (
    "rows/sft.jsonl", "rows/rl.jsonl", "quarantine.jsonl", "teacher_report.json", "teacher/rejected.jsonl",
)  # fmt: skip


def test_killed_while_it_asks_prep_ends_the_same(release, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Stub(latency=0.05) as stub:
        run = open_prep(tmp_path / "killed", *words(release, stub.base_url, "teacher.concurrency=4"))
        command = [sys.executable, "-m", "recipes", "prep", str(run.path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        while process.poll() is None and len(stub.log) < 20:
            time.sleep(0.001)
        process.kill()
        process.wait()
        assert 0 < (run.path / "teacher" / FILE).read_bytes().count(b"\n") < 40
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    with Stub(latency=0.0) as stub:
        undisturbed = open_prep(tmp_path / "undisturbed", *words(release, stub.base_url))
        prep.run(undisturbed)
    for name in OUTPUTS:
        assert (run.path / name).read_bytes() == (undisturbed.path / name).read_bytes(), name


@pytest.mark.parametrize("teacher", ["gemini", "vllm"])
def test_the_ready_made_endpoints_compose(teacher):
    config = compose_config("data.root=/data", f"teacher={teacher}").teacher
    assert config.kind == "openai"
    assert config.base_url.startswith("http")
    assert config.retries == 2
    assert None not in (config.model, config.price_in)


def test_how_it_is_asked_moves_no_directory_and_what_is_asked_does():
    def folder(*more: str) -> Path:
        return plan(compose_config(*words(Path("/data"), "http://a/v1"), *more), "prep").path

    neutral = (
        "base_url=http://b/v1", "api_key_env=X", "concurrency=8", "timeout=9", "tries=2", "max_cost=3",
        "cache=c", "max_requests=4", "price_in=1", "price_out=2", "allow_unanswered=true",
    )  # fmt: skip
    assert {folder(f"teacher.{word}") for word in neutral} == {folder()}
    moved = ("model=m", "options.temperature=0", "give_answer=false", "retries=0", "max_overlap=1", "judge=j")
    assert len({folder(), *(folder(f"teacher.{word}") for word in moved)}) == len(moved) + 1


def test_a_dry_run_shows_three_requests_and_loads_no_client(release, tmp_path):
    arguments = ["prep", "recipe=structured_cot", *words(release, "http://127.0.0.1:1/v1"), "dry_run=true"]
    script = (
        f"import sys; from launch.cli import main; assert main({arguments!r}) == 0; "
        "assert not {'openai', 'torch', 'pyarrow'} & set(sys.modules), sys.modules.keys()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("### system") == 2  # one a subset and task
    assert "[picture cvusa/data/streetview/0000001.jpg]" in ended.stdout
    assert "teacher/prompts.md" in ended.stdout
    assert not list(tmp_path.glob("runs*"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["teacher.api_key_env=NO_SUCH_KEY"], "NO_SUCH_KEY holds no key"),
        (["teacher.max_cost=1"], "wants teacher.price_in= and teacher.price_out="),
        (["teacher.prompt_file=nowhere.txt"], "teacher.prompt_file=nowhere.txt does not exist"),
        (["teacher.concurrency=0"], "teacher.concurrency=0 is too small"),
        (["teacher.max_overlap=1.5"], "teacher.max_overlap=1.5 is no share"),
    ],
)
def test_mistakes_are_told_before_anything_starts(more, message, release, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["prep", "recipe=imagination_cot", *words(release, "http://127.0.0.1:1/v1"), *more]) == 2
    assert message in capsys.readouterr().err


def test_an_endpoint_must_be_named(release, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["prep", "recipe=imagination_cot", f"data.root={release}", "teacher=openai"]) == 2
    told = capsys.readouterr().err
    assert "teacher.base_url is not set" in told
    assert "teacher.model is not set" in told
