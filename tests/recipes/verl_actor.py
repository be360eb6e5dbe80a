"""verl's own actor engine on the CPU, built from our configuration: what it trains, and what a step moves.

python verl_actor.py RUN_DIR    RUN_DIR is an opened GRPO stage; prints one line of JSON
"""

import json
import os
import sys
from pathlib import Path

from omegaconf import open_dict

from recipes import verl_overrides
from recipes.run_dir import RunDir
from recipes.stages import checkpoint_path
from recipes.verl_schema import compose_verl


def main(run: RunDir) -> dict:
    out = run.path / "verl"
    os.environ.update(verl_overrides.environment(run.config, out))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    import torch
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.engine.base import EngineRegistry

    start = checkpoint_path(run, "sft")
    config = compose_verl(verl_overrides.overrides(run.config, run.inputs["prep"].path, start, out, 640))
    actor = config.actor_rollout_ref.actor
    store = torch.distributed.FileStore(str(run.path / "store"), 1)
    torch.distributed.init_process_group("cpu:gloo", store=store, rank=0, world_size=1)
    model_config = omega_conf_to_dataclass(config.actor_rollout_ref.model)
    with open_dict(actor):  # as verl's actor configuration does for itself
        actor.fsdp_config.strategy, actor.optim.total_training_steps = actor.strategy, 2
    engine = EngineRegistry.new(
        model_type="language_model",
        backend=actor.strategy,
        model_config=model_config,
        engine_config=omega_conf_to_dataclass(actor.fsdp_config),
        optimizer_config=omega_conf_to_dataclass(actor.optim),
        checkpoint_config=omega_conf_to_dataclass(actor.checkpoint),
    )
    engine.initialize()
    named = dict(engine.module.named_parameters())
    before = {name: whole(tensor).clone() for name, tensor in named.items()}
    ids = torch.arange(100, 140)[None]
    for group in engine.optimizer.param_groups:
        group["lr"] = 1e-2
    for _ in range(2):  # an adapter's first half moves from the second step on
        logits = engine.module(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        logits.float().square().mean().backward()
        engine.optimizer.step()
        engine.optimizer.zero_grad()
    return {
        "trained": {name: tensor.numel() for name, tensor in named.items() if tensor.requires_grad},
        "frozen": {name: tensor.numel() for name, tensor in named.items() if not tensor.requires_grad},
        "optimized": sum(t.numel() for group in engine.optimizer.param_groups for t in group["params"]),
        "moved": [name for name, tensor in named.items() if not torch.equal(before[name], whole(tensor))],
        "engine": type(engine).__name__,
    }


def whole(tensor):
    return getattr(tensor, "_local_tensor", tensor).detach()


if __name__ == "__main__":
    print(json.dumps(main(RunDir(Path(sys.argv[1])))))
