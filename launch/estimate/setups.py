"""From a stage's configuration to the runs that `memory` and `speed` reckon with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf

from launch.estimate.activations import Adapter, Batch, Numerics
from launch.estimate.geometry import LINEAR, Geometry, find, of_build
from launch.estimate.memory import Grpo, Phase, Sft, Trained, evaluation, grpo, sft
from recipes import devices
from recipes.run_dir import RunDir
from recipes.stages import Stage

GIGABYTE = 2**30  # of cluster.gpu_memory: makers of GPUs count in powers of two
SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
# Rows of a set by the papers: half of CVSBench's training split (4.1), all of MonoSR (3.2).
PUBLISHED_ROWS = {"cvsbench": 4_392, "monosr": 1_020_000}
USERS = ("sft", "grpo", "eval", "serve", "parity")  # stages with a model of ours on a GPU
OFFLOAD = "actor_rollout_ref.actor.fsdp_config"
LORA_DROPOUT = 0.0  # of verl's adapters


@dataclass(frozen=True)
class Setup:
    """A stage whose GPUs are estimated: its configuration, the model, and how many GPUs work on it."""

    stage: str
    config: DictConfig
    geometry: Geometry
    gpus: int
    pictures: int
    rows: int
    rows_known: bool
    times: int

    @property
    def cuda(self) -> bool:
        return self.config.model.device == "cuda"

    @property
    def tokens(self) -> int:
        """The longest sequence that the budgets allow."""
        return self.config.model.max_prompt_tokens + self.config.model.max_response_tokens

    @property
    def numerics(self) -> Numerics:
        attention = self.config.model.attention
        if attention == "auto":
            flash = self.cuda and find_spec("flash_attn") is not None
            attention = "flash_attention_2" if flash else "sdpa"
        return Numerics(SIZES[self.config.model.dtype], attention, self.cuda)

    def batch(self, rows: int) -> Batch:
        model = self.config.model
        seen = min(self.pictures * model.max_image_tokens, model.max_prompt_tokens)
        answer = model.max_response_tokens
        return Batch(rows, self.tokens, self.pictures, seen, answer, padded=rows > 1)

    def with_option(self, key: str, value: Any) -> "Setup":
        """The same stage with another value of one key."""
        config = self.config.copy()
        OmegaConf.update(config, key, value)
        return replace(self, config=config)

    def on(self, gpus: int) -> "Setup":
        """The same stage on another number of GPUs."""
        return replace(self, gpus=gpus)

    def phases(self) -> list[Phase]:
        """The stage's phases in bytes on one GPU; none where a server elsewhere holds the model."""
        if self.stage == "sft":
            return [sft(self.sft())]
        if self.stage == "grpo":
            run = self.grpo()
            # The CPU's rollout is no engine of its own.
            return grpo(run) if self.cuda else grpo(run)[2:]
        return self._evaluation()

    def sft(self) -> Sft:
        section, model = self.config.sft, self.config.model
        micro = min(model.sft_micro_batch_size, max(1, section.batch_size // self.gpus))
        return Sft(
            geometry=self.geometry,
            batch=self.batch(micro),
            numerics=self.numerics,
            shard=section.shard,
            gpus=self.gpus,
            checkpointing=model.gradient_checkpointing,
            accumulation=section.batch_size // (micro * self.gpus),
            part=self._part(section.lora.rank, section.lora.dropout),
        )

    def grpo(self) -> Grpo:
        section, model = self.config.grpo, self.config.model
        samples = section.mini_batch_size * section.group_size
        batch = self.batch(min(model.grpo_micro_batch_size, max(1, samples // self.gpus)))
        numerics = self.numerics
        return Grpo(
            geometry=self.geometry,
            update=batch,
            log_probs=batch,
            numerics=numerics,
            gpus=self.gpus,
            tensor_parallel=section.tensor_parallel,
            share=section.rollout_memory,
            gpu_memory=self.config.cluster.gpu_memory * GIGABYTE,
            checkpointing=model.gradient_checkpointing,
            packed=numerics.attention == "flash_attention_2",
            part=self._part(section.lora.rank, LORA_DROPOUT),
            weights_off=self._sets(f"{OFFLOAD}.param_offload"),
            moments_off=self._sets(f"{OFFLOAD}.optimizer_offload"),
        )

    def _part(self, rank: int, dropout: float) -> Trained:
        model = self.config.model
        known = tuple(name for name in model.lora_targets if name in LINEAR)
        return Trained(Adapter(rank, dropout, known) if rank else None, model.freeze_vision)

    def _sets(self, key: str) -> bool:
        """Whether the user has verl's `key` on."""
        return any(str(word).lower() == f"{key}=true" for word in self.config.grpo.overrides)

    def _evaluation(self) -> list[Phase]:
        section, model = self.config.eval, self.config.model
        if section.serve or self.stage == "serve":
            share = self.config.vllm.memory * self.config.cluster.gpu_memory * GIGABYTE
            return [Phase(self.stage, rollout=share)] if self.cuda else []
        if section.engine != "transformers":
            return []
        prompts = self.batch(model.eval_batch_size)
        batch = Batch(prompts.rows, model.max_prompt_tokens, prompts.images, prompts.image_tokens, 0, True)
        return [evaluation(self.geometry, batch, section.max_new_tokens, self.numerics)]


def geometry_of(config: DictConfig, stages: Sequence[Stage]) -> Geometry | None:
    """The model of `config`; a model that is built here is read from its checkpoint, once there is one."""
    if config.model.build is None:
        return find(config.model.path)
    base = next((stage for stage in stages if stage.name == "base" and stage.finished), None)
    built = find(str(base.path / "checkpoint")) if base else None
    return built or of_build(config.model.build, config.model.name)


def setups(config: DictConfig, stages: Sequence[Stage], geometry: Geometry) -> list[Setup]:
    """The stages ahead that train or ask a model, each kind of them once, in their order."""
    found: dict[str, Setup] = {}
    pictures = 1 if config.data.get("views", "none") == "none" else 2
    prep = next((stage for stage in stages if stage.name == "prep" and stage.finished), None)
    sets = RunDir(prep.path).manifest["sets"] if prep else {}
    for stage in stages:
        if stage.finished or stage.name not in USERS or stage.name in found:
            continue
        own = OmegaConf.create(stage.config)
        assert isinstance(own, DictConfig)
        split = {"sft": "sft", "grpo": "rl"}.get(stage.name, "test")
        rows = sets[split]["rows"] if split in sets else PUBLISHED_ROWS[config.data.benchmark]
        gpus = _gpus(stage) if stage.name in ("sft", "grpo") else 1
        times = sum(other.name == stage.name and not other.finished for other in stages)
        found[stage.name] = Setup(stage.name, own, geometry, gpus, pictures, rows, split in sets, times)
    return list(found.values())


def _gpus(stage: Stage) -> int:
    return max(1, devices.gpus(stage.config) * devices.nodes(stage.config["cluster"]))
