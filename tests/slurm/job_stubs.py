"""The interpreter of jobs whose stages are small scripts.

It runs the stages of the jobs (`-m recipes STAGE DIR`) and those that a task of an array starts as STAGE, and
everything else as it is. FOLDER/log gets a line a stage; FOLDER/fail names a stage, or a rate of SFT, that
fails; FOLDER/slow a stage that takes a minute. A stage ends with status 75 when it is told to save and end.
"""

import stat
import sys
from pathlib import Path

JOBS = (
    "cluster=slurm", "cluster.cpus=2", "cluster.cpu_jobs.cpus=1", "cluster.time=00:10:00",
    "cluster.cpu_jobs.time=00:10:00", "cluster.signal=60",
)  # fmt: skip
"""Options of small jobs."""
STAGE = """
import json, sys, time
from pathlib import Path
name, run, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
config = (run / "config.yaml").read_text()
told = lambda file: (folder / file).read_text() if (folder / file).exists() else "nothing"
begin = time.time()
for _ in range(600 if told("slow") == name else 10 if name == "sft" else 0):
    time.sleep(0.1)
    if (run / "slurm" / "stop").exists():
        sys.exit(75)
with open(folder / "log", "a") as log:
    log.write(json.dumps({"stage": name, "begin": begin, "end": time.time()}) + "\\n")
if told("fail") == name or (name == "sft" and f"lr: {told('fail')}\\n" in config):
    sys.exit(f"{name}: it is told to fail")
if name == "eval":
    place = {"subset": "fov", "task": "g2s", "category": "roof", "answer": "A"}
    rows = [{"id": f"{g}.{q}", "group": f"fov/{g}", **place, "parsed": "AB"[q], "accuracy": 1.0 - q}
            for g in range(4) for q in range(2)]
    (run / "predictions.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    overall = {"n": 8, "accuracy": 0.5, "low": 0.25, "high": 0.75}
    (run / "scores.json").write_text(json.dumps({"overall": overall, "cells": []}))
(run / "manifest.json").write_text("{}")
"""

SCRIPT = (
    """\
#!{python}
import os, runpy, sys
STAGE = """
    + repr(STAGE).replace("{", "{{").replace("}", "}}")
    + """
words = sys.argv[1:]
def stub(name, run):
    return ["{python}", "-c", STAGE, name, str(run), "{folder}"]
if words[:2] == ["-m", "recipes"]:
    os.execv("{python}", stub(*words[2:4]))
sys.path[:0] = os.environ["PYTHONPATH"].split(":")
from launch import local
local.stage_command = lambda stage: stub(stage.name, stage.path)
sys.argv = words[1:]
runpy.run_module(words[1], run_name="__main__", alter_sys=True)
"""
)


def interpreter(folder: Path) -> Path:
    """Write the interpreter of such jobs to `folder`/python, for cluster.python."""
    path = folder / "python"
    path.write_text(SCRIPT.format(python=sys.executable, folder=folder))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
