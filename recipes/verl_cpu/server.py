"""The Ray actor that answers a step's prompts, and how the trained weights reach it.

One process does what verl spreads over agent loop workers and an inference server: it encodes the prompts,
generates, has the answers scored by verl's reward workers and puts the trajectories into TransferQueue, each
for the whole step at once.
"""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tensordict import NonTensorData, NonTensorStack, TensorDict
from verl.protocol import DataProto
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import get_tensordict, nested_tensor_from_tensor_list, unwrap_non_tensor_data
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout import base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

import recipes.verl_cpu.log_probs  # noqa: F401  here, as this module is loaded where a model is built

NAME = "hf_cpu"  # actor_rollout_ref.rollout.name


def actor_name(rank: int) -> str:
    return f"{NAME}_server_{rank}"


class RolloutServer:
    """Generates with the policy's weights of the last update. `connect` comes before the first `answer`."""

    def __init__(self, config: RolloutConfig, model_config: DictConfig, rank: int) -> None:
        # Imported here: the classes below are registered in processes that never load a model.
        from recipes.verl_cpu.engine import Engine

        self.config, self.rank, self.global_steps = config, rank, 0
        self.model: HFModelConfig = omega_conf_to_dataclass(model_config)
        end = self.model.generation_config.eos_token_id
        tokenizer = self.model.tokenizer
        end_ids = {tokenizer.eos_token_id, *(end if isinstance(end, list) else [end])}
        self.engine = Engine(self.model.local_path, sorted(end_ids), tokenizer.pad_token_id, len(tokenizer))

    def connect(self, data: DictConfig, reward_workers: list[ray.actor.ActorHandle]) -> None:
        """Take the trainer's `data` section and its reward workers, and join TransferQueue."""
        from recipes.verl_cpu.prompts import PromptEncoder

        self.encoder = PromptEncoder(self.model, data, self.config.prompt_length)
        self.reward_workers = reward_workers
        tq.init()

    def load_weights(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        self.engine.load_weights(weights.items())
        if global_steps is not None:
            self.global_steps = global_steps

    def answer(self, batch: TensorDict) -> None:
        """Answer every prompt of verl's `batch`, score the answers and store them.

        Raises:
            ValueError: a prompt that is too long, or sampling settings that the engine does not have.
        """
        validate = bool(unwrap_non_tensor_data(batch.pop("validate", False)))
        answers, temperature = self._sampling(validate)
        rows = [_row(batch, i) for i in range(len(batch))]
        prompts = [self.encoder.encode(list(row["raw_prompt"])) for row in rows]
        # Tied to the step, so that a resumed run samples what an uninterrupted one would have.
        seed = self.config.seed + 1_000_003 * (1 + self.global_steps) + self.rank
        completions = self.engine.generate(prompts, answers, temperature, self.config.response_length, seed)

        samples = [
            {**row, "session_id": session, "prompt": prompt, "completion": completion}
            for row, prompt, group in zip(rows, prompts, completions, strict=True)
            for session, completion in enumerate(group)
        ]
        rewards = self._score(samples)
        partition = "val" if validate else "train"
        tq.kv_batch_put(
            keys=[f"{sample['uid']}_{sample['session_id']}_0" for sample in samples],
            fields=self._trajectories(samples, rewards),
            tags=[self._tag(sample) for sample in samples],
            partition_id=partition,
        )
        tq.kv_batch_put(
            keys=[row["uid"] for row in rows],
            tags=[{"status": "finished"} for _ in rows],
            partition_id=partition,
        )

    def _sampling(self, validate: bool) -> tuple[int, float]:
        """Answers a prompt, and the temperature."""
        config = self.config
        settings = config.val_kwargs if validate else config
        if settings.top_p != 1 or settings.top_k not in (-1, 0):
            raise ValueError(f"{NAME} samples from the whole distribution: rollout.top_p=1, top_k=-1")
        return settings.n, settings.temperature

    def _score(self, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """verl's reward of every sample, from its reward workers."""
        answers = [torch.tensor(sample["completion"].token_ids) for sample in samples]
        kept = [key for key in samples[0] if key not in ("prompt", "completion")]
        proto = DataProto(
            batch=TensorDict(
                {
                    "responses": torch.nn.utils.rnn.pad_sequence(answers, batch_first=True),
                    "attention_mask": torch.nn.utils.rnn.pad_sequence(
                        [torch.ones_like(answer) for answer in answers], batch_first=True
                    ),
                },
                batch_size=len(samples),
            ),
            non_tensor_batch={key: _objects([sample[key] for sample in samples]) for key in kept},
        )
        shares = np.array_split(np.arange(len(samples)), len(self.reward_workers))
        pending = [
            worker.compute_score_batch.remote(proto.select_idxs(share))
            for worker, share in zip(self.reward_workers, shares, strict=True)
            if len(share)
        ]
        return [result for results in ray.get(pending) for result in results]

    def _trajectories(self, samples: list[dict[str, Any]], rewards: list[dict[str, Any]]) -> TensorDict:
        """The fields that verl's agent loop stores for a trajectory."""
        prompts = [torch.tensor(sample["prompt"].token_ids) for sample in samples]
        answers = [torch.tensor(sample["completion"].token_ids) for sample in samples]
        masks = [torch.ones_like(answer) for answer in answers]
        scores = [torch.zeros(len(answer)) for answer in answers]
        for score, reward in zip(scores, rewards, strict=True):
            score[-1] = reward["reward_score"]
        log_probs = [torch.tensor(sample["completion"].log_probs) for sample in samples]
        whole = [torch.cat(pair) for pair in zip(prompts, answers, strict=True)]
        positions = [sample["prompt"].continued(sample["completion"].token_ids) for sample in samples]
        ragged = {
            "prompts": prompts,
            "responses": answers,
            "response_mask": masks,
            "loss_mask": masks,
            "input_ids": whole,
            "rm_scores": scores,
            "rollout_log_probs": log_probs,
            "position_ids": positions,
        }
        steps = self.global_steps
        listed = {
            key: [sample[key] for sample in samples]
            for key in ("uid", "data_source", "reward_model", "extra_info", "index", "session_id")
        }
        return get_tensordict(
            {name: nested_tensor_from_tensor_list(tensors) for name, tensors in ragged.items()}
            | listed
            | {
                "multi_modal_inputs": [dict(sample["prompt"].features) for sample in samples],
                "num_turns": torch.full((len(samples),), 2),
                "extra_fields": [
                    {
                        "global_steps": steps,
                        "min_global_steps": steps,
                        "max_global_steps": steps,
                        "reward_extra_info": reward["reward_extra_info"],
                    }
                    for reward in rewards
                ],
            }
        )

    def _tag(self, sample: dict[str, Any]) -> dict[str, Any]:
        prompt, answer = len(sample["prompt"].token_ids), len(sample["completion"].token_ids)
        return {
            "status": "success",
            "prompt_len": prompt,
            "response_len": answer,
            "seq_len": prompt + answer,
            "global_steps": sample["global_steps"],
            "min_global_steps": self.global_steps,
            "max_global_steps": self.global_steps,
        }


def _row(batch: TensorDict, index: int) -> dict[str, Any]:
    """One prompt of verl's batch as plain values; what holds for the whole batch stands in every row."""
    row = {}
    for key, value in batch.items():
        if isinstance(value, NonTensorStack):
            row[key] = value[index].data
        elif isinstance(value, NonTensorData):
            row[key] = value.data
    return row


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


class WeightSender(BaseRollout):
    """In the training worker: hands the updated weights to its server through Ray's object store."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **_: Any,
    ) -> None:
        named = {name: tensor.detach().to("cpu", torch.float32, copy=True) for name, tensor in weights}
        await ray.get_actor(actor_name(int(os.environ["RANK"]))).load_weights.remote(named, global_steps)

    async def resume(self, tags: list[str]) -> None: ...
    async def release(self) -> None: ...


class Replica(RolloutReplica):
    """Starts the server. Its weights and cache stay in memory, so there is nothing to put to sleep."""

    async def launch_servers(self) -> None:
        # Beside its training worker: left to Ray, the servers of all nodes may land on one.
        node = await self.workers[0].__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
        server = (
            ray.remote(RolloutServer)
            .options(
                name=actor_name(self.replica_rank),
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False),
            )
            .remote(self.config, self.model_config, self.replica_rank)
        )
        self.servers, self._server_handle = [server], server
        self._server_address = actor_name(self.replica_rank)

    async def wake_up(self) -> None: ...
    async def sleep(self) -> None: ...
    async def clear_kv_cache(self) -> None: ...


RolloutReplicaRegistry.register(NAME, lambda: Replica)
base._ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.{WeightSender.__name__}"
