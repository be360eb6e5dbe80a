"""The GRPO stage around verl, with a stand-in for verl's trainer where it is about starting and ending it."""

import importlib.metadata
import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from omegaconf import OmegaConf

from data_prep.errors import UserError
from recipes import grpo, verl_overrides
from recipes.run_dir import RunDir
from recipes.stages import plan

SMALL = ("grpo.batch_size=4", "grpo.mini_batch_size=2", "grpo.max_steps=2", "grpo.probe.rows=0")


@pytest.fixture
def stage(tiny) -> Callable[..., RunDir]:
    """`stage(*options)`: a new run on a real prepared set, whose start checkpoint is an empty folder."""

    def opened(*options: str) -> RunDir:
        planned = plan(tiny(*SMALL, *options), "grpo")
        (planned.inputs["sft"].path / "checkpoint").mkdir(parents=True, exist_ok=True)
        shutil.rmtree(planned.path, ignore_errors=True)
        return planned.open()

    return opened


@pytest.fixture
def run(stage) -> RunDir:
    return stage()


@pytest.fixture
def trainer(monkeypatch):
    """`trainer(code)` has Python `code` run in the place of verl's trainer."""

    def replace(code: str) -> None:
        command = [sys.executable, "-c", textwrap.dedent(code), "verl stand-in"]
        monkeypatch.setattr(verl_overrides, "command", lambda overrides: command)

    return replace


def test_the_error_of_verl_is_quoted(run, trainer):
    trainer("""
        print("(TaskRunner pid=1) loading")
        raise ValueError("a broken batch")
    """)
    with pytest.raises(UserError) as caught:
        grpo.run(run)
    assert "verl ended with status 1" in str(caught.value)
    assert "ValueError: a broken batch" in str(caught.value)
    assert not run.finished


def writes_steps(run: RunDir, first: int, last: int) -> str:
    """Code that writes what verl's workers write of steps in which every answer is B, then waits."""
    return f"""
        import json, pathlib, time
        out = pathlib.Path({str(run.path / "verl")!r})
        (out / "answers").mkdir(parents=True, exist_ok=True)
        answers, metrics = open(out / "answers/a.jsonl", "a"), open(out / "metrics.jsonl", "a")
        row = dict(task="g2s", category="facade", answer_type="choice", completion="x", tokens=9)
        row |= dict(truncated=False, score=0.1, accuracy=0.0, format=1.0, parsed="B", out_of_range=0)
        for step in range({first}, {last} + 1):
            for index in range(4):
                for session in range(4):
                    place = dict(step=step, index=index, session=session, id=f"row{{index}}")
                    answers.write(json.dumps(place | row | dict(gold="ACDA"[index])) + "\\n")
            answers.flush()
            metrics.write(json.dumps(dict(step=step, data={{}})) + "\\n")
            metrics.flush()
        print("left", __import__("os").getpid(), flush=True)
        time.sleep(600)
    """


@pytest.fixture
def saved(monkeypatch):
    """`saved(step)`: a whole checkpoint of that step stands in the run directory."""

    def at(step: int) -> None:
        monkeypatch.setattr(
            grpo, "resume_point", lambda folder, keep, records: (step, folder / f"global_step_{step}")
        )

    return at


def test_an_alarm_is_a_warning_and_no_end(stage, trainer, capsys):
    run = stage("grpo.max_steps=30")
    trainer(writes_steps(run, 1, 24).replace("time.sleep(600)", ""))
    with pytest.raises(RuntimeError, match="ended at step 0 of 30"):
        grpo.run(run)
    said = capsys.readouterr().out
    assert "warning at step 20: letter_collapse: " in said
    assert "all answers: B is given 100% and right 0% of the time" in said
    assert said.count("letter_collapse") == 1
    assert [record["step"] for record in run.metrics()] == list(range(1, 25))


def test_a_monitor_ends_the_run_by_name(stage, trainer, saved):
    run = stage("grpo.max_steps=30", "grpo.monitors.stop_on=[letter_collapse]")
    trainer(writes_steps(run, 1, 24))
    saved(0)
    begun = time.monotonic()
    with pytest.raises(UserError) as caught:
        grpo.run(run)
    assert time.monotonic() - begun < 60
    message = str(caught.value)
    assert message.startswith("stopped at step 20 by the monitor letter_collapse: distance of the letters")
    assert "No checkpoint was saved before, and the run counts as not finished." in message
    assert "higher grpo.monitors.letter_collapse" in message
    assert not run.finished
    assert ends(stays_behind(run))
    assert not (run.path / "verl/process.json").exists()
    assert [record["step"] for record in run.metrics()] == list(range(1, 21))


