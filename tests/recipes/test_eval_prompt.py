"""A base model is asked without reasoning: `eval.prompt` asks otherwise than the prepared set does."""

import pytest
from evaluation_runs import make_eval, make_prep, tiny_config

from data_prep.prompts import load_prompt
from launch.cli import main
from recipes.evaluate import prompt_of
from recipes.stages import plan


@pytest.mark.parametrize("asked", ["null", "answer_only", "think_answer"])
def test_the_prompt_of_an_evaluation(asked, tmp_path):
    prep = make_prep(tmp_path / "prep")
    found = prompt_of(make_eval(tmp_path / "eval", prep, "base", f"eval.prompt={asked}"))
    own = load_prompt(prep.config.prompt)
    assert found.format == (own.format if asked == "null" else asked)
    assert (found.hash == own.hash) == (asked == "null")
    assert ("<think>" in found.instruction) == (asked == "think_answer")


def test_it_moves_the_evaluation_and_no_other_stage():
    with_key, without = (
        plan(tiny_config("eval.checkpoint=sft", *words), "eval")
        for words in (("eval.prompt=answer_only",), ())
    )
    assert with_key.hash != without.hash
    assert {name: stage.hash for name, stage in with_key.inputs.items()} == {
        name: stage.hash for name, stage in without.inputs.items()
    }


def test_a_wrong_one_is_refused(capsys):
    assert main(["eval", "recipe=imagination_cot", "scale=tiny", "eval.prompt=answer"]) == 2
    assert "did you mean answer_only?" in capsys.readouterr().err
