"""A disk that fills up, in launch or in a stage, ends in one sentence; other faults keep their traceback."""

import errno
import sys
from pathlib import Path

import pytest

from data_prep.atomic import JsonlLog
from data_prep.errors import full_disk
from launch.cli import main
from recipes import __main__ as stage_main
from recipes.run_dir import RunDir

SENTENCE = "the disk is full. Free some space and give the same command again: it continues.\n"


@pytest.fixture
def full() -> Path:
    """A file that takes no byte."""
    path = Path("/dev/full")
    if not path.exists():
        pytest.skip("this system has no /dev/full to stand for a full disk")
    return path


def write(path: Path) -> None:
    with open(path, "w") as out:
        out.write("x")


def test_launch_tells_a_full_disk(full, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.pipeline.run_stage", lambda *_: write(full))
    assert main(["prep", "recipe=imagination_cot", "scale=tiny"]) == 2
    assert capsys.readouterr().err == f"launch: {SENTENCE}"


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_stage_tells_a_full_disk(wrapped, full, tmp_path, monkeypatch, capsys):
    def run(_: RunDir) -> None:
        try:
            write(full)
        except OSError as error:
            if wrapped:
                raise RuntimeError("the writer failed") from error
            raise

    module = type(sys)("a_stage")
    module.run = run
    monkeypatch.setitem(sys.modules, "a_stage", module)
    monkeypatch.setitem(stage_main.MODULES, "prep", "a_stage")
    monkeypatch.setattr(sys, "argv", ["recipes", "prep", str(tmp_path)])
    assert stage_main.main() == 2
    assert capsys.readouterr().err == f"prep: {SENTENCE}"


def test_a_log_on_a_full_disk_says_so(full, tmp_path):
    log = JsonlLog(tmp_path / "metrics.jsonl")
    log._out = open(full, "w")  # noqa: SIM115  the log closes it
    with pytest.raises(OSError) as caught:  # noqa: PT011  the number is checked below
        log.append({"step": 1})
    assert full_disk(caught.value) is not None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/a"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (RuntimeError("I/O error: No space left on device (os error 28)"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("nothing of the kind"), False),
    ],
)
def test_only_a_full_disk_is_taken_for_one(error, told):
    assert (full_disk(error) is not None) == told
    if getattr(error, "filename", None):
        assert "while writing runs/a." in full_disk(error)


@pytest.mark.parametrize("words", [[], ["prep"], ["paint", "folder"]])
def test_a_stage_that_is_not_there_is_told(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["recipes", *words])
    assert stage_main.main() == 2
    assert capsys.readouterr().err == (
        "usage: python -m recipes {generate,prep,audit,base,sft,grpo,eval,parity,serve} RUN_DIR\n"
    )
