"""Grids: every one composes and plans; stages (stubs here) are shared, kept, retried, killed and taken up."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from grid_stubs import play

from data_prep.errors import UserError
from launch import grid as grid_command
from launch import local
from launch.cli import main
from launch.compose import compose
from launch.grid import grid_files, plan_grid
from launch.local import in_use
from recipes.grid import all_stages, read_grid
from recipes.stages import plan

PAPER = ("data.root=/data", "teacher.path=/teacher.jsonl")
# Grid -> cells at scale=paper and at scale=tiny, and stages at scale=paper.
GRIDS = {
    "cvsbench_cot": (5, 5, 11),
    "cvsbench_hacking": (5, 5, 12),
    "cvsbench_inference_cot": (2, 2, 3),
    "cvsbench_main": (3, 1, 4),
    "cvsbench_views": (3, 3, 6),
    "monosr_aux": (14, 7, 32),
    "monosr_baselines": (1, 1, 2),
    "monosr_long_tail": (14, 7, 32),
    "monosr_sensitivity": (1, 1, 2),
}


COMPOSED = {}
PLAIN = (
    "runs_dir",
    "cell",
    "status",
    "scoring",
    "dry_run",
)  # keys that a cell's configuration may take later


def remembered(words, config_dir=None):
    """`compose`, once for the same words: it is the long part of these tests."""
    pairs = [word.split("=", 1) for word in words]
    key = (*(word for word, (name, _) in zip(words, pairs, strict=True) if name not in PLAIN), config_dir)
    if key not in COMPOSED:
        COMPOSED[key] = compose(key[:-1], config_dir)
    config = COMPOSED[key].copy()
    for name, value in pairs:
        if name in PLAIN:
            config[name] = yaml.safe_load(value)
    return config


@pytest.fixture(autouse=True)
def _apart(monkeypatch):
    monkeypatch.setattr(local, "stage_command", local.stage_command)  # what `play` does is undone
    monkeypatch.setattr(grid_command, "compose", remembered)


def tiny(folder: Path, *words: str) -> list[str]:
    return ["grid", "grid=cvsbench_cot", "scale=tiny", f"runs_dir={folder / 'runs'}", *words]


def starts(folder: Path) -> Counter[str]:
    """Stage name -> how often one was started."""
    log = folder / "log"
    return Counter(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else Counter()


def test_the_grids_are_those_that_are_documented():
    assert set(grid_files()) == set(GRIDS)


@pytest.mark.parametrize("scale", ["paper", "tiny"])
@pytest.mark.parametrize("name", GRIDS)
def test_every_grid_composes_and_every_cell_plans(name, scale):
    grid = read_grid(grid_files()[name])
    work = plan_grid(grid, [f"scale={scale}", *(PAPER if scale == "paper" else ())])
    paper, small, stages = GRIDS[name]
    assert len(work) == (paper if scale == "paper" else small)
    for planned in work:
        assert planned.stage.name == "eval"
        assert planned.config.eval.checkpoint == planned.cell.stage
        wanted = {"base": set(), "sft": {"sft"}, "grpo": {"sft", "grpo"}}[planned.cell.stage]
        chain = {stage.name for stage in planned.stage.with_inputs()}
        assert chain == {"prep", "eval", *wanted, *(["base"] if scale == "tiny" else [])}
    hashes = [stage.hash for stage in all_stages(work)]
    assert len(set(hashes)) == len(hashes)
    if scale == "paper":
        assert len(hashes) == stages


def test_cells_share_the_stages_of_other_recipes(tmp_path):
    """The gated reward needs the same SFT model; a run of its own recipe's name would train it again."""
    work = plan_grid(read_grid(grid_files()["cvsbench_hacking"]), ["scale=tiny", f"runs_dir={tmp_path}"])
    by_name = {planned.cell.name: planned.stage for planned in work}
    gated, paper = by_name["gated"].inputs["grpo"], by_name["paper_reward"].inputs["grpo"]
    assert gated.hash != paper.hash
    assert gated.inputs["sft"] is paper.inputs["sft"]
    assert gated.inputs["sft"].path.parent.name == "imagination_cot-tiny"
    assert by_name["shuffled"].inputs["grpo"].inputs["sft"].hash != paper.inputs["sft"].hash


