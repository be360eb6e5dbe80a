"""Miniatures from an image endpoint that misbehaves: what is survived, what is paid once, what is listed."""

import contextlib
import subprocess
import sys
import time
import types

import pytest
from image_endpoint import HARDSHIPS, ImageStub, drawing
from miniature import put_picture
from omegaconf import OmegaConf
from PIL import Image
from prep_runs import compose_config, open_prep
from view_releases import of_release, prepare, rows

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.teacher.client import Stopped
from data_prep.views.image_client import GeminiClient, image_client
from data_prep.views.layouts import is_symmetry
from data_prep.views.miniature import make_miniatures
from data_prep.views.prompts import load_prompts


class Bar:
    def __init__(self, title, total, already=0):
        self.total, self.already, self.done = total, already, 0

    def update(self, done, note=""):
        self.done = done


def settings(base_url, **keys):
    config = compose_config("data.views=miniature").data.views_miniature
    fixed = {"api": "edit", "base_url": base_url, "model": "m", "api_key_env": None, "timeout": 0.5}
    return OmegaConf.merge(config, {**fixed, **keys})


def wanted(folder, count):
    """Keys and files of `count` miniatures, of one to four pictures."""
    found = {}
    for number in range(count):
        kind = ("satellite", "street", "streets")[number % 3]
        files = [folder / f"{number}-{i}.png" for i in range(number % 4 + 1 if kind == "streets" else 1)]
        for place, file in enumerate(files):
            put_picture(file, (20, 20), 10 * number + place)
        found[(kind, *map(str, files))] = files
    return found


def make(folder, stub, asked, **keys):
    return make_miniatures(
        settings(stub.base_url, **keys), asked, folder, lambda *a: contextlib.nullcontext(Bar(*a))
    )


def test_every_hardship_is_survived_and_nothing_is_paid_twice(tmp_path, capsys):
    asked = wanted(tmp_path, 18)
    with ImageStub(trouble=0.9) as stub:
        made, used = make(tmp_path / "out", stub, asked)
        assert {name for name in HARDSHIPS if stub.met[name]} == set(HARDSHIPS)
        assert stub.met["sound"] == len(asked) == len(stub.sent)
        assert set(stub.paid.values()) == {1}
        prompts = load_prompts(None)
        by_prompt = {prompt: kind for kind, prompt in prompts.items()}
        shown = {tuple(pictures): by_prompt[prompt] for prompt, pictures in stub.sent}
        for key, files in asked.items():
            assert shown[tuple(f.read_bytes() for f in files)] == key[0]
        before = len(stub.log)
        again, _ = make(tmp_path / "out", stub, asked)
        assert len(stub.log) == before
        assert again == made
    for one in made.values():
        with Image.open(one.path) as picture:
            assert picture.size == (1024, 1024)
    assert used["prompt_tokens"] == 18 * 500
    assert list(read_jsonl(tmp_path / "out/failures.jsonl")) == []
    assert "18 wanted, 18 of them made before" in capsys.readouterr().out


def test_what_is_no_square_or_refused_is_asked_again_and_then_listed(tmp_path):
    asked = wanted(tmp_path, 40)
    with ImageStub(trouble=0.0, flaw_share=0.6) as stub:
        made, _ = make(tmp_path / "out", stub, asked, retries=1)
        assert stub.met["wide"]
        assert stub.met["refused"]
        assert stub.met["small"]
        assert 40 < len(stub.sent) <= 80
    failed = {key for key, one in made.items() if one.path is None}
    listed = list(read_jsonl(tmp_path / "out/failures.jsonl"))
    assert {tuple(record["pictures"]) for record in listed} == {key[1:] for key in failed}
    assert 0 < len(failed) < 40
    reasons = " ".join(record["reason"] for record in listed)
    assert "96 x 64, not square" in reasons
    assert "refused" in reasons
    for one in made.values():
        if one.path:
            with Image.open(one.path) as picture:
                assert picture.size == (1024, 1024)  # a small square is scaled


