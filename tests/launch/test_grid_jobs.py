"""Which stages of a grid are jobs of their own, what its scripts ask for, and what is frozen for them."""

import re
from pathlib import Path

import pytest

from data_prep.errors import UserError
from launch.grid import grid_files, plan_grid
from launch.slurm import grid as jobs
from launch.slurm import queue
from recipes.grid import grid_folder, read_grid
from recipes.grid_frozen import freeze, thaw
from recipes.grid_state import CellState

PAPER = ["data.root=/data", "teacher.path=/teacher.jsonl", "cluster=slurm", "cluster.cpus=32"]
WORK = {}


def work_of(*options: str):
    """Two recipes, each with an SFT that two cells need and a GRPO that one does; and a base model."""
    if options not in WORK:
        WORK[options] = plan_grid(read_grid(grid_files()["cvsbench_cot"]), [*PAPER, *options])
    return WORK[options]


def names(stages) -> list[str]:
    return [stage.name for stage in stages]


def test_shared_stages_are_jobs_and_a_cell_has_the_rest():
    work = work_of()
    assert names(jobs.job_stages(work)) == ["prep", "prep", "sft", "sft"]
    own = {planned.cell.name: names(jobs.own_stages(work, planned)) for planned in work}
    assert own["base"] == own["structured_sft"] == own["imagination_sft"] == ["eval"]
    assert own["structured_grpo"] == own["imagination_grpo"] == ["grpo", "eval"]


def test_on_several_nodes_training_is_a_job_of_its_own():
    work = work_of("cluster.nodes=2")
    assert sorted(names(jobs.job_stages(work))) == ["grpo", "grpo", "prep", "prep", "sft", "sft"]
    assert {name for planned in work for name in names(jobs.own_stages(work, planned))} == {"eval"}


@pytest.mark.parametrize(("nodes", "gpus", "cpus"), [(1, 8, 32), (2, 1, 4)])
def test_a_task_asks_for_one_node_and_the_most_that_a_stage_takes(nodes, gpus, cpus, tmp_path):
    array, collect = jobs.scripts(
        work_of(f"cluster.nodes={nodes}", "cluster.max_cells=3"), [0, 2, 4], tmp_path
    )
    asked = dict(re.findall(r"#SBATCH --([\w-]+)=(.*)", array))
    assert (asked["array"], asked["nodes"]) == ("0,2,4%3", "1")
    assert (asked["gpus-per-node"], asked["cpus-per-task"]) == (str(gpus), str(cpus))
    assert f"RUN={tmp_path}/cells/$SLURM_ARRAY_TASK_ID\n" in array
    assert "--array" not in collect
    assert "gpus-per-node" not in collect


def test_no_limit_leaves_the_number_at_once_to_slurm(tmp_path):
    array, _ = jobs.scripts(work_of(), [1, 2], tmp_path)
    assert "#SBATCH --array=1,2\n" in array


def test_what_was_frozen_is_found_again_from_any_folder(tmp_path, monkeypatch):
    grid = read_grid(grid_files()["cvsbench_cot"])
    monkeypatch.chdir(tmp_path)
    work = work_of()
    folder = grid_folder(grid, work)
    freeze(folder, grid, work, PAPER)
    monkeypatch.chdir("/")
    found, cells = thaw(tmp_path / folder)
    assert found == grid
    assert grid_folder(found, cells) == tmp_path / folder
    for before, after in zip(work, cells, strict=True):
        assert after.cell == before.cell
        assert after.stage.path == tmp_path / before.stage.path
        for one, other in zip(before.stage.with_inputs(), after.stage.with_inputs(), strict=True):
            assert (one.name, one.hash, one.config) == (other.name, other.hash, other.config)
        assert after.config.eval == before.config.eval
    assert cells[1].stage.inputs["sft"] is cells[2].stage.inputs["grpo"].inputs["sft"]


def test_a_stage_in_a_task_is_a_run_of_its_node():
    stage = work_of()[2].stage.inputs["grpo"]
    assert jobs.local(stage).config["cluster"] == {"name": "local", "gpus": 8}
    assert jobs.local(stage).hash == stage.hash


@pytest.mark.parametrize(
    ("state", "word", "shown", "told"),
    [
        ("missing", "PENDING", "queued", "job 7_0: pending"),
        ("failed", "PENDING", "queued", "job 7_0: pending"),
        ("missing", "RUNNING", "running", "job 7_0: running"),
        ("missing", "TIMEOUT", "failed", "job 7_0 has ended as timeout"),
        ("failed", "FAILED", "failed", "its own error"),
        ("done", "COMPLETED", "done", "its own error"),
        ("missing", None, "missing", "its own error"),
    ],
)
def test_a_cell_is_shown_with_what_slurm_says_of_its_task(state, word, shown, told, tmp_path, monkeypatch):
    queue.record(tmp_path, "7", "array", "cells", Path("job_1.sh"), cells=1)
    queue.record(tmp_path, "8", "collect", "collect", Path("job_2.sh"), ["7"])
    monkeypatch.setattr(queue, "task_states", lambda array: {0: word} if word and array == "7" else {})
    [found] = jobs.with_queue([CellState(state, (1, 2), 1, "its own error")], tmp_path)
    assert (found.state, found.error) == (shown, told)


@pytest.mark.parametrize("already", [False, True])
def test_nothing_of_it_stays_on_the_queue_when_a_job_is_refused(already, tmp_path, monkeypatch):
    """Jobs that another command has submitted before stay."""
    grid = read_grid(grid_files()["cvsbench_cot"])
    work = plan_grid(grid, ["scale=tiny", "cluster=slurm", f"runs_dir={tmp_path / 'runs'}"])
    shared = [stage.path for stage in jobs.job_stages(work)]
    on_queue = set(shared[:1]) if already else set()
    cancelled = []

    def sbatch(script, after, **_):
        if "launch.slurm.collect" in script.read_text():
            raise UserError("Slurm refuses it")
        return "50"

    monkeypatch.setattr(jobs, "submit", lambda stages, *_: on_queue.update(stage.path for stage in stages))
    monkeypatch.setattr(queue, "alive", lambda f: {str(shared.index(f)): "PENDING"} if f in on_queue else {})
    monkeypatch.setattr(queue, "sbatch", sbatch)
    monkeypatch.setattr(queue, "cancel", cancelled.extend)
    with pytest.raises(UserError, match="refuses"):
        jobs.submit_grid(grid, work, {}, grid_folder(grid, work), "launch grid")
    assert cancelled == [*map(str, range(int(already), len(shared))), "50"]