def test_a_stage_that_another_recipe_made_is_taken(tmp_path):
    config = compose(["recipe=imagination_cot_gated", "scale=tiny", f"runs_dir={tmp_path}"])
    made = plan(config, "prep").open()
    made.finish({})
    work = plan_grid(read_grid(grid_files()["cvsbench_cot"]), ["scale=tiny", f"runs_dir={tmp_path}"])
    prep = work[0].stage.inputs["prep"]
    assert prep.path == made.path
    prep.check()


def test_a_grid_runs_every_stage_once_and_then_keeps_all(tmp_path, capsys):
    play(tmp_path, "plain")
    assert main(tiny(tmp_path)) == 0
    said = capsys.readouterr().out
    assert starts(tmp_path) == {"prep": 2, "base": 2, "sft": 2, "grpo": 2, "eval": 5}
    assert "All 5 cells are done" in said
    folder = next((tmp_path / "runs" / "grids").iterdir())
    for name in ("tables.md", "tables.csv", "tables.tex", "tables.html", "reward_curve.svg"):
        assert (folder / name).stat().st_size
    cells = json.loads((folder / "cells.json").read_text())["cells"]
    assert [cell["index"] for cell in cells] == list(range(5))
    assert len({cell["hash"] for cell in cells}) == 5
    assert main(tiny(tmp_path)) == 0
    assert starts(tmp_path).total() == 13
    assert "0 of them to run" in capsys.readouterr().out


def test_a_failing_cell_stops_only_what_depends_on_it_and_is_tried_again(tmp_path, capsys):
    play(tmp_path, "fail:structured_cot-tiny/sft")
    assert main(tiny(tmp_path)) == 1
    said = capsys.readouterr().out
    assert starts(tmp_path) == {"prep": 2, "base": 2, "sft": 2, "grpo": 1, "eval": 3}
    assert "2 of 5 cells are not done" in said
    assert "sft: the sft stage is told to fail" in said
    assert main(tiny(tmp_path, "status=true")) == 0
    said = capsys.readouterr().out
    assert "3 done, 2 failed" in said
    assert "sft: sft: the sft stage is told to fail" in said
    assert main(tiny(tmp_path)) == 1
    sft = next((tmp_path / "runs").glob("structured_cot-tiny/sft-*"))
    assert sorted(path.name for path in (sft / "attempts").iterdir()) == ["attempt_1", "attempt_2", "latest"]
    assert "told to fail" in (sft / "attempts/latest/stderr.txt").read_text()
    play(tmp_path, "plain")
    assert main(tiny(tmp_path)) == 0
    assert main(tiny(tmp_path, "status=true")) == 0
    assert "5 done" in capsys.readouterr().out


def test_a_cell_alone_by_its_index(tmp_path, capsys):
    play(tmp_path, "die:eval")
    assert main(tiny(tmp_path, "cell=3")) == 1
    assert "eval: ended by signal 9" in capsys.readouterr().out
    (tmp_path / "log").unlink()
    play(tmp_path, "plain")
    assert main(tiny(tmp_path, "cell=3")) == 0
    assert starts(tmp_path) == {"eval": 1}
    capsys.readouterr()
    assert main(tiny(tmp_path, "status=true")) == 0
    assert "1 done, 4 missing" in capsys.readouterr().out