def test_the_cost_is_told_before_and_the_limits_hold_over_all_attempts(tmp_path, capsys):
    asked = wanted(tmp_path, 12)
    prices = {"price_in": 1.0, "price_out": 100.0, "concurrency": 1}
    with ImageStub(trouble=0.0) as stub:
        with pytest.raises(Stopped, match=r"data\.views_miniature\.max_requests=5 is reached"):
            make(tmp_path / "out", stub, asked, max_requests=5, **prices)
        assert len(stub.sent) == 5
        out = capsys.readouterr().out
        assert "12 wanted, 0 of them made before. 12 to 24 requests to m" in out
        assert "1.55 to 3.10 dollars" in out  # 12 x 1290 picture tokens
        with pytest.raises(Stopped, match=r"data\.views_miniature\.max_cost=0.8 is reached"):
            make(tmp_path / "out", stub, asked, max_cost=0.8, **prices)
        assert len(stub.sent) == 7  # a tenth of a dollar each
        made, used = make(tmp_path / "out", stub, asked, **prices)
        assert len(stub.sent) == 12
    assert used["made_before"] == 7
    assert used["dollars"] == pytest.approx(12 * (500 * 1.0 + 1000 * 100.0) / 1e6)
    assert all(one.path for one in made.values())


def test_a_picture_that_is_gone_is_asked_for_again(tmp_path):
    asked = wanted(tmp_path, 3)
    with ImageStub(trouble=0.0) as stub:
        made, _ = make(tmp_path / "out", stub, asked)
        gone = next(iter(made.values())).path
        gone.unlink()
        again, _ = make(tmp_path / "out", stub, asked)
        assert len(stub.sent) == 4
        assert gone.is_file()
    assert again == made


def test_an_endpoint_that_never_answers_stops_prep_unless_allowed(tmp_path):
    asked = wanted(tmp_path, 3)
    with ImageStub(status=500) as stub:
        with pytest.raises(UserError, match="left 3 of 3 miniatures without an answer"):
            make(tmp_path / "out", stub, asked, tries=1)
        made, _ = make(tmp_path / "out", stub, asked, tries=1, allow_unanswered=True)
        assert all(one.unanswered for one in made.values())
    with (
        ImageStub(status=401) as stub,
        pytest.raises(UserError, match=r"data\.views_miniature\.api_key_env="),
    ):
        make(tmp_path / "out", stub, asked)


def test_servers_that_take_pictures_with_generations(tmp_path):
    asked = wanted(tmp_path, 3)
    with ImageStub(trouble=0.0) as stub:
        made, _ = make(tmp_path / "out", stub, asked, api="generate")
        assert [fields["size"] for fields in stub.fields] == ["1024x1024"] * 3
        assert {tuple(p) for _, p in stub.sent} == {
            tuple(f.read_bytes() for f in files) for files in asked.values()
        }
    assert all(one.path for one in made.values())


def test_prompts_of_the_users_own(tmp_path):
    (tmp_path / "street.txt").write_text("Draw it.\n")
    own, ours = load_prompts(str(tmp_path)), load_prompts(None)
    assert own == {**ours, "street": "Draw it."}
    assert all("45 degrees" in prompt and "square" in prompt for prompt in ours.values())
    assert len(set(ours.values())) == 3
    (tmp_path / "street.txt").write_text(" ")
    with pytest.raises(UserError, match="is empty"):
        load_prompts(str(tmp_path))
    (tmp_path / "street.txt").unlink()
    with pytest.raises(UserError, match=r"holds none of satellite\.txt, street\.txt, streets\.txt"):
        load_prompts(str(tmp_path))


def options(stub, *more):
    section = "data.views_miniature"
    return (
        "data.views=miniature", f"{section}.api=edit", f"{section}.base_url={stub.base_url}",
        f"{section}.model=m", f"{section}.api_key_env=null", f"{section}.timeout=1", *more,
    )  # fmt: skip


