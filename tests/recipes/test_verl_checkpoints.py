"""Which of verl's checkpoints a killed run goes on from."""

import json
import zipfile
from pathlib import Path

import pytest

from recipes.verl_checkpoints import ACCURACY, best, is_whole, resume_point, steps, tidy


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


def test_an_empty_pointer_and_an_empty_configuration(tmp_path):
    """verl's pointer is not looked at; its configuration of a checkpoint is."""
    older, newest = write(tmp_path, 9), write(tmp_path, 10)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("")
    assert resume_point(tmp_path, keep=3) == (10, newest)
    (newest / "actor/fsdp_config.json").write_text("")
    assert resume_point(tmp_path, keep=3) == (9, older)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("actor/model_world_size_2_rank_1.pt", None, "model_world_size_2_rank_1.pt is missing"),
        ("actor/optim_world_size_2_rank_0.pt", b"", "optim_world_size_2_rank_0.pt was cut short"),
        ("data.pt", b"PK", "data.pt was cut short"),
        ("actor/huggingface/config.json", b"", "actor/huggingface/config.json has 0 of"),
    ],
)
def test_a_damaged_one_is_told_by_name(tmp_path, capsys, name, content, reason):
    older, newest = write(tmp_path, 9, ranks=2), write(tmp_path, 10, ranks=2)
    (newest / "actor/huggingface").mkdir()
    (newest / "actor/huggingface/config.json").write_text("{}")
    tidy(tmp_path, 10, keep=3, records=[])
    (newest / name).unlink() if content is None else (newest / name).write_bytes(content)
    assert resume_point(tmp_path, keep=3) == (9, older)
    said = capsys.readouterr().out
    assert f"GRPO: checkpoint {newest} is damaged ({reason}" in said
    assert "falling back to global_step_9" in said


def test_a_shard_that_was_never_flushed_is_seen_once_it_is_sealed(tmp_path):
    """Its length and its archive's directory are right; what stands between is not."""
    checkpoint = write(tmp_path, 5)
    tidy(tmp_path, 5, keep=1, records=[])
    assert is_whole(checkpoint)
    shard = checkpoint / "actor/model_world_size_1_rank_0.pt"
    content = shard.read_bytes()
    shard.write_bytes(content[:100] + b"?" * 900 + content[1000:])
    assert not is_whole(checkpoint)


VALIDATED = [{"step": step, ACCURACY: value} for step, value in ((1, 0.2), (2, 0.6), (3, 0.6), (4, 0.5))]


def test_the_best_is_kept_beside_the_newest(tmp_path):
    for step in range(1, 6):
        write(tmp_path, step)
        tidy(tmp_path, step, keep=2, records=VALIDATED[:step])
    assert sorted(steps(tmp_path)) == [2, 4, 5]
    assert best(VALIDATED, tmp_path) == 2
    assert resume_point(tmp_path, 1, VALIDATED) == (5, tmp_path / "global_step_5")
    assert sorted(steps(tmp_path)) == [2, 5]


def test_what_verl_is_still_writing_is_left_alone(tmp_path):
    for step in (1, 2, 3):
        write(tmp_path, step)
    tidy(tmp_path, 2, keep=1, records=[])
    assert sorted(steps(tmp_path)) == [2, 3]
