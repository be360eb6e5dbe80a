"""Bytes that each phase of SFT, GRPO and evaluation holds on one GPU, at its largest moment.

What a trainer does with dtypes and shards is read from its source: transformers' Trainer (all in the model's
dtype), DeepSpeed ZeRO (float32 masters in shards, gradients in bfloat16), accelerate's FSDP2 and verl 0.9.1's
(float32 masters, gradients and AdamW in shards, one layer at a time gathered in bfloat16). docs/estimate.md
has the formulas and what they were compared with.
"""

from dataclasses import dataclass, replace

from launch.estimate.activations import FULL, Adapter, Batch, Numerics, head, kept
from launch.estimate.geometry import Geometry

GIB = 2**30
STEP = 4  # bytes of AdamW's own counter, one a parameter tensor
BUCKET = 500_000_000  # numbers in DeepSpeed's bucket of gradients
LIVE = 1_000_000_000  # numbers that ZeRO-3 keeps gathered at most
SYNC_BUCKET = 2 * GIB  # verl sends weights to the rollout in buckets of this size
# Not measured: CUDA's context with its kernels, NCCL's buffers, and what the allocator cannot hand out again.
CONTEXT = 1.5 * GIB
ROLLOUT_CONTEXT = 1.5 * GIB  # of vLLM's process beside its share: its context and captured graphs

# Bytes a logit of all tokens, where verl holds them whole: in bfloat16 as they come, divided by the
# temperature and, padded, once more without padding; log-softmax and entropy work in float32.
LOGITS_UPDATE = {True: 4, False: 10}
LOGITS_LOG_PROBS = {True: 4, False: 12}
LOGITS_WHOLE = 12  # a trainer that takes the cross entropy of all logits, as TRL's does not


@dataclass(frozen=True)
class Phase:
    """The parts of a phase's memory on one GPU, in bytes."""

    name: str
    weights: float = 0
    gradients: float = 0
    optimizer: float = 0
    activations: float = 0
    logits: float = 0
    rollout: float = 0
    other: float = 0

    @property
    def total(self) -> float:
        parts = (self.weights, self.gradients, self.optimizer, self.activations, self.logits)
        return sum(parts) + self.rollout + self.other


@dataclass(frozen=True)
class States:
    """What stays on a GPU from step to step: weights, gradients (while they are held), AdamW's moments."""

    weights: float
    gradients: float
    optimizer: float
    buffers: float = 0


@dataclass(frozen=True)
class Trained:
    """Which parameters are trained: of an adapter, of the language model alone, or all."""

    adapter: Adapter | None = None
    vision_frozen: bool = False

    def split(self, geometry: Geometry) -> tuple[int, int, int]:
        """Parameters that are frozen, parameters that are trained, and the tensors of these."""
        if self.adapter:
            own = geometry.lora(self.adapter.rank, self.adapter.targets)
            tensors = 2 * geometry.text.layers * len(self.adapter.targets)
            return geometry.parameters, own, tensors
        if self.vision_frozen:
            return geometry.vision.parameters, geometry.text.parameters, geometry.text.tensors
        return 0, geometry.parameters, geometry.tensors


ALL = Trained()


def sft_states(geometry: Geometry, shard: str, gpus: int, size: int, part: Trained = ALL) -> States:
    """The states of SFT over `gpus` GPUs, whose model is of `size` bytes a parameter.

    Without several GPUs nothing is sharded, whatever `shard` says.
    """
    frozen, trained, tensors = part.split(geometry)
    own = FULL if part.adapter else size  # peft keeps adapters in float32
    if gpus == 1 or shard == "none":
        buckets = own * trained if gpus > 1 else 0  # DDP copies gradients into buckets of its own
        return States(
            size * frozen + own * trained, own * trained, 2 * own * trained + STEP * tensors, buckets
        )
    if shard == "fsdp":
        weights = (size * frozen + FULL * trained) / gpus + _gathered(geometry, size)
        unsharded = 0 if part.adapter else 2 * size * _root(geometry)
        return States(weights, FULL * trained / gpus, 2 * FULL * trained / gpus + STEP * tensors, unsharded)
    masters = 3 * FULL * trained / gpus
    if shard == "zero2":
        buffers = size * min(BUCKET, trained) + FULL * trained / gpus  # and the step's float32 gradients
        return States(size * (frozen + trained), size * trained / gpus, masters, buffers)
    everything = frozen + trained
    weights = size * (everything / gpus + min(LIVE, everything))
    return States(weights, size * trained / gpus, masters, FULL * min(LIVE, trained / gpus))


def _root(geometry: Geometry) -> int:
    """Parameters outside of layers and blocks, which FSDP2 gathers once and keeps until the step's end."""
    text, vision = geometry.text, geometry.vision
    # Untied input embeddings are a unit of their own.
    return text.embedding + text.hidden + vision.parameters - vision.depth * vision.block


def _gathered(geometry: Geometry, size: int) -> int:
    """Bytes of whole weights at a time: the root, and a layer while the next one arrives."""
    return size * (_root(geometry) + 2 * geometry.text.layer)


@dataclass(frozen=True)
class Sft:
    """An SFT run as it is on one GPU. `accumulation`: micro-batches an update, on each GPU."""

    geometry: Geometry
    batch: Batch
    numerics: Numerics
    shard: str
    gpus: int
    checkpointing: bool
    accumulation: int
    part: Trained = ALL


