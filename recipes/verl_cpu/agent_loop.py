"""verl's agent loop manager on the CPU (`rollout.agent.agent_loop_manager_class`): a step in one call.

verl's own manager returns at once and its trainer polls for answers every two seconds, while workers run one
coroutine an answer. Here a step's answers are generated and stored before the call returns, so the trainer
finds them at its first look, and an error anywhere in the rollout stops the run instead of losing a group.
"""

from typing import Any

import ray
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ

from recipes.verl_cpu.server import actor_name


class StepAgentLoopManager(AgentLoopManagerTQ):
    """Sends each batch to the rollout server of this machine and waits for it."""

    @classmethod
    def create(
        cls,
        config: DictConfig,
        llm_client: Any,
        teacher_client: Any = None,
        reward_loop_worker_handles: list[ray.actor.ActorHandle] | None = None,
    ) -> "StepAgentLoopManager":
        manager = cls(config, llm_client, teacher_client, reward_loop_worker_handles)
        manager.server = ray.get_actor(actor_name(0))
        ray.get(manager.server.connect.remote(config.data, reward_loop_worker_handles))
        return manager

    def generate_sequences(self, prompts: TensorDict) -> None:
        ray.get(self.server.answer.remote(prompts))
