"""`teacher=none`: a set for the evaluation of base models, which no SFT can be started on."""

from miniature import put_cvusa
from prep_runs import open_release

from data_prep.atomic import read_jsonl
from launch.compose import compose
from launch.preflight import findings
from recipes import prep
from recipes.stages import plan


def test_the_sets_are_written_without_reasoning(tmp_path):
    put_cvusa(tmp_path / "release", train=16, test=4)
    run = open_release(tmp_path / "runs", tmp_path / "release", "teacher=none")
    prep.run(run)
    sft = list(read_jsonl(run.path / "rows" / "sft.jsonl"))
    assert sft
    assert {row["reasoning"] for row in sft} == {None}
    assert list(read_jsonl(run.path / "quarantine.jsonl")) == []
    assert run.manifest["teacher"] == {"kind": "none"}


def test_sft_on_them_is_refused():
    config = compose(["recipe=imagination_cot", "scale=tiny", "teacher=none", "eval.checkpoint=base"])
    refused = "teacher=none leaves the SFT rows without reasoning: take teacher=file teacher.path=FILE."
    assert refused in findings(config, plan(config, "sft").with_inputs())
    assert refused not in findings(config, plan(config, "eval").with_inputs())
