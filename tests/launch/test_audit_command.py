"""`launch prep check=true`: what it prints, where it writes, its exit status, and who else takes `check`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep.synthetic import write_release
from launch.cli import main

ROOT = Path(__file__).parents[2]
TINY = ("recipe=imagination_cot", "scale=tiny")


@pytest.fixture
def release(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_release(tmp_path / "release", seed=5, train_groups=12, test_groups=6)
    return tmp_path / "release"


def check(release: Path, *words: str) -> int:
    return main(["prep", "recipe=imagination_cot", f"data.root={release}", "check=true", *words])


def test_a_sound_release_ends_with_0_and_prepares_nothing(release, capfd):
    """Neither a teacher nor a model is needed for it."""
    assert check(release) == 0
    out = capfd.readouterr().out
    assert f"release at {release}" in out
    assert "errors: 0" in out
    folder = next(Path("runs/imagination_cot").iterdir())
    assert folder.name.startswith("audit-")
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == {
        "attempts", "audit.json", "findings.jsonl", "config.yaml", "inputs.json", "command.txt",
        "environment.txt",
    }  # fmt: skip
    assert json.loads((folder / "audit.json").read_text())["root"] == str(release)
    assert "check=true" in (folder / "command.txt").read_text()


def test_every_call_looks_anew_and_errors_end_with_1(release, capfd):
    assert check(release) == 0
    (release / "cvusa/data/bingmap/input0000001.png").unlink()
    assert check(release) == 1
    out = capfd.readouterr().out
    assert "missing_picture: 2 (questions whose picture is not there)" in out
    assert "cvusa/s2g/Sat2Ground_VQA_train.jsonl:1 cvsbench/cvusa/s2g/0000001.NA.q0\n" in out
    assert "'cvusa/data/bingmap/input0000001.png' is not in the data root\n" in out
    assert len(list(Path("runs/imagination_cot").iterdir())) == 1


def test_run_dir_says_where(release):
    assert check(release, "run_dir=here") == 0
    assert Path("here/audit.json").exists()
    assert not Path("runs").exists()


def test_a_dry_run_shows_what_would_be_read_and_writes_nothing(release, capfd):
    before = set(release.parent.iterdir())
    assert check(release, "dry_run=true") == 0
    out = capfd.readouterr().out
    path = "cvusa/g2s/Ground2Sat_VQA_train.jsonl"
    assert f"reads    {path} ({(release / path).stat().st_size:,} bytes)" in out
    assert "every picture that these rows name" in out
    assert "writes   audit.json, findings.jsonl" in out
    assert "manifest.json" not in out
    assert "audit (to run)" in out
    assert "Nothing stands in the way. This was a dry run." in out
    assert set(release.parent.iterdir()) == before


def test_a_dry_run_on_half_a_release_says_what_is_missing(release, capfd):
    (release / "fov/s2g/Sat2Ground_VQA_test.jsonl").unlink()
    assert check(release, "dry_run=true") == 0
    assert "nothing: " in (out := capfd.readouterr().out)
    assert "has no Sat2Ground_VQA_test.jsonl" in out


@pytest.mark.parametrize("command", ["sft", "grpo", "eval", "pipeline", "report"])
def test_no_other_command_takes_check(command, capsys):
    assert main([command, *TINY, "check=true"]) == 2
    told = capsys.readouterr().err
    assert "check" in told
    assert "use launch prep check=true" in told
    assert told.count("\n") == 1


def test_a_root_that_is_no_release_gets_one_sentence(tmp_path, capsys):
    assert main(["prep", "recipe=imagination_cot", f"data.root={tmp_path}", "check=true"]) == 2
    assert "is no CVSBench release" in capsys.readouterr().err


def test_nothing_heavy_is_needed():
    """The audit's own process imports no trainer."""
    heavy = {"torch", "transformers", "verl", "ray", "datasets", "pandas"}
    script = f"import sys; from recipes import audit; sys.exit(' '.join({heavy!r} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert done.returncode == 0
