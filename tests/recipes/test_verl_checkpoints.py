"""Which of verl's checkpoints a killed run goes on from."""

import json
import zipfile
from pathlib import Path

import pytest

from recipes.verl_checkpoints import is_whole, resume_point


def write(folder: Path, step: int, ranks: int = 1) -> Path:
    """A checkpoint as verl lays it out; torch's files are zip archives."""
    actor = folder / f"global_step_{step}" / "actor"
    actor.mkdir(parents=True)
    names = [
        f"{kind}_world_size_{ranks}_rank_{rank}.pt"
        for kind in ("model", "optim", "extra_state")
        for rank in range(ranks)
    ]
    for path in [*(actor / name for name in names), actor.parent / "data.pt"]:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data", b"0" * 4096)
    (actor / "fsdp_config.json").write_text(json.dumps({"world_size": ranks}))
    return actor.parent


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize("ranks", [1, 8])
def test_a_complete_checkpoint_is_whole(tmp_path, ranks):
    assert is_whole(write(tmp_path, 3, ranks))


@pytest.mark.parametrize(
    "name",
    [
        "data.pt", "actor/fsdp_config.json", "actor/model_world_size_2_rank_1.pt",
        "actor/optim_world_size_2_rank_0.pt", "actor/extra_state_world_size_2_rank_1.pt",
    ],
)  # fmt: skip
def test_a_checkpoint_that_lacks_a_file_is_not_whole(tmp_path, name):
    checkpoint = write(tmp_path, 3, ranks=2)
    (checkpoint / name).unlink()
    assert not is_whole(checkpoint)


@pytest.mark.parametrize(
    "name", ["data.pt", "actor/model_world_size_1_rank_0.pt", "actor/optim_world_size_1_rank_0.pt"]
)
def test_a_truncated_newest_one_falls_back(tmp_path, name):
    older = write(tmp_path, 9)
    cut(write(tmp_path, 10) / name)
    assert resume_point(tmp_path, keep=3) == (9, older)
    assert [path.name for path in tmp_path.iterdir()] == ["global_step_9"]


def test_only_the_newest_are_kept(tmp_path):
    for step in (5, 10, 20, 100):
        write(tmp_path, step)
    assert resume_point(tmp_path, keep=2) == (100, tmp_path / "global_step_100")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["global_step_100", "global_step_20"]


def test_nothing_to_resume_from(tmp_path):
    assert resume_point(tmp_path / "absent", keep=3) == (0, None)
    cut(write(tmp_path, 1) / "data.pt")
    assert resume_point(tmp_path, keep=3) == (0, None)
