"""Checkpoints are whole or known not to be, kept in number, and the best of them is taken."""

import pytest

from recipes import checkpoints
from recipes.checkpoints import best_step, fault, saving, seal, sort_out, superfluous

FILES = {"model.safetensors": b"weights" * 999, "state/optimizer.pt": b"moments" * 999, "state.json": b"{}"}


@pytest.fixture
def sealed(tmp_path):
    """`sealed(step)`: a sealed checkpoint."""

    def made(step: int):
        folder = tmp_path / f"checkpoint-{step}"
        for name, content in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        seal(folder)
        return folder

    return made


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path):
    path.write_bytes(b"")


def zeroed(path):
    """As after a power cut: the length is there, the content is not."""
    path.write_bytes(bytes(path.stat().st_size))


def gone(path):
    path.unlink()


@pytest.mark.parametrize("name", [*FILES, checkpoints.MARKER])
@pytest.mark.parametrize("harm", [cut, empty, zeroed, gone])
def test_every_damage_to_every_file_is_seen(sealed, harm, name):
    folder = sealed(3)
    assert fault(folder) is None
    harm(folder / name)
    assert name in fault(folder)


def test_blocks_of_a_large_file_are_held_against_its_seal(sealed, monkeypatch):
    monkeypatch.setattr(checkpoints, "WHOLE", 1000)
    monkeypatch.setattr(checkpoints, "BLOCK", 10)
    folder = sealed(3)
    assert fault(folder) is None
    path = folder / "model.safetensors"
    content = path.read_bytes()
    for place in (0, len(content) - 1):
        path.write_bytes(content[:place] + b"?" + content[place + 1 :])
        assert "content of model.safetensors" in fault(folder)
    half = len(content) // 2
    path.write_bytes(content[:half] + bytes(len(content) - half))
    assert "content of model.safetensors" in fault(folder)


def test_the_newest_damaged_one_is_told_and_the_one_before_taken(sealed, capsys):
    found = {step: sealed(step) for step in (2, 4, 10)}
    cut(found[10] / "model.safetensors")
    gone(found[2] / "state.json")
    whole, damaged = sort_out(found, fault, "SFT")
    assert list(whole) == [4]
    assert damaged == [found[2], found[10]]
    said = capsys.readouterr().out
    assert f"SFT: checkpoint {found[10]} is damaged (model.safetensors has " in said
    assert "falling back to checkpoint-4" in said
    sort_out(found, fault, "SFT", quiet=True)
    assert capsys.readouterr().out == ""


def test_with_no_whole_one_the_run_starts_anew(sealed, capsys):
    found = {2: sealed(2)}
    gone(found[2] / checkpoints.MARKER)
    assert sort_out(found, fault, "SFT") == ({}, [found[2]])
    assert "starting anew" in capsys.readouterr().out


def test_the_newest_and_the_best_are_kept():
    assert superfluous([30, 10, 20, 40], keep=2, best=10) == [20]
    assert superfluous([30, 10, 20, 40], keep=2, best=30) == [10, 20]
    assert superfluous([30, 10, 20, 40], keep=2, best=None) == [10, 20]
    assert superfluous([10], keep=2, best=None) == []


def test_the_best_is_the_first_of_equals_and_no_nan():
    records = [
        {"step": 1, "loss": 3.0},
        {"step": 2},
        {"step": 3, "loss": float("nan")},
        {"step": 4, "loss": 1.0},
        {"step": 5, "loss": 1.0},
    ]
    assert best_step(records, "loss", highest=False) == 4
    assert best_step(records, "loss", highest=True) == 1
    assert best_step(records, "loss", highest=False, among=[1, 2]) == 1
    assert best_step(records, "loss", highest=False, among=[2, 3]) is None


def test_a_folder_that_fails_to_be_written_leaves_the_old_one(tmp_path):
    target = tmp_path / "checkpoint"
    with saving(target) as folder:
        (folder / "a").write_text("first")
    with pytest.raises(FileNotFoundError), saving(target) as folder:
        (folder / "absent").unlink()
    assert (target / "a").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
