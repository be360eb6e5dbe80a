"""Training over several nodes of a job: how it is divided, how Ray gets there, how it saves when told to."""

import os
import sys
import types
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from data_prep.errors import UserError
from launch.compose import compose
from launch.preflight.batches import faults as batch_faults
from recipes import devices, ray_cluster, stop, verl_overrides, verl_stop
from recipes.verl_schema import compose_verl

PAPER = ("recipe=imagination_cot", "data.root=/data", "teacher.path=/teacher.jsonl", "cluster=slurm")
TINY = ("recipe=imagination_cot", "scale=tiny", "cluster=slurm")


def overrides(*options: str) -> list[str]:
    out = Path("/runs/grpo/verl")
    return verl_overrides.overrides(compose(options), Path("/runs/prep"), "/runs/sft/checkpoint", out, 640)


def test_devices_are_those_of_all_nodes():
    assert devices.count(compose([*PAPER, "cluster.nodes=4"])) == 32
    assert devices.count(compose([*TINY, "cluster.nodes=2"])) == 2
    assert devices.count(compose(["recipe=imagination_cot"])) == 8


def test_verl_is_told_of_the_nodes():
    verl = compose_verl(overrides(*PAPER, "cluster.nodes=4"))
    assert (verl.trainer.nnodes, verl.trainer.n_gpus_per_node) == (4, 8)
    verl = compose_verl(overrides(*TINY, "cluster.nodes=2"))
    assert (verl.trainer.nnodes, verl.trainer.n_gpus_per_node) == (2, 1)
    assert verl.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu == 32  # half of 16 prompts' 4 answers
    with pytest.raises(UserError, match=r"its value is held by cluster\.nodes"):
        overrides(*TINY, "grpo.overrides=['trainer.nnodes=2']")


def test_a_job_has_started_ray_already():
    assert not [text for text in overrides(*TINY) if "ray_init" in text]
    config = compose(TINY)
    assert "RAY_AUTH_MODE" not in verl_overrides.environment(config, Path("verl"))
    config.cluster.name = "local"
    assert verl_overrides.environment(config, Path("verl"))["RAY_AUTH_MODE"] == "disabled"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("cluster.nodes=3",), "do not divide over 24 GPUs: make the product a multiple of 24"),
        (("cluster.nodes=3", "sft.batch_size=64"), "sft.batch_size=64 does not divide over 24 GPUs"),
        (("cluster.nodes=2", "model.grpo_micro_batch_size=3"), "4 answers an update"),
    ],
)
def test_batches_divide_over_all_nodes(options, told):
    found = list(batch_faults(compose([*PAPER, *options]), {"sft", "grpo"}))
    assert any(told in sentence for sentence in found), found


def test_the_shipped_batches_divide_over_a_few_nodes():
    for scale, nodes in ((PAPER, (1, 2, 4, 8)), (TINY, (1, 2, 4))):
        for count in nodes:
            assert not list(batch_faults(compose([*scale, f"cluster.nodes={count}"]), {"sft", "grpo"}))


def test_the_first_node_carries_the_head_and_the_others_join_it():
    slurm = {"RAY_ADDRESS": "10.0.0.1:20021", "SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "96"}
    config = compose([*PAPER, "cluster.nodes=2"])
    head = ray_cluster.node_command(config, {**slurm, "SLURM_NODEID": "0"})
    assert {"--head", "--port=20021", "--temp-dir=/tmp/ray-7", "--num-gpus=8", "--num-cpus=96"} <= set(head)
    worker = ray_cluster.node_command(config, {**slurm, "SLURM_NODEID": "1"})
    assert "--address=10.0.0.1:20021" in worker
    assert "--head" not in worker
    tiny = ray_cluster.node_command(compose(TINY), {**slurm, "SLURM_NODEID": "1"})
    assert {"--num-gpus=1", f"--num-cpus={verl_overrides.CPU_SLOTS}"} <= set(tiny)


def test_outside_of_a_job_no_ray_is_joined(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("RAY_ADDRESS", "somebody:6379")
    with pytest.raises(UserError, match="submit it with cluster=slurm"):
        ray_cluster.address()
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert ray_cluster.address() == "somebody:6379"


def asked(folder: Path) -> None:
    (folder / stop.NAME).parent.mkdir(parents=True, exist_ok=True)
    (folder / stop.NAME).touch()


def test_a_checkpoint_answers_the_wish_that_came_before_it(tmp_path):
    saved = tmp_path / "global_step_1"
    saved.mkdir()
    assert not stop.answered(tmp_path, saved)
    asked(tmp_path)
    os.utime(saved, (1, 1))
    assert stop.requested(tmp_path)
    assert not stop.answered(tmp_path, None)
    assert not stop.answered(tmp_path, saved)
    saved.touch()
    assert stop.answered(tmp_path, saved)


def test_sft_saves_and_ends_when_it_is_told_to(tmp_path):
    from recipes.sft_stop import SaveAndStop, TrainerControl, TrainerState

    arguments, control = types.SimpleNamespace(device="cpu"), TrainerControl()
    callback = SaveAndStop(tmp_path)
    callback.on_step_end(arguments, TrainerState(), control)
    assert (control.should_save, control.should_training_stop) == (False, False)
    asked(tmp_path)
    callback.on_step_end(arguments, TrainerState(), control)
    assert (control.should_save, control.should_training_stop) == (True, True)


def test_verl_saves_once_a_step_when_it_is_told_to(tmp_path, monkeypatch):
    folder = tmp_path / "verl/checkpoints"

    class PPOTrainerSync:
        config = OmegaConf.create({"trainer": {"default_local_dir": str(folder)}})
        global_steps = 4
        calls: tuple[str, ...] = ()

        def on_step_end(self) -> None:
            self.calls += ("step",)

        def _save_checkpoint(self) -> None:
            self.calls += ("save",)
            (folder / f"global_step_{self.global_steps}").mkdir(parents=True)

    name = "verl.trainer.ppo.v1.trainer_sync"
    monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(PPOTrainerSync=PPOTrainerSync))
    verl_stop.install()
    verl_stop.install()  # a second data set of the same process
    trainer = PPOTrainerSync()
    trainer.on_step_end()
    assert trainer.calls == ("step",)
    asked(tmp_path)
    trainer.on_step_end()
    trainer.on_step_end()  # as where verl has saved this step by itself
    assert trainer.calls == ("step", "step", "save", "step")
