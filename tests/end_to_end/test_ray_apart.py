"""Two Rays on one machine: a run starts its own and ends its own, and the other one goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from recipes.verl_process import ray_folder, verl_process

pytestmark = pytest.mark.slow

# Ours reads its settings from the words that verl is given; it tells where it is and waits.
RAY = """
import json, os, sys, time
import ray
given = dict(word.removeprefix("+ray_kwargs.ray_init.").split("=", 1) for word in sys.argv[1:])
ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False, **given)
node = ray.nodes()[0]
print(json.dumps({"address": ray.get_runtime_context().gcs_address, "node": node["NodeID"]}), flush=True)
time.sleep(300)
"""
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}


def told(path) -> dict:
    deadline = time.monotonic() + 120
    while True:
        for line in path.read_text().splitlines():
            if line.startswith("{"):
                return json.loads(line)
        assert time.monotonic() < deadline, path.read_text()
        time.sleep(0.2)


def in_session(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.Error):
            continue
    return found


def test_the_ray_of_somebody_else_is_neither_joined_nor_ended(tmp_path, monkeypatch):
    with open(tmp_path / "theirs", "w") as out:
        theirs = subprocess.Popen(
            [sys.executable, "-c", RAY, "address=local"],
            env={**os.environ, **SETTINGS}, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        other = told(tmp_path / "theirs")
        before = {process.pid for process in in_session(theirs.pid)}
        monkeypatch.setenv("RAY_ADDRESS", other["address"])
        with (
            ray_folder(tmp_path / "process.json") as folder,
            open(tmp_path / "ours", "w") as log,
            verl_process(
                [sys.executable, "-c", RAY], SETTINGS, folder, tmp_path / "process.json", log
            ) as ours,
        ):
            own = told(tmp_path / "ours")
            assert own["address"] != other["address"]
            assert own["node"] != other["node"]
            assert len(in_session(ours.pid)) > 2
        assert in_session(ours.pid) == []
        assert {process.pid for process in in_session(theirs.pid)} >= before
        assert theirs.poll() is None
    finally:
        os.killpg(theirs.pid, signal.SIGTERM)
        for process in in_session(theirs.pid):
            process.kill()
        theirs.wait()
