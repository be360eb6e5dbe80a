"""Keys in the environment reach no file and no output: a whole run with keys planted and errors provoked."""

import sys
from pathlib import Path

import pytest
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1] / "recipes"))
from eval_endpoint import EvalStub
from stub_endpoint import Stub

from launch.cli import main

pytestmark = pytest.mark.slow

KEYS = {
    "TEACHER_API_KEY": "sk-Teacher0-7d1f9a3b5c8e2046",
    "GRADER": "plain words that are a key 5518",  # its name does not say so; the configuration does
    "HF_TOKEN": "hf_ABCDEFabcdef0123456789xyz",
    "WANDB_API_KEY": "0f1e2d3c4b5a69788796a5b4c3d2e1f001234567",
    "MY_SECRET": "s/e+c r&e=t 0042",
}
SMALL = (
    "recipe=imagination_cot", "scale=tiny", "data.synthetic.train_groups=16", "data.synthetic.test_groups=4",
    "model.build.pretraining.steps=0", "model.build.pretraining.pictures=8", "model.build.vocabulary=400",
    "sft.batch_size=4", "model.sft_micro_batch_size=4", "sft.max_steps=1", "logger=wandb",
)  # fmt: skip
TEACHER = ("teacher=openai", "teacher.model=stub", "teacher.api_key_env=TEACHER_API_KEY", "teacher.tries=3")
EVAL = (
    "eval.checkpoint=sft", "eval.engine=openai", "eval.endpoint.api_key_env=GRADER", "eval.endpoint.tries=1",
)  # fmt: skip


class Careless:
    """Answers a `share` of the requests with an error that repeats their headers, as a proxy may."""

    code, share = 401, 1.0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        said = request.headers["Authorization"]
        if len(await request.read()) % 100 >= 100 * self.share:
            return await super()._answer(request)
        message = f"bad key {said}, all headers: {dict(request.headers)}"
        return web.json_response({"error": {"message": message}}, status=self.code)


class CarelessTeacher(Careless, Stub): ...


class CarelessServer(Careless, EvalStub):
    code, share = 422, 0.5


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """`run(*words)`: the status of a command; `run.said` is all that was printed so far."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)

    def launched(command: str, *words: str) -> int:
        status = main([command, *SMALL, *words])
        launched.said += "".join(capfd.readouterr())
        return status

    launched.said = ""
    return launched


def test_no_key_reaches_a_file_or_the_output(run, tmp_path):
    with CarelessTeacher() as refuses:
        assert run("prep", *TEACHER, f"teacher.base_url={refuses.base_url}") == 2
    assert "refuses the key in TEACHER_API_KEY" in run.said
    assert "<TEACHER_API_KEY>" in run.said  # what the endpoint repeated
    with Stub(flawed=False, trouble=0.0) as teacher:
        asked = (*TEACHER, f"teacher.base_url={teacher.base_url}")
        assert run("sft", *asked) == 0, run.said
    with CarelessServer() as careless:
        eval_asked = (*asked, *EVAL, f"eval.endpoint.base_url={careless.base_url}")
        assert run("eval", *eval_asked, "eval.allow_failures=true") == 0, run.said
    failures = [*tmp_path.glob("runs/*/eval-*/failures.jsonl")]
    assert "<GRADER>" in failures[0].read_text()
    assert run("report", *asked, f"report.runs={[str(failures[0].parent)]}".replace("'", "")) == 0, run.said
    assert run("grpo", *asked, "grpo.overrides=[trainer.experiment_name=x]", "reward.path=absent.py") == 2
    # Typed where the name of a variable was asked for, or anywhere else.
    for word in (f"teacher.api_key_env={KEYS['TEACHER_API_KEY']}", f"runs_dir=runs/{KEYS['MY_SECRET']}"):
        assert run("prep", word) == 2
        assert f"{word.partition('=')[0]} on the command line holds a key" in run.said
    password = "teacher.base_url=https://me:letmein0@elsewhere/v1"
    assert run("prep", *TEACHER, password, "runs_dir=other") == 2
    assert "teacher.base_url holds a password" in run.said

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    names = {path.name for path in written}
    assert {"command.txt", "environment.txt", "failures.jsonl", "replies.jsonl", "README.md"} <= names
    assert any("wandb" in str(path) for path in written)
    for name, key in KEYS.items():
        found = [str(path) for path in written if key.encode() in path.read_bytes()]
        assert found == [], name
        assert key not in run.said, name
    assert "letmein0" not in "".join(path.read_text(errors="ignore") for path in written)
