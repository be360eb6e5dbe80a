"""Rows are held out by place, the same ones each time, and the rest is trained on."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf
from pyarrow import parquet

from data_prep.errors import UserError
from recipes.held_out import held_out_groups, sets, write_sets
from recipes.stages import plan

GROUPS = [f"place{number // 3}" for number in range(60)]


def test_whole_groups_until_there_are_enough():
    chosen = held_out_groups(GROUPS, 7, 0, "sft.validation_rows")
    assert len(chosen) == 3
    assert chosen == held_out_groups(reversed(GROUPS), 7, 0, "sft.validation_rows")
    assert chosen < held_out_groups(GROUPS, 20, 0, "sft.validation_rows")
    assert chosen != held_out_groups(GROUPS, 7, 1, "sft.validation_rows")
    assert held_out_groups(GROUPS, 0, 0, "sft.validation_rows") == set()


@pytest.mark.parametrize("wanted", [31, 61])
def test_more_than_half_is_refused(wanted):
    with pytest.raises(UserError, match=rf"sft\.validation_rows={wanted} would hold out .* of 60 rows"):
        held_out_groups(GROUPS, wanted, 0, "sft.validation_rows")


def test_the_rl_set_is_parted_without_a_loss(tiny, tmp_path):
    config = tiny("grpo.validation_rows=10")
    prep, out = plan(config, "prep").path, tmp_path / "verl"
    kept, held = write_sets(config, prep, out)
    assert held >= 10
    train, validation = (parquet.read_table(path) for path in sets(config, prep, out))
    whole = parquet.read_table(prep / "rl.parquet")
    assert (train.num_rows, validation.num_rows) == (kept, held)
    infos = [table.column("extra_info").to_pylist() for table in (train, validation)]
    assert all(info.pop("held_out") for info in infos[1])
    assert not {info["group"] for info in infos[0]} & {info["group"] for info in infos[1]}
    together = sorted([*infos[0], *infos[1]], key=lambda info: info["index"])
    assert together == whole.column("extra_info").to_pylist()
    assert train.schema == whole.schema


def test_without_held_out_rows_nothing_is_written(tiny, tmp_path):
    config = tiny()
    prep = plan(config, "prep").path
    assert write_sets(config, prep, tmp_path / "verl") == (
        parquet.read_table(prep / "rl.parquet").num_rows,
        0,
    )
    assert list(tmp_path.iterdir()) == []


def test_verl_is_told_where_they_are():
    from launch.compose import compose
    from recipes import verl_overrides
    from recipes.verl_schema import compose_verl

    def composed(*options: str):
        config = compose(["recipe=imagination_cot", "scale=tiny", *options])
        return compose_verl(
            verl_overrides.overrides(config, Path("/prep"), "/sft", Path("/grpo/verl"), rows=640)
        )

    plain = composed()
    assert plain.data.val_files == plain.data.train_files == "/prep/rl.parquet"
    assert (plain.trainer.test_freq, plain.data.val_max_samples) == (-1, 1)
    held = composed("grpo.validation_rows=64", "grpo.save_every=7")
    assert held.data.train_files == "/grpo/sets/train.parquet"
    assert held.data.val_files == held.data.held_out_file == "/grpo/sets/validation.parquet"
    assert (held.trainer.test_freq, held.trainer.save_freq, held.data.val_max_samples) == (7, 7, -1)
    assert held.trainer.max_actor_ckpt_to_keep is None
    assert OmegaConf.select(held, "actor_rollout_ref.rollout.val_kwargs.temperature") == 0


def test_what_is_off_moves_no_directory_and_what_is_on_does(tiny):
    def folders(*options: str) -> dict[str, str]:
        return {stage.name: stage.hash for stage in plan(tiny(*options), "eval").with_inputs()}

    before = folders()
    cases = {
        "sft.take=last": set(),
        "sft.keep_checkpoints=9": set(),
        "grpo.validation_rows=0": set(),
        "model.trust_remote_code=false": set(),
        "model.freeze_vision=true": {"sft", "grpo", "eval"},
        "sft.validation_rows=8": {"sft", "grpo", "eval"},
        "grpo.validation_rows=8": {"grpo", "eval"},
        "grpo.take=best": {"grpo", "eval"},
    }
    for option, moved in cases.items():
        after = folders(option)
        assert {name for name in before if before[name] != after[name]} == moved, option
    # Where the best is taken, it matters when one is saved.
    assert folders("grpo.take=best") != folders("grpo.take=best", "grpo.save_every=7")
