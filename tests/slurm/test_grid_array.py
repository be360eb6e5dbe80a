"""A grid as a job array on a real Slurm; its stages are small scripts."""

import csv
import json
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from job_stubs import JOBS, interpreter

from data_prep.atomic import read_jsonl
from launch.cli import main
from launch.slurm import queue
from recipes import attempt_logs

CELLS, AT_ONCE, FAILING = 12, 4, 7


@pytest.fixture
def grid(slurm, shared, monkeypatch):
    """A grid of twelve cells which share the prepared data and the base model; every cell evaluates after a
    fine-tuning of its own, but for the first, which needs the base model alone."""
    (shared / "mine" / "grid").mkdir(parents=True)
    cells = [
        {"name": f"c{n}", "recipe": "imagination_cot", "stage": "sft", "overrides": [f"sft.lr={n}e-5"]}
        for n in range(1, CELLS)
    ]
    first = {"name": "c0", "recipe": "imagination_cot", "stage": "base", "rows": {"tab5": "base"}}
    second = {**cells[FAILING - 1], "rows": {"tab5": "imagination_sft"}}
    cells = [first, *(second if cell["name"] == f"c{FAILING}" else cell for cell in cells)]
    content = {"what": "learning rates", "paper": "none", "tables": ["tab5"], "cells": cells}
    (shared / "mine" / "grid" / "rates.yaml").write_text(yaml.safe_dump(content))
    interpreter(shared)
    monkeypatch.chdir(shared)
    return shared


def command(folder: Path, *more: str) -> list[str]:
    return [
        "grid", "grid=rates", "scale=tiny", f"cluster.max_cells={AT_ONCE}", *JOBS,
        f"cluster.python={folder / 'python'}", "--config-dir", str(folder / "mine"), *more,
    ]  # fmt: skip


def starts(folder: Path) -> Counter[str]:
    return Counter(json.loads(line)["stage"] for line in (folder / "log").read_text().splitlines())


def most_at_once(folder: Path) -> int:
    """Of the fine-tunings, by their begin and end."""
    spans = [(r["begin"], r["end"]) for r in read_jsonl(folder / "log") if r["stage"] == "sft"]
    return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


def measured(folder: Path) -> set[str]:
    """The cells that have a number of ours in the table."""
    with open(folder / "tables.csv", encoding="utf-8", newline="") as table:
        return {line["cell"] for line in csv.DictReader(table) if line["ours"]}


def test_twelve_cells_four_at_a_time_with_one_that_fails(grid, slurm, capsys):
    (grid / "fail").write_text(f"{FAILING}.0e-05")
    assert main(command(grid, "dry_run=true")) == 0
    said = capsys.readouterr().out
    assert f"#SBATCH --array=0,1,2,3,4,5,6,7,8,9,10,11%{AT_ONCE}" in said
    assert "-m launch.slurm.collect" in said
    assert not (grid / "runs").exists()

    assert main(command(grid)) == 0
    said = capsys.readouterr().out
    assert "12 of 12 cells as array" in said
    folder = next((grid / "runs" / "grids").iterdir())
    array, collect = queue.records(folder)
    assert (array["kind"], array["cells"], collect["kind"], collect["after"]) == (
        "array", CELLS, "collect", [array["job"]],
    )  # fmt: skip
    assert len(array["after"]) == 2  # prep and the base model, which all cells need
    assert main(command(grid)) == 2
    assert "is on the queue already" in capsys.readouterr().err
    assert main(command(grid, "status=true")) == 0
    assert " queued" in capsys.readouterr().out

    assert slurm.wait(collect["job"], timeout=900) == "COMPLETED"
    states = queue.task_states(array["job"])
    assert {index for index, state in states.items() if state != "COMPLETED"} == {FAILING}
    assert starts(grid) == {"prep": 1, "base": 1, "sft": CELLS - 1, "eval": CELLS - 1}
    assert 1 < most_at_once(grid) <= AT_ONCE
    for index in range(CELLS):
        assert (folder / "cells" / str(index) / "attempts" / "latest" / "stdout.txt").exists()
    assert measured(folder) == {"c0"}

    assert main(command(grid, "status=true")) == 0
    said = capsys.readouterr().out
    assert f"{CELLS - 1} done, 1 failed" in said
    assert "told to fail" in said

    (grid / "fail").unlink()
    assert main(["resume", f"run_dir={folder}"]) == 0
    assert "1 of 12 cells as array" in capsys.readouterr().out
    array, collect = queue.records(folder)[2:]
    assert (array["cells"], array["after"]) == (1, [])
    assert slurm.wait(collect["job"], timeout=900) == "COMPLETED"
    assert measured(folder) == {"c0", f"c{FAILING}"}
    assert set(queue.task_states(array["job"])) == {FAILING}
    assert starts(grid) == {"prep": 1, "base": 1, "sft": CELLS, "eval": CELLS}
    assert main(command(grid)) == 0
    assert "Every cell that can be run is finished." in capsys.readouterr().out


def test_a_shared_stage_that_fails_leaves_its_cells_missing_and_nothing_waiting(grid, slurm, capsys):
    (grid / "fail").write_text("base")
    assert main(command(grid)) == 0
    folder = next((grid / "runs" / "grids").iterdir())
    array, collect = queue.records(folder)
    assert slurm.wait(collect["job"], timeout=900) == "COMPLETED"
    assert set(queue.task_states(array["job"]).values()) == {"FAILED"}
    said = (folder / "cells" / "3" / "attempts" / "latest" / "stderr.txt").read_text()
    assert "it waits for base, which is not finished" in said
    assert starts(grid) == {"prep": 1, "base": 1}
    assert slurm.run("squeue", "-h") == ""


def test_a_preempted_task_saves_and_goes_on(grid, slurm, capsys):
    (grid / "slow").write_text("sft")
    assert main(command(grid)) == 0
    folder = next((grid / "runs" / "grids").iterdir())
    array, collect = queue.records(folder)
    deadline = time.monotonic() + 120
    while len(begun := [run for run in (grid / "runs").glob("*/sft-*") if attempt_logs.latest(run)]) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    options = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")
    urgent = slurm.run("sbatch", "--parsable", *options)
    (grid / "slow").unlink()
    assert slurm.wait(urgent) == "COMPLETED"
    assert slurm.wait(collect["job"], timeout=900) == "COMPLETED"
    assert set(queue.task_states(array["job"]).values()) == {"COMPLETED"}
    for run in begun:
        first, *_, last = attempt_logs.attempts(run)
        assert (first.facts["status"], last.facts["status"]) == (75, 0)
    assert starts(grid) == {"prep": 1, "base": 1, "sft": CELLS - 1, "eval": CELLS}
    again = [task for task in (folder / "cells").iterdir() if (task / "attempts" / "attempt_2").exists()]
    assert len(again) >= len(begun)
    assert "queued again" in (again[0] / "attempts" / "attempt_1" / "stdout.txt").read_text()


def test_cancel_takes_the_array_and_all_that_belongs_to_it(grid, slurm, capsys):
    (grid / "slow").write_text("prep")
    assert main(command(grid)) == 0
    folder = next((grid / "runs" / "grids").iterdir())
    first = queue.records(next((grid / "runs").glob("*/prep-*")))[0]["job"]
    slurm.wait(first, ("RUNNING",))
    assert main(["cancel", f"run_dir={folder}"]) == 0
    assert slurm.run("squeue", "-h") == ""
