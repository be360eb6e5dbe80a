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
from pathlib import Path

import psutil
import pytest

from data_prep.errors import UserError
from recipes import grpo, verl_overrides
from recipes.run_dir import RunDir
from recipes.stages import plan


@pytest.fixture
def run(tiny) -> RunDir:
    """A stage whose prepared set is real and whose start checkpoint is an empty folder."""
    stage = plan(tiny("grpo.batch_size=4", "grpo.mini_batch_size=2", "grpo.max_steps=2"), "grpo")
    (stage.inputs["sft"].path / "checkpoint").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(stage.path, ignore_errors=True)
    return stage.open()


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
