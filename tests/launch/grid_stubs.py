"""A grid whose stages are small scripts, run as `python -m grid_stubs FOLDER SCENARIO WORD...`.

Each start of a stage adds a line to FOLDER/log. SCENARIO `fail:NAME` has the stages of that name fail,
`die:NAME` has them killed, as for want of memory, `slow:NAME` has them wait until FOLDER/go exists; `plain`
lets all through.
"""

import sys
from pathlib import Path

from launch import local
from launch.cli import main

STAGE = """
import json, os, sys, time
from pathlib import Path
run, name, folder, scenario = Path(sys.argv[1]), *sys.argv[2:]
with open(folder + "/log", "a") as log:
    log.write(f"{name} {run.name}\\n")
kind, _, which = scenario.partition(":")
if which in (name, run.parent.name + "/" + name):
    if kind == "fail":
        sys.exit(f"{name}: the {name} stage is told to fail")
    if kind == "die":
        os.kill(os.getpid(), 9)
    while not Path(folder, "go").exists():
        time.sleep(0.02)
if name == "eval":
    place = {"subset": "fov", "task": "g2s", "category": "roof", "answer": "A"}
    rows = [{"id": f"{g}.{q}", "group": f"fov/{g}", **place, "parsed": "AB"[q], "accuracy": 1.0 - q}
            for g in range(4) for q in range(2)]
    (run / "predictions.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
    overall = {"n": 8, "accuracy": 0.5, "low": 0.25, "high": 0.75}
    (run / "scores.json").write_text(json.dumps({"overall": overall, "cells": []}))
if name == "grpo":
    steps = [json.dumps({"step": step, "reward": step / 9}) for step in range(1, 8)]
    (run / "metrics.jsonl").write_text("".join(step + "\\n" for step in steps))
(run / "manifest.json").write_text("{}")
"""


def play(folder: Path, scenario: str) -> None:
    """Let every stage of this process be the script."""
    local.stage_command = lambda stage: [
        sys.executable, "-c", STAGE, str(stage.path), stage.name, str(folder), scenario,
    ]  # fmt: skip


if __name__ == "__main__":
    play(Path(sys.argv[1]), sys.argv[2])
    sys.exit(main(sys.argv[3:]))
