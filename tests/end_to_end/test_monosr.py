"""MonoSR from drawn boxes to scored answers, by the command line: SFT, GRPO by verl's trainer, evaluation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep.atomic import read_jsonl
from launch.compose import compose
from recipes.stages import plan

pytestmark = pytest.mark.slow

CONFIG = (
    "recipe=monosr_grpo", "scale=tiny", "data.aux=vp2d_bbox3d", "eval.checkpoint=grpo",
    "data.synthetic.train_pictures=90", "data.synthetic.test_pictures=30", "data.synthetic.side=96",
    "data.max_train_questions=400", "data.max_test_questions=60",
    "model.build.pretraining.steps=6", "model.build.pretraining.batch_size=8",
    "model.build.pretraining.pictures=40", "model.build.pretraining.side=96",
    "sft.max_steps=3", "sft.batch_size=16", "grpo.max_steps=2", "grpo.batch_size=8", "grpo.mini_batch_size=4",
    "grpo.probe.rows=4", "grpo.probe.max_flat_share=1",
    "eval.max_new_tokens=24", "model.max_response_tokens=24",
)  # fmt: skip
WAIT = 900.0  # seconds


def test_boxes_become_questions_and_their_answers_are_trained_and_scored(tmp_path):
    words = [*CONFIG, f"runs_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "launch", "eval", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=Path(__file__).parents[2], timeout=WAIT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    evaluation = plan(compose(words), "eval")
    prep, grpo = evaluation.inputs["prep"].path, evaluation.inputs["grpo"].path

    asked = {row["id"]: row for row in read_jsonl(prep / "rows/rl.jsonl")}
    answers = list(read_jsonl(grpo / "rollouts.jsonl"))
    assert len(answers) == 2 * 8 * 8, "two steps of eight prompts with eight answers each"
    for answer in answers:
        row = asked[answer["id"]]
        assert (answer["task"], answer["gold"]) == (row["task"], str(row["answer"]))
    assert {answer["answer_type"] for answer in answers} >= {"choice", "number"}

    tested = {row["id"]: row for row in read_jsonl(prep / "rows/test.jsonl")}
    predictions = {line["id"]: line for line in read_jsonl(evaluation.path / "predictions.jsonl")}
    assert predictions.keys() == tested.keys()
    assert all(row["meta"]["aux"]["text"] for row in tested.values())
    scores = json.loads((evaluation.path / "scores.json").read_text())
    assert scores["overall"]["n"] == len(tested)