def sft(run: Sft) -> Phase:
    """The largest moment of an update: at the loss, or in the first or last layer that goes back.

    Gradients of earlier micro-batches are held through all of it; those of the only one grow on the way back
    while what was kept goes.
    """
    geometry, size = run.geometry, run.numerics.size
    part = run.part
    states = sft_states(geometry, run.shard, run.gpus, size, part)
    held = kept(geometry, run.batch, run.numerics, run.checkpointing, part.adapter, part.vision_frozen)
    head_kept, head_moment = head(geometry.text, run.batch, run.numerics, trained=part.adapter is None)
    before = states.gradients if run.accumulation > 1 else 0
    first_layer = held.total + held.layer
    last_layer = held.total - held.text + held.layer
    moments = [
        (before, held.total + head_kept, head_moment),
        (before, first_layer, 0),
        (states.gradients, last_layer, 0),
        (states.gradients, 0, 0),
    ]
    gradients, activations, logits = max(moments, key=sum)
    other = states.buffers + (CONTEXT if run.numerics.cuda else 0)
    return Phase("sft", states.weights, gradients, states.optimizer, activations, logits, 0, other)


@dataclass(frozen=True)
class Grpo:
    """A GRPO run with verl's FSDP engine as it is on one GPU.

    `update` and `log_probs` are the micro-batches of the two passes; `master` and `moment` bytes a parameter
    (4 in verl); `share` of `gpu_memory` bytes is vLLM's. `weights_off`, `moments_off`: the actor's weights,
    AdamW's moments wait on the host while others work. `packed`: no padding, through flash-attention.
    """

    geometry: Geometry
    update: Batch
    log_probs: Batch
    numerics: Numerics
    gpus: int
    tensor_parallel: int
    share: float
    gpu_memory: float
    checkpointing: bool
    packed: bool
    part: Trained = ALL
    weights_off: bool = False
    moments_off: bool = False
    master: int = FULL
    moment: int = FULL


def grpo(run: Grpo) -> list[Phase]:
    """The phases of a step in their order. The reference waits on the host and is gathered by layers."""
    geometry, size = run.geometry, run.numerics.size
    frozen, trained, _ = run.part.split(geometry)
    adapter = run.part.adapter
    weights, moments = run.master * (frozen + trained) / run.gpus, 2 * run.moment * trained / run.gpus
    gradients = run.master * trained / run.gpus
    gathered = _gathered(geometry, size)
    idle_weights, idle_moments = weights * (not run.weights_off), moments * (not run.moments_off)
    other = CONTEXT + ROLLOUT_CONTEXT if run.numerics.cuda else 0
    vocab = geometry.text.vocab
    own = size * geometry.parameters / run.tensor_parallel
    # Whole tensors pass one at a time; the embedding is the largest, in the master's dtype and in bfloat16.
    tensor = (run.master + size) * geometry.text.embedding
    held = kept(geometry, run.update, run.numerics, run.checkpointing, adapter, run.part.vision_frozen)
    loss = LOGITS_UPDATE[run.packed] * vocab * run.update.all_tokens
    at_loss, going_back = held.total, held.total + held.layer
    root = (size + FULL) * _root(geometry) * (adapter is None)  # its gradient, whole and as it is reduced
    layer = kept(geometry, run.log_probs, run.numerics, True, adapter).layer
    entropy = LOGITS_LOG_PROBS[run.packed] * vocab * run.log_probs.all_tokens
    update = (
        Phase("", activations=at_loss, logits=loss)
        if at_loss + loss > going_back + root
        else Phase("", activations=going_back, other=root)
    )
    return [
        Phase("rollout", idle_weights, 0, idle_moments, rollout=run.share * run.gpu_memory, other=other),
        Phase("to rollout", weights + tensor, 0, idle_moments, rollout=own + SYNC_BUCKET, other=other),
        Phase("log-probs", weights + gathered, 0, idle_moments, layer, entropy, 0, other),
        replace(
            update,
            name="update",
            weights=weights + gathered,
            gradients=gradients,
            optimizer=moments,
            other=other + update.other,
        ),
    ]


def cache_token(geometry: Geometry, size: int) -> int:
    """Bytes of keys and values that a token takes in a cache."""
    return 2 * geometry.text.layers * geometry.text.kv * size


def cache_room(run: Grpo) -> float:
    """Tokens that fit into one engine's cache; below 0, vLLM's share does not hold the weights."""
    own = run.numerics.size * run.geometry.parameters / run.tensor_parallel
    passing = 2 * GIB  # what vLLM's own trial pass takes, roughly
    room = run.share * run.gpu_memory - own - passing
    return room * run.tensor_parallel / cache_token(run.geometry, run.numerics.size)


def evaluation(geometry: Geometry, batch: Batch, new_tokens: int, numerics: Numerics) -> Phase:
    """A model that answers in this process: its weights, the cache, and one layer's pass over the prompts."""
    size, text = numerics.size, geometry.text
    cache = cache_token(geometry, size) * batch.rows * (batch.tokens + new_tokens)
    passing = batch.all_tokens * (3 * size * text.mlp + (4 * size + FULL) * text.hidden)
    vision = batch.patches(geometry.vision) * size * (geometry.vision.pixels + 12 * geometry.vision.hidden)
    logits = batch.rows * text.vocab * (size + FULL)
    other = CONTEXT if numerics.cuda else 0
    weights = size * geometry.parameters
    return Phase("eval", weights, 0, 0, max(cache + passing, vision), logits, 0, other)
