"""verl's agent loop manager on the CPU (`rollout.agent.agent_loop_manager_class`): a step in one call.

verl's own manager returns at once and its trainer polls for answers every two seconds, while workers run one
coroutine an answer. Here a step's answers are generated and stored before the call returns, so the trainer
finds them at its first look, and an error anywhere in the rollout stops the run instead of losing a group.
On several nodes each one's server answers its share of the prompts, all at the same time.
"""

from typing import Any

import numpy as np
import ray
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ

from recipes.verl_cpu.server import actor_name


class StepAgentLoopManager(AgentLoopManagerTQ):
    """Shares each batch out over the rollout servers, one a training process, and waits for them."""

    @classmethod
    def create(
        cls,
        config: DictConfig,
        llm_client: Any,
        teacher_client: Any = None,
        reward_loop_worker_handles: list[ray.actor.ActorHandle] | None = None,
    ) -> "StepAgentLoopManager":
        manager = cls(config, llm_client, teacher_client, reward_loop_worker_handles)
        count = config.trainer.nnodes * config.trainer.n_gpus_per_node
        manager.servers = [ray.get_actor(actor_name(rank)) for rank in range(count)]
        ray.get([s.connect.remote(config.data, reward_loop_worker_handles) for s in manager.servers])
        return manager

    def generate_sequences(self, prompts: TensorDict) -> None:
        shares = np.array_split(np.arange(len(prompts)), len(self.servers))
        pairs = zip(self.servers, shares, strict=True)
        ray.get([server.answer.remote(prompts[share.tolist()]) for server, share in pairs if len(share)])
