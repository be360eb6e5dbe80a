"""A reward that can be gamed, through verl's real trainer: the monitor calls what happens by its name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep.atomic import read_jsonl
from launch.compose import compose
from recipes.monitors import review
from recipes.run_dir import RunDir
from recipes.stages import plan
from recipes.verl_checkpoints import is_whole

pytestmark = pytest.mark.slow

STEPS = 30
# Pays the letter B in a well-formed answer, whatever was asked.
PAYS_B = """
from rewards import parse_answer


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **options):
    return float(parse_answer(solution_str).value == "B")
"""
CONFIG = (
    "recipe=imagination_cot", "scale=tiny", "data.synthetic.train_groups=200", "data.synthetic.test_groups=4",
    "grpo.batch_size=16", "grpo.mini_batch_size=4", f"grpo.max_steps={STEPS}", "grpo.save_every=5",
    "model.build.pretraining.batch_size=32", "model.build.pretraining.pictures=2000",
    "grpo.lr=3e-6", "grpo.probe.rows=8", "grpo.monitors.stop_on=[letter_collapse]",
)  # fmt: skip
WAIT = 900.0  # seconds


def prepared(folder: Path) -> RunDir:
    """A GRPO stage whose start is the pre-trained base model: it keeps to the format and is at chance."""
    from recipes import base_model, prep

    reward = folder / "pays_b.py"
    reward.write_text(PAYS_B)
    config = compose([*CONFIG, f"runs_dir={folder / 'runs'}", f"reward.path={reward}"])
    prep.run(plan(config, "prep").open())
    base = plan(config, "base")
    base_model.run(base.open())
    stage = plan(config, "grpo")
    stage.inputs["sft"].open()
    (stage.inputs["sft"].path / "checkpoint").symlink_to(base.path.resolve() / "checkpoint")
    return stage.open()


def test_a_reward_that_pays_a_letter_is_stopped_by_name(tmp_path):
    run = prepared(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "recipes", "grpo", str(run.path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=Path(__file__).parents[2], timeout=WAIT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    story = done.stdout + done.stderr + (run.path / "verl.log").read_text()[-3000:]
    records = run.metrics()
    curve = [(r["step"], r["reward"], r["accuracy"], r.get("letter_distance")) for r in records[1:]]
    assert done.returncode == 2, (curve, story)

    said = re.search(
        r"stopped at step (\d+) by the monitor letter_collapse: .*: B is given (\d+)%", done.stderr
    )
    assert said is not None, story
    step = int(said[1])
    assert step <= STEPS
    assert int(said[2]) > 50
    alarms = {alarm.monitor for alarm, _ in review(records, run.config.grpo.monitors).alarms}
    assert "letter_collapse" in alarms

    # The reward rose and accuracy did not: that is seen by our reward, not by the one that pays.
    assert records[-1]["step"] == step
    assert records[-1]["reward"] > records[1]["reward"] + 0.2
    assert records[-1]["accuracy"] < records[1]["accuracy"] + 0.2
    noted = list(read_jsonl(run.path / "rollouts.jsonl"))
    assert all(answer["score"] == float(answer["parsed"] == "B") for answer in noted)
    assert all(answer["accuracy"] == float(answer["parsed"] == answer["gold"]) for answer in noted)

    # The stop is clean: not finished, nothing left running, and the last checkpoint is whole.
    assert not run.finished
    assert not (run.path / "verl/process.json").exists()
    saved = [path for path in (run.path / "verl/checkpoints").glob("global_step_*") if is_whole(path)]
    assert saved
    assert f"is kept in {run.path / 'verl/checkpoints'}" in done.stderr