def test_a_stopped_run_stops_again_and_goes_on_without_the_monitor(stage, trainer, saved, monkeypatch):
    options = ("grpo.max_steps=30", "grpo.monitors.stop_on=[letter_collapse]")
    run = stage(*options)
    trainer(writes_steps(run, 1, 24))
    with pytest.raises(UserError, match="stopped at step 20"):
        grpo.run(run)

    # Step 16 was saved, the alarm came after it: the steps since are trained anew, and it comes again.
    saved(16)
    trainer(writes_steps(run, 17, 24))
    with pytest.raises(UserError, match=r"stopped at step 20 .*\n.*Step 16 is kept in "):
        grpo.run(run)
    assert [record["step"] for record in run.metrics()] == list(range(1, 21))

    # The alarm came before the checkpoint: verl is not even started.
    saved(20)
    trainer("raise SystemExit('started')")
    with pytest.raises(UserError, match=r"stopped at step 20 .*\n.*Step 20 is kept in "):
        grpo.run(run)

    # Without the monitor the same directory goes on.
    monkeypatch.setattr(grpo, "merge", lambda *_: None)
    planned = stage_of(run, "grpo.monitors.stop_on=[]")
    saved(30)
    grpo.run(planned)
    assert planned.finished


def stage_of(run: RunDir, *options: str) -> RunDir:
    """The run as `launch` opens it again with other neutral options."""
    config = OmegaConf.to_container(OmegaConf.merge(run.config, OmegaConf.from_dotlist(list(options))))
    return RunDir.open(run.path, config, {name: source.path for name, source in run.inputs.items()})


def test_an_end_without_checkpoint_is_an_error(run, trainer):
    trainer("print('nothing to do')")
    with pytest.raises(RuntimeError, match="ended at step 0 of 2 without an error"):
        grpo.run(run)


def test_verl_sees_no_other_ray_and_our_packages(run, trainer, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "somebody.else:6379")
    trainer("""
        import os, sys, data_prep
        print("address", os.environ.get("RAY_ADDRESS"), "cwd", os.getcwd(), "tmp", os.environ["TMPDIR"])
        print("arguments", *sys.argv[2:])
    """)
    with pytest.raises(RuntimeError):
        grpo.run(run)
    log = (run.path / "verl.log").read_text().split()
    said = dict(itertools.pairwise(log))
    assert said["address"] == "None"
    assert said["cwd"] == said["tmp"]
    assert said["arguments"] == "+ray_kwargs.ray_init.address=local"
    assert not Path(said["tmp"]).exists()


def stays_behind(run: RunDir) -> int:
    """The process that the stand-in started and left, by the number it printed."""
    return int((run.path / "verl.log").read_text().split("left ")[-1].split()[0])


ORPHAN = """
    import subprocess, sys
    # Ray's processes leave the process group, but not the session.
    code = "import os, time; os.setpgid(0, 0); time.sleep(600)  # ray"
    print("left", subprocess.Popen([sys.executable, "-c", code]).pid, flush=True)
"""


def ends(pid: int) -> bool:
    """Whether a process that was sent a signal is gone, or waits for its parent to see so, within seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_what_verl_leaves_is_ended(run, trainer):
    trainer(ORPHAN)
    with pytest.raises(RuntimeError):
        grpo.run(run)
    assert ends(stays_behind(run))


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_ends_verl_and_what_it_started(run, sent, status):
    stage = textwrap.dedent(f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from pathlib import Path
        from recipes import grpo, verl_overrides
        from recipes.run_dir import RunDir
        code = {textwrap.dedent(ORPHAN + "    import time; time.sleep(600)")!r}
        verl_overrides.command = lambda overrides: [sys.executable, "-c", code, "verl stand-in"]
        grpo.run(RunDir(Path({str(run.path)!r})))
    """)
    process = subprocess.Popen([sys.executable, "-c", stage], cwd=Path(grpo.__file__).parents[1])
    log = run.path / "verl.log"
    deadline = time.monotonic() + 60
    while not (log.exists() and "left " in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(sent)
    assert process.wait(30) == status
    assert ends(stays_behind(run))
    assert not (run.path / "verl/process.json").exists()


def test_what_a_killed_attempt_left_is_cleared_away(run, trainer, tmp_path):
    from data_prep.atomic import write_json

    folder = tmp_path / "ray-old"
    folder.mkdir()
    code = "import time; time.sleep(600)  # ray"
    left = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    write_json(run.path / "verl/process.json", {"folder": str(folder), "session": left.pid})
    trainer("print('x')")
    with pytest.raises(RuntimeError):
        grpo.run(run)
    assert left.wait(10) == -signal.SIGKILL
    assert not folder.exists()


def test_another_verl_or_none_is_refused(run, monkeypatch):
    monkeypatch.setattr(grpo, "version", lambda name: "0.10.0")
    with pytest.raises(UserError, match=r"verl 0\.9\.1, not 0\.10\.0; pip install verl==0\.9\.1"):
        grpo.run(run)

    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(grpo, "version", absent)
    with pytest.raises(UserError, match=r"pip install verl==0\.9\.1"):
        grpo.run(run)


@pytest.mark.parametrize("content", [None, b"", b"no parquet"], ids=["absent", "empty", "broken"])
def test_an_rl_set_that_cannot_be_read_is_refused(run, tmp_path, content):
    path = tmp_path / "rl.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"rl\.parquet.*launch prep"):
        grpo._count_rows(path)


def test_a_missing_start_checkpoint_is_refused(run):
    folder = Path(run.inputs["sft"].path / "checkpoint")
    os.rmdir(folder)
    with pytest.raises(UserError, match="run launch sft first"):
        grpo.run(run)
