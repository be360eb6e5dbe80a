"""MonoSR's prep with a model for words: captions, rewording, and what the manifest says of both."""

import random
from collections import Counter
from typing import Any

from omegaconf import OmegaConf
from test_monosr_prep import TINY, open_run, rows
from test_monosr_rewriting import Rewriter

from data_prep.monosr.wording import open_part
from launch.cli import main
from recipes import prep
from recipes.run_dir import decisive


class Words(Rewriter):
    """Rewords as `Rewriter` does, calls every object painted, and finds the first of them by that."""

    def complete(self, body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        content = body["messages"][1]["content"]
        if len(content) == 1:
            return super().complete(body, rng)
        asked = content[-1]["text"].split(": ")
        answer = f"painted {asked[1]}" if asked[0] == "The noun is" else "1"
        message = {"role": "assistant", "content": answer}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}


def test_prep_asks_a_model_for_words(tmp_path):
    sizes = ("data.synthetic.train_pictures=18", "data.synthetic.test_pictures=12")
    with Words(trouble=0.0, flawed=False) as stub:
        words = ("model=stub", "api_key_env=null", "captions=true", f"base_url={stub.base_url}", "timeout=5")
        run = open_run(tmp_path, *TINY, *sizes, *(f"data.wording.{word}" for word in words))
        prep.run(run)
    found, manifest = rows(run), run.manifest
    whole = [row for part in found.values() for row in part]
    assert {row.meta["words"] for row in whole} == {"teacher"}
    assert all("Please look closely" in open_part(row) for row in whole)
    assert manifest["words"]["train"]["words"] == {"teacher": len(found["sft"])}
    assert manifest["captions"]["train"]["kept"] > 0
    named = Counter(" painted " in row.question for row in whole)
    assert named[True] > 0
    assert named[False] > 0
    assert (run.path / "replies/replies.jsonl").exists()
    assert not (run.path / "worded").exists()


def test_keys_of_a_model_that_is_not_asked_decide_nothing(tmp_path):
    plain = decisive(dict(_container(open_run(tmp_path))))
    other = open_run(tmp_path, "data.wording.retries=7", "data.wording.captions=true")
    assert decisive(dict(_container(other))) == plain
    asked = open_run(tmp_path, "data.wording.model=m")
    assert decisive(dict(_container(asked))) != plain


def test_a_model_without_a_key_is_told_before_the_start(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["recipe=monosr", "scale=tiny", "data.wording.model=m", "data.wording.api_key_env=NO_KEY"]
    assert main(["prep", *words]) == 2
    assert "NO_KEY holds no key for the endpoint" in capsys.readouterr().err


def _container(run) -> dict[str, Any]:
    return OmegaConf.to_container(run.config)
