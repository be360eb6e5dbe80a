"""The end of a pipeline: what is reported of, and how the terminal's table reads."""

import sys

from launch import local
from launch.compose import compose
from launch.pipeline import execute
from launch.summary import table

RECORDS = [
    {"label": "base", "n": 800, "accuracy": 0.25, "low": 0.221, "high": 0.28, "difference": None},
    {
        "label": "SFT+RL, grey pictures", "n": 800, "accuracy": 0.875, "low": 0.85, "high": 0.9,
        "previous": "SFT+RL", "difference": -0.1004, "difference_low": -0.125, "difference_high": 0.0751,
    },
]  # fmt: skip


def test_the_table_shows_accuracies_and_changes_with_their_intervals():
    lines = table(RECORDS)
    assert lines == [
        "",
        "                      accuracy on 800 questions change",
        "base                  25.0 % (22.1 to 28.0)",
        "SFT+RL, grey pictures 87.5 % (85.0 to 90.0)     -10.0 (-12.5 to +7.5) on SFT+RL",
    ]
    assert max(map(len, lines)) <= 80


def test_a_report_is_made_of_what_is_finished(tmp_path, monkeypatch, capsys):
    script = "from pathlib import Path; import sys; Path(sys.argv[1], 'manifest.json').write_text('{}')"
    monkeypatch.setattr(local, "stage_command", lambda stage: [sys.executable, "-c", script, str(stage.path)])
    given = []

    def write_report(evals, grpo, sft, out, title):
        given.append((list(evals), grpo is not None, sft is not None, title))
        return out

    monkeypatch.setattr("recipes.report.write_report", write_report)
    monkeypatch.setattr("recipes.report.summary", lambda evals: RECORDS)
    monkeypatch.setattr("recipes.viewer.write_viewer", lambda runs, out, title, side: out / "index.html")
    options = ["recipe=structured_cot", "scale=tiny", f"runs_dir={tmp_path}"]
    assert execute("eval", compose([*options, "eval.checkpoint=sft"]), ["eval"]) == 0
    assert execute("report", compose(options), ["report"]) == 0
    assert execute("pipeline", compose(options), ["pipeline"]) == 0
    title = "structured_cot (tiny)"
    assert given == [
        (["sft"], False, True, title),
        (["base", "sft", "grpo", "grpo-blank"], True, True, title),
    ]
    told = capsys.readouterr().out
    assert f"report: {tmp_path}/structured_cot-tiny/report.html" in told
    assert f"viewer: {tmp_path}/structured_cot-tiny/viewer/index.html" in told
