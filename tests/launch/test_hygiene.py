"""Ctrl-C and SIGTERM end all that a stage has started, however it did; ports and Ray are a run's own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from launch import local
from launch.compose import compose
from launch.local import in_use
from recipes.stages import plan
from recipes.verl_process import ray_folder, verl_process

ROOT = Path(__file__).parents[2]
SLEEP = "import time; time.sleep(300)"
DEAF = f"import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)]; {SLEEP}"
START = (
    "import subprocess as s, sys; child = lambda code, **how: s.Popen([sys.executable, '-c', code], **how); "
)
# What a stage may have started when it is told to end; each then sleeps for five minutes.
FAMILIES = {
    "alone": SLEEP,
    "a deaf child": START + f"child({DEAF!r}); {SLEEP}",
    "a session of its own, as Ray's": START + f"child({DEAF!r}, start_new_session=True); {SLEEP}",
    "an orphan": START + f"child({START + f'child({DEAF!r}, start_new_session=True)'!r}).wait(); {SLEEP}",
    "a deaf stage": START + f"child({DEAF!r}, start_new_session=True); {DEAF}",
}
LAUNCH = """
import sys
from pathlib import Path
from launch import local
from launch.compose import compose
from recipes.stages import plan
local.PATIENCE = 1.0
local.stage_command = lambda stage: [sys.executable, "-c", sys.argv[2]]
stage = plan(compose(["recipe=imagination_cot", "scale=tiny", f"runs_dir={sys.argv[1]}"]), "prep")
sys.exit(local.run_stage(stage, "launch prep"))
"""


def family(mark: str) -> list[psutil.Process]:
    """The processes that inherited `mark`, but for those that are dead already."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def started(tmp_path):
    """`subprocess.Popen`; whatever has the test's mark is ended with the test."""
    yield subprocess.Popen
    for process in family(str(tmp_path)):
        process.kill()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, signal.SIGINT) for name in FAMILIES),
        ("an orphan", signal.SIGTERM),
        ("a deaf stage", signal.SIGTERM),
    ],
)
def test_nothing_is_left_after_a_signal(name, number, started, tmp_path):
    mark = str(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TEST_MARK": mark}
    launch = started([sys.executable, "-c", LAUNCH, mark, FAMILIES[name]], env=environment)
    deadline = time.monotonic() + 60
    # Launch, the stage, and what it starts; an orphan's parent must have ended.
    while len(family(mark)) != (2 if name == "alone" else 3) or not list(tmp_path.glob("*/prep-*")):
        assert time.monotonic() < deadline, [p.cmdline() for p in family(mark)]
        time.sleep(0.1)
    time.sleep(0.3)  # every child must be past its start
    launch.send_signal(number)
    assert launch.wait(30) == 128 + number
    assert family(mark) == []
    [prep] = tmp_path.glob("*/prep-*")
    assert in_use(prep) is None


def test_a_stage_that_ends_well_leaves_nothing_either(tmp_path, monkeypatch):
    stage = plan(compose(["recipe=imagination_cot", "scale=tiny", f"runs_dir={tmp_path}"]), "prep")
    code = START + f"child({DEAF!r}, start_new_session=True, env={{'TEST_MARK': {str(tmp_path)!r}}})"
    monkeypatch.setattr(local, "stage_command", lambda stage: [sys.executable, "-c", code])
    other = subprocess.Popen([sys.executable, "-c", SLEEP])  # of the same parent, but not of the stage
    try:
        assert local.run_stage(stage, "launch prep") == 0
        assert family(str(tmp_path)) == []
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


SHOW = "import json, os, sys; print(json.dumps({'words': sys.argv[1:], 'environment': dict(os.environ)}))"


@pytest.mark.parametrize(
    ("name", "value"),
    [("RAY_ADDRESS", "10.0.0.1:6379"), ("RAY_ADDRESS", "auto"), ("RAY_TMPDIR", "/tmp/ray")],
)
def test_another_ray_of_the_environment_is_not_joined(name, value, tmp_path, monkeypatch):
    monkeypatch.setenv(name, value)
    seen = []
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        note, log = tmp_path / run / "process.json", tmp_path / run / "log"
        with (
            ray_folder(note) as folder,
            open(log, "w") as out,
            verl_process([sys.executable, "-c", SHOW], {}, folder, note, out) as process,
        ):
            process.wait()
            assert Path(folder).is_dir()
        told = json.loads(log.read_text())
        assert "RAY_ADDRESS" not in told["environment"]
        assert "+ray_kwargs.ray_init.address=local" in told["words"]
        assert f"+ray_kwargs.ray_init._temp_dir={folder}" in told["words"]
        assert not Path(folder).exists()
        seen.append(folder)
    assert seen[0] != seen[1]
