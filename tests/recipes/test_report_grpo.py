"""The part of the report that watches over GRPO, on simulated runs."""

import html
import re

import pytest
from evaluation_runs import make_pipeline, make_prep, tiny_config
from policies import healthy, run_of

from data_prep.atomic import write_json, write_jsonl
from launch.compose import compose
from launch.summary import write as write_summary
from recipes.report import write_report
from recipes.report_grpo import alarms_of, watched
from recipes.run_dir import RunDir
from recipes.stages import plan

PROBE = {
    "rows": 32, "group_size": 4, "pass_at_1": 0.31, "pass_at_4": 0.62, "pass_at_8": 0.75, "all_wrong": 0.4,
    "all_right": 0.1,
}  # fmt: skip


def gives_only_b(rng, done, gold, category):
    return f"{healthy(rng, done, gold, category).partition('<answer>')[0]}<answer> B </answer>"


def trained(folder, policy, steps=20) -> RunDir:
    run = RunDir.open(folder, plan(tiny_config(), "grpo").config, {})
    probed = {"step": 0, "probe_pass_at_1": 0.31}
    write_jsonl(run.path / "metrics.jsonl", [probed, *run_of(policy, steps)])
    write_json(run.path / "probe.json", PROBE)
    return run


def page(tmp_path, run: RunDir) -> str:
    evals = make_pipeline(tmp_path, make_prep(tmp_path / "prep", groups=4), {"base": 0.3})
    out = write_report(evals, run.path, None, tmp_path / "report.html", "t")
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", out.read_text()).split()))


def test_a_collapse_is_named_with_its_steps(tmp_path):
    text = page(tmp_path, trained(tmp_path / "grpo", gives_only_b))
    assert "What watched over GRPO" in text
    assert "GRPO is not finished; this is step 20." in text
    assert "Before the first step: pass@1 0.31, pass@4 0.62, pass@8 0.75 on 32 rows" in text
    assert re.search(r"steps 5 to 20, letter_collapse: .*B is given 100% and right \d+% of the time", text)
    assert "No monitor was above" not in text
    assert re.search(r"Below it all the time: .*repetition", text)


def test_a_healthy_run_is_said_to_be_quiet(tmp_path):
    run = trained(tmp_path / "grpo", healthy, steps=30)
    run.finish({})
    text = page(tmp_path, run)
    assert "No monitor was above its limit." in text
    assert "is not finished" not in text
    assert alarms_of(run) == []


def test_tasks_and_categories_stand_apart(tmp_path):
    seen = watched(trained(tmp_path / "grpo", healthy, steps=30))
    assert seen is not None
    lines = {line["name"]: line for line in seen["apart"]}
    assert lines.keys() == {"g2s", "s2g", "location", "facade", "roof form", "distance to camera"}
    assert sum(lines[task]["answers"] for task in ("g2s", "s2g")) == 30 * 32 * 4
    assert lines["g2s"]["last"]["accuracy"] > lines["g2s"]["first"]["accuracy"]


def test_the_letter_given_beyond_its_due_is_told(tmp_path):
    run = trained(tmp_path / "grpo", gives_only_b)
    seen = watched(run)
    assert seen is not None
    for line in seen["apart"]:
        letter, given, right = line["letter"]
        assert (letter, given) == ("B", 1.0)
        assert 0.1 < right < 0.5
    assert re.search(r"roof form [\d,]+ .* B given 100\.0 %, right \d+\.\d %", page(tmp_path, run))


def test_a_monitor_s_curve_shows_its_limit(tmp_path):
    seen = watched(trained(tmp_path / "grpo", gives_only_b))
    assert seen is not None
    charts = {name: chart for name, _, chart in seen["charts"]}
    assert "letter_collapse over 16 steps" in charts["letter_collapse"]
    assert charts["letter_collapse"].count('class="chance"') == 1
    assert "not_finite" not in charts


@pytest.mark.parametrize("config", [{"logger": "none"}, None])
def test_a_run_without_answers_or_limits_is_passed_over(tmp_path, config):
    run = RunDir.open(tmp_path / "grpo", config or plan(tiny_config(), "grpo").config, {})
    write_jsonl(
        run.path / "metrics.jsonl", [{"step": 1, "reward": 0.5}] if config is None else run_of(healthy)
    )
    assert watched(run) is None
    assert alarms_of(run) == []


def test_the_terminal_says_what_the_report_says(tmp_path, monkeypatch, capsys):
    config = compose(["recipe=imagination_cot", "scale=tiny", f"runs_dir={tmp_path}"])
    stages = {"base": plan(config, "eval"), "grpo": plan(config, "eval")}
    run = trained(stages["grpo"].inputs["grpo"].path, gives_only_b)
    stages["base"].open().finish({})
    monkeypatch.setattr("recipes.report.write_report", lambda *given: given[3])
    monkeypatch.setattr("recipes.report.summary", lambda evals: [])
    monkeypatch.setattr("recipes.viewer.write_viewer", lambda runs, out, *given: out)
    write_summary(config, stages)
    said = capsys.readouterr().out
    assert [line.removeprefix("GRPO, ") for line in said.splitlines() if "GRPO, " in line] == alarms_of(run)
    assert "letter_collapse" in said
