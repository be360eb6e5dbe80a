"""Two thousand rows against an endpoint that misbehaves, killed twenty times: nothing lost, nothing paid
twice."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from stub_endpoint import HARDSHIPS, Stub
from teacher_runs import make_rows, teacher_config

from data_prep.atomic import read_jsonl
from data_prep.teacher.cache import FILE

HERE = Path(__file__).parent
ROWS, KILLS = 2000, 20
LATENCY = 0.02
OUTPUTS = ("teacher/reasoning.jsonl", "teacher/rejected.jsonl", "teacher_report.md", "teacher_report.json")


def start(folder: Path, stub: Stub) -> subprocess.Popen:
    config = teacher_config(stub.base_url, price_in=1.0, price_out=4.0, timeout=0.5)
    OmegaConf.save(config, folder / "teacher.yaml")
    return subprocess.Popen(
        [sys.executable, HERE / "teacher_runs.py", folder],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )


def on_disk(folder: Path) -> list[str]:
    """Keys of the whole replies that were kept; a last line that a kill cut short is none."""
    log = folder / "teacher" / FILE
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return [line.split(b'"')[3].decode() for line in lines]


@pytest.mark.slow
def test_killed_twenty_times_it_ends_as_if_undisturbed(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, killed):
        make_rows(folder, ROWS)
    with Stub(latency=LATENCY) as stub:
        assert start(undisturbed, stub).wait() == 0
        asked = len(stub.log)
        assert set(stub.met) == set(HARDSHIPS)

    moments = sorted(random.Random(7).sample(range(1, asked - 20), KILLS))
    kept_at: list[tuple[int, set[str]]] = []
    with Stub(latency=LATENCY) as stub:
        for moment in moments:
            process = start(killed, stub)
            while len(stub.log) < moment and process.poll() is None:
                time.sleep(0.004)
            assert process.poll() is None, "it ended before it could be killed"
            process.kill()
            process.wait()
            kept_at.append((len(stub.log), set(on_disk(killed))))
        assert start(killed, stub).wait() == 0
        for place, kept in kept_at:
            assert not kept & {key for key, _ in stub.log[place:]}, "what was on disk was asked for again"
        assert kept_at[-1][1]

    for name in OUTPUTS:
        assert (killed / name).read_bytes() == (undisturbed / name).read_bytes(), name
    accepted = [record["id"] for record in read_jsonl(killed / OUTPUTS[0])]
    rejected = list(read_jsonl(killed / OUTPUTS[1]))
    everything = [record["id"] for record in read_jsonl(killed / "rows.jsonl")]
    assert sorted([*accepted, *(record["id"] for record in rejected)]) == everything
    assert all(record["reason"] and record["attempts"] for record in rejected)
    assert len(accepted) > 0.9 * ROWS
    assert len(on_disk(killed)) == len(set(on_disk(killed)))