def stubbed(folder: Path, scenario: str, *words: str) -> subprocess.Popen:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"}
    return subprocess.Popen(
        [sys.executable, "-m", "grid_stubs", str(folder), scenario, *tiny(folder, *words)],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def until(happens) -> None:
    deadline = time.monotonic() + 30
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_killed_in_the_middle_it_goes_on(tmp_path, capsys):
    killed = stubbed(tmp_path, "slow:grpo")
    until(lambda: starts(tmp_path)["grpo"] == 1)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    grpo = next((tmp_path / "runs").glob("*/grpo-*"))
    until(lambda: in_use(grpo) is None)  # the stage dies with launch
    assert main(tiny(tmp_path, "status=true")) == 0
    assert "missing" in capsys.readouterr().out
    play(tmp_path, "plain")
    assert main(tiny(tmp_path)) == 0
    after = starts(tmp_path)
    assert after["grpo"] == 3  # the one that was killed, and both once more
    assert after["prep"] == 2
    assert after["sft"] == 2
    assert after["eval"] == 5


@pytest.mark.slow
def test_two_grids_never_run_one_stage_at_once(tmp_path, capsys):
    (first, second) = (stubbed(tmp_path, "slow:base") for _ in range(2))
    until(lambda: starts(tmp_path)["base"] == 2)  # each has one of the two base models
    assert main(tiny(tmp_path, "status=true")) == 0
    assert "5 running" in capsys.readouterr().out
    (tmp_path / "go").touch()
    assert [process.wait(60) for process in (first, second)] == [0, 0]
    said = [process.stdout.read() for process in (first, second)]
    assert starts(tmp_path) == {"prep": 2, "base": 2, "sft": 2, "grpo": 2, "eval": 5}
    assert all("All 5 cells are done" in text for text in said)


def test_a_dry_run_names_the_shared_stages_and_imports_nothing_heavy(tmp_path):
    script = (
        "import sys; from launch.cli import main\n"
        f"status = main({tiny(tmp_path, 'dry_run=true')!r})\n"
        "heavy = {'torch', 'ray', 'verl', 'vllm', 'transformers', 'pandas', 'datasets'} & set(sys.modules)\n"
        "sys.exit(status or (str(heavy) if heavy else 0))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "prep (to run), shared by structured_sft, structured_grpo" in ran.stdout
    assert not (tmp_path / "runs").exists()


def test_without_a_name_the_grids_are_listed(capsys):
    assert main(["grid"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n{name}\n" in f"\n{said}" for name in GRIDS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("grid=cvsbench_cott",), "did you mean cvsbench_cot?"),
        (("scale=tiny",), "name one grid: grid=cvsbench_cot"),
        (("grid=cvsbench_cot", "scale=tiny", "cell=5"), "numbered 0 to 4"),
        (("grid=cvsbench_cot", "scale=tiny", "scoring=offical"), "did you mean official?"),
        (("grid=cvsbench_cot", "scale=tiny", "stauts=true"), "did you mean status?"),
        (("grid=cvsbench_cot", "recipe=imagination_cot"), "set recipe themselves"),
        (("grid=cvsbench_inference_cot", "eval.prompt=null"), "set eval.prompt themselves"),
        (("grid=cvsbench_cot", "run_dir=here"), "many run directories"),
        (("grid=cvsbench_inference_cot",), "data.root is not set"),
        (("grid=cvsbench_cot", "--status"), "written KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_sentence(words, told, capsys):
    assert main(["grid", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("word", ["status=true", "cell=1"])
def test_other_commands_refuse_the_grids_keys(word, capsys):
    assert main(["sft", "recipe=imagination_cot", "scale=tiny", word]) == 2
    assert "are for launch grid" in capsys.readouterr().err


GOOD = """
what: something
paper: none
tables: [tab4]
cells:
  - {name: one, recipe: imagination_cot, stage: base, rows: {tab4: base}}
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("stage: base", "stage: bse"), "did you mean base?"),
        (("recipe:", "recipie:"), "did you mean recipe?"),
        (("{tab4: base}", "{tab4: structured}"), "did you mean structured_"),
        (("{tab4: base}", "{tab5: base}"), "'tab5' is unknown"),
        (("paper: none\n", ""), "lacks paper"),
        (("stage: base,", "stage: base, overrides: [seed],"), "as key=value"),
        (("tables: [tab4]", "tables: tab4"), "a list is wanted"),
    ],
)
def test_a_fault_in_a_grid_file_is_told(change, told, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(UserError, match=r"mine\.yaml") as caught:
        read_grid(path)
    assert told in str(caught.value)


def test_a_grid_of_the_users_own(tmp_path, capsys):
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "mine.yaml").write_text(GOOD)
    words = ["grid=mine", "scale=tiny", "dry_run=true", "--config-dir", str(tmp_path)]
    assert main(["grid", *words]) == 0
    assert "tab4 row base" in capsys.readouterr().out