def test_prep_has_miniatures_made_and_lists_what_failed(view_release, tmp_path):
    with ImageStub(trouble=0.2, flaw_share=0.5) as stub:
        run = prepare(tmp_path / "runs", view_release, *options(stub, "data.views_miniature.retries=0"))
    missing = {m["id"] for m in read_jsonl(run.path / "missing_views.jsonl")}
    found = rows(run)
    assert missing
    assert found.keys() == {row.id for row in of_release(view_release)} - missing
    assert all((r.images[1].role, r.images[1].width) == ("miniature", 1024) for r in found.values())
    assert {r.images[0].role for r in found.values() if is_symmetry(r)} <= {"strip"}
    assert any(len(pictures) == 4 for _, pictures in stub.sent)
    assert run.manifest["views"]["missing"] == len(missing)


def test_a_killed_prep_pays_for_nothing_twice(view_release, tmp_path):
    with ImageStub(trouble=0.0, latency=0.05) as stub:
        fixed = (f"data.root={view_release}", f"teacher.path={view_release}/reasoning.jsonl", *options(stub))
        run = open_prep(tmp_path / "runs", *fixed, "data.views_miniature.concurrency=1")
        command = [sys.executable, "-m", "recipes", "prep", str(run.path)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(stub.sent) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        paid = len(stub.sent)
        assert 4 <= paid < 40
        whole = prepare(tmp_path / "runs", view_release, *options(stub))
        assert whole.path == run.path
        repeated = {key: n for key, n in stub.paid.items() if n > 1}
        assert sum(repeated.values()) <= 2  # the one that was under way
    assert len(rows(whole)) == len(of_release(view_release))


def test_gemini_is_an_extra_and_its_answers_are_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.genai", None)
    config = settings(None, api="gemini")
    with pytest.raises(UserError, match=r"pip install 'spatial-recipes\[gemini\]'"):
        image_client(config, tmp_path)
    answers = iter([_Api(503), _part(b""), _part(drawing("x", (1024, 1024)))])
    _install_genai(monkeypatch, answers)
    monkeypatch.setenv("A_KEY", "secret")
    asked = wanted(tmp_path, 1)
    config.api_key_env, config.retries = "A_KEY", 1
    made, used = make_miniatures(config, asked, tmp_path / "out", lambda *a: contextlib.nullcontext(Bar(*a)))
    (one,) = made.values()
    assert Image.open(one.path).size == (1024, 1024)
    assert used["faults"] == {"status 503": 1}
    assert (used["prompt_tokens"], used["picture_tokens"]) == (14, 2580)
    assert isinstance(image_client(config, tmp_path / "x"), GeminiClient)


class _Api(Exception):
    def __init__(self, code):
        super().__init__(f"{code}")
        self.code = code


def _part(data):
    space = types.SimpleNamespace
    parts = [space(inline_data=space(data=data) if data else None, text="no")]
    usage = space(prompt_token_count=7, candidates_token_count=1290)
    return space(candidates=[space(content=space(parts=parts))], usage_metadata=usage)


def _install_genai(monkeypatch, answers):
    """A stand-in for google-genai with the calls that are used of it."""

    async def generate_content(model, contents, config):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    space = types.SimpleNamespace
    genai = types.ModuleType("google.genai")
    client = space(aio=space(models=space(generate_content=generate_content)))
    genai.Client = lambda api_key: client
    genai.errors = space(APIError=_Api)
    part = space(from_bytes=lambda data, mime_type: (data, mime_type))
    keep = lambda **fields: fields  # noqa: E731
    genai.types = space(Part=part, GenerateContentConfig=keep, ImageConfig=keep)
    google = types.ModuleType("google")
    google.genai = genai
    for name, module in (("google", google), ("google.genai", genai)):
        monkeypatch.setitem(sys.modules, name, module)
