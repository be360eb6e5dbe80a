"""`launch status`, `logs`, `cancel` and `resume` for runs on this machine; the stages are small scripts."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from grid_stubs import play

from launch import local, run_cancel, run_logs
from launch.cli import main
from launch.compose import compose
from launch.local import in_use
from launch.run_cancel import holders
from launch.run_state import Run
from recipes import attempt_logs
from recipes.run_dir import RunDir
from recipes.run_progress import Progress, progress
from recipes.stages import plan

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _apart(monkeypatch):
    monkeypatch.setattr(local, "stage_command", local.stage_command)  # what `play` does is undone


def tiny(folder: Path, *words: str) -> list[str]:
    return ["recipe=imagination_cot", "scale=tiny", f"runs_dir={folder / 'runs'}", *words]


def stage(folder: Path, name: str):
    return plan(compose(tiny(folder)), name)


@pytest.fixture
def started(tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """`launch COMMAND` as a process of its own, whose stages are those of the scenario."""
    processes = []

    def start(scenario: str, command: str = "grpo") -> subprocess.Popen:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "grid_stubs", str(tmp_path), scenario, command, *tiny(tmp_path)],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        return processes[-1]

    yield start
    for process in processes:
        process.kill()  # its stage ends with it
        process.wait()


def until(happens) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def asked_states(capsys, *words: str) -> dict[str, dict]:
    """Label -> what `launch status json=true` says."""
    capsys.readouterr()
    assert main(["status", *words, "json=true"]) == 0
    return {state["label"]: state for state in json.loads(capsys.readouterr().out)}


def test_status_tells_every_stage_of_the_pipeline(tmp_path, capsys):
    play(tmp_path, "fail:grpo")
    assert main(["grpo", *tiny(tmp_path)]) == 1
    found = asked_states(capsys, *tiny(tmp_path))
    assert {label: state["state"] for label, state in found.items()} == {
        "prep": "finished", "base": "finished", "sft": "finished", "grpo": "failed",
        "eval of base": "missing", "eval of sft": "missing", "eval of grpo": "missing",
        "eval of grpo on blank pictures": "missing",
    }  # fmt: skip
    assert found["grpo"]["reason"] == "exit code 1: grpo: the grpo stage is told to fail"
    assert main(["grpo", *tiny(tmp_path)]) == 1
    assert asked_states(capsys, *tiny(tmp_path))["grpo"]["attempt"] == 2
    assert main(["status", *tiny(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "3 finished, 1 failed, 4 missing" in said
    assert "grpo: the grpo stage is told to fail" in said


@pytest.mark.parametrize("how", ["cancel", "SIGINT", "SIGTERM"])
def test_what_runs_is_told_and_ended_with_nothing_left(how, started, tmp_path, capsys):
    launch = started("slow:grpo")
    grpo = stage(tmp_path, "grpo").path
    until(lambda: in_use(grpo) and attempt_logs.latest(grpo))
    found = asked_states(capsys, f"run_dir={grpo}")
    assert found["grpo"]["state"] == "running"
    assert found["grpo"]["reason"] == f"process {launch.pid} on {os.uname().nodename}"
    until(psutil.Process(launch.pid).children)
    family = psutil.Process(launch.pid).children(recursive=True)
    if how == "cancel":
        assert main(["cancel", *tiny(tmp_path)]) == 0
        assert f"grpo: ending process {launch.pid}" in capsys.readouterr().out
    else:
        launch.send_signal(getattr(signal, how))
    launch.wait(30)
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert asked_states(capsys, *tiny(tmp_path))["grpo"]["state"] == "stopped"
    assert main(["cancel", *tiny(tmp_path)]) == 0
    assert "Nothing of it runs or waits." in capsys.readouterr().out


def test_another_process_of_that_number_is_left_alone(tmp_path, monkeypatch):
    """The lock names a number that belongs to somebody else by now; who has it open is ended instead."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    hold = (
        "import fcntl, sys, time; lock = open(sys.argv[1], 'a'); fcntl.flock(lock, fcntl.LOCK_EX)\n"
        "print(flush=True); time.sleep(60)"
    )
    lock = tmp_path / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", hold, str(lock)], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        lock.write_text(f"process {other.pid} on {os.uname().nodename}\n")
        assert [process.pid for process in holders(tmp_path, other.pid)] == [holder.pid]
        assert run_cancel.cancel([Run("sft", "sft", tmp_path)], [tmp_path]) == 0
        assert holder.wait(10) == -signal.SIGTERM
        assert other.poll() is None
    finally:
        for process in (other, holder):
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def test_a_run_on_another_machine_is_refused(tmp_path, capsys):
    import fcntl

    grpo = stage(tmp_path, "grpo").open().path
    with open(grpo / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 7 on elsewhere\n")
        lock.flush()
        assert main(["cancel", f"run_dir={grpo}"]) == 2
    assert "process 7 on elsewhere: give the command there" in capsys.readouterr().err


def test_resume_gives_the_command_again_from_any_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = ["recipe=imagination_cot", "scale=tiny", "seed=3"]  # runs/ below this folder
    play(tmp_path, "fail:sft")
    assert main(["sft", *words]) == 1
    sft = next(Path("runs").glob("*/sft-*")).absolute()
    play(tmp_path, "plain")
    monkeypatch.chdir(tmp_path)
    assert main(["resume", f"run_dir={sft}"]) == 0
    assert "launch sft recipe=imagination_cot scale=tiny seed=3" in capsys.readouterr().out
    assert RunDir(sft).finished
    assert Path.cwd() == tmp_path
    assert main(["resume", f"run_dir={sft}"]) == 2
    assert "is finished: there is nothing to resume" in capsys.readouterr().err


def test_resume_by_recipe_takes_up_the_pipeline(tmp_path, capsys):
    play(tmp_path, "fail:grpo")
    assert main(["grpo", *tiny(tmp_path)]) == 1
    play(tmp_path, "plain")
    assert main(["resume", *tiny(tmp_path)]) == 0
    assert asked_states(capsys, *tiny(tmp_path))["grpo"]["state"] == "finished"
    assert asked_states(capsys, *tiny(tmp_path))["eval of grpo"]["state"] == "missing"


def test_resume_refuses_a_command_that_leads_elsewhere_now(tmp_path, capsys):
    own = tmp_path / "mine" / "recipe"
    own.mkdir(parents=True)
    recipe = (ROOT / "configs" / "recipe" / "imagination_cot.yaml").read_text()
    (own / "mine.yaml").write_text(
        recipe.replace("recipe_name: imagination_cot", "recipe_name: mine\nseed: 1")
    )
    words = [
        "recipe=mine",
        "scale=tiny",
        f"runs_dir={tmp_path / 'runs'}",
        "--config-dir",
        str(tmp_path / "mine"),
    ]
    play(tmp_path, "fail:prep")
    assert main(["prep", *words]) == 1
    prep = next((tmp_path / "runs").glob("*/prep-*"))
    (own / "mine.yaml").write_text(
        recipe.replace("recipe_name: imagination_cot", "recipe_name: mine\nseed: 2")
    )
    assert main(["resume", f"run_dir={prep}"]) == 2
    assert "does not lead to" in capsys.readouterr().err
    assert len(list((tmp_path / "runs").glob("*/prep-*"))) == 1


def test_a_grid_is_looked_after_by_its_folder_too(tmp_path, capsys):
    words = ["grid=cvsbench_inference_cot", "scale=tiny", f"runs_dir={tmp_path / 'runs'}"]
    play(tmp_path, "fail:base")
    assert main(["grid", *words]) == 1
    folder = next((tmp_path / "runs" / "grids").iterdir())
    by_folder, by_name = (asked_states(capsys, *named) for named in ([f"run_dir={folder}"], words))
    assert by_folder == by_name
    assert [state["state"] for state in by_folder.values()].count("failed") == 1
    play(tmp_path, "plain")
    assert main(["resume", f"run_dir={folder}"]) == 0
    assert "All 2 cells are done" in capsys.readouterr().out


def test_logs_are_those_of_the_newest_attempt_of_what_was_begun_last(tmp_path, capsys):
    play(tmp_path, "fail:sft")
    assert main(["sft", *tiny(tmp_path)]) == 1
    capsys.readouterr()
    assert main(["logs", *tiny(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "sft: the sft stage is told to fail" in said
    assert "attempts/attempt_1/stderr.txt" in said
    assert main(["logs", f"run_dir={stage(tmp_path, 'prep').path}"]) == 0
    assert "told to fail" not in capsys.readouterr().out


def test_logs_follow_until_the_stage_ends(started, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run_logs, "ASK", 0.2)
    launch = started("slow:sft", "sft")
    sft = stage(tmp_path, "sft").path
    until(lambda: in_use(sft) and attempt_logs.latest(sft))

    def go_on() -> None:
        with open(attempt_logs.latest(sft).stdout, "a") as out:
            out.write("a late line\n")
        time.sleep(0.5)
        (tmp_path / "go").touch()

    threading.Thread(target=go_on).start()
    assert main(["logs", *tiny(tmp_path), "follow=true"]) == 0
    assert "a late line" in capsys.readouterr().out
    assert launch.wait(30) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status"], "name the run: recipe=NAME"),
        (["status", "recipe=imagination"], "did you mean imagination_cot?"),
        (["status", "run_dir=nowhere"], "is no run directory"),
        (["status", "run_dir=x", "recipe=imagination_cot"], "leave recipe=imagination_cot out"),
        (["status", "recipe=imagination_cot", "follow=true"], "follow= is not for launch status"),
        (["logs", "recipe=imagination_cot", "follow=yes"], "follow=yes"),
        (["cancel", "--all"], "written KEY=VALUE"),
        (["logs", "recipe=imagination_cot", "scale=tiny"], "there are no logs yet"),
        (["resume", "recipe=imagination_cot", "scale=tiny"], "was never begun"),
        (["status", "grid=cvsbench_cott"], "did you mean cvsbench_cot?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_one_sentence(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert told in capsys.readouterr().err


def test_how_far_a_stage_is(tmp_path):
    prep, grpo = stage(tmp_path, "prep").open(), stage(tmp_path, "grpo").open()
    assert progress("grpo", grpo) is None
    # The last record may be half written, and a resumed run writes a step twice.
    lines = [
        json.dumps({"step": step, "seconds": float(seconds)}) for step, seconds in ((0, 9), (1, 2), (2, 4))
    ]
    (grpo.path / "metrics.jsonl").write_text("\n".join([*lines, lines[-1], '{"step": 3, "sec']))
    assert progress("grpo", grpo) == Progress("steps", 2, None, 4.0)
    prep.finish({"sets": {"rl": {"rows": 640}}})
    assert progress("grpo", grpo).total == grpo.config.grpo.max_steps or 640 // grpo.config.grpo.batch_size
