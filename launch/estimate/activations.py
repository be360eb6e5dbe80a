"""What a training step keeps between forward and backward: bytes, by arithmetic over the model's measures.

The sums follow transformers' modules tensor by tensor, each storage counted once, and the tests compare them
with what torch keeps (`bench.estimate` prints both). A number of the matrix products takes 2 bytes in
bfloat16 and 4 in float32; norms, softmax and rotary embeddings work in float32 whatever the model's dtype.
"""

from dataclasses import dataclass

from launch.estimate.geometry import LINEAR, Geometry, Text, Vision

FULL = 4  # bytes of a float32
STATISTIC = 4
TILE_ROWS, TILE_COLUMNS = 4096, 32768  # of TRL's head, which computes the logits tile by tile
TILE_COPIES = 29  # bytes a logit of a tile where it is folded without Triton, that is on the CPU


@dataclass(frozen=True)
class Batch:
    """A micro-batch: `rows` sequences of `tokens` each, of which `image_tokens` are `images` pictures and
    `answer_tokens` bear the loss. `padded`: they differ in length, so that attention needs a mask."""

    rows: int
    tokens: int
    images: int
    image_tokens: int
    answer_tokens: int
    padded: bool

    @property
    def all_tokens(self) -> int:
        return self.rows * self.tokens

    def patches(self, vision: Vision) -> int:
        return self.rows * self.image_tokens * vision.merge**2


@dataclass(frozen=True)
class Numerics:
    """`size`: bytes of a number in matrix products; `attention`: sdpa, eager or flash_attention_2."""

    size: int
    attention: str
    cuda: bool

    @property
    def layer_norm(self) -> int:
        """Bytes a number that a LayerNorm keeps of its input: CUDA's autocast takes it to float32."""
        return FULL if self.cuda else self.size


def text_layer(text: Text, batch: Batch, numerics: Numerics) -> int:
    """Bytes that one layer of the language model keeps, its input included."""
    size, rms = numerics.size, FULL + numerics.size  # a norm keeps its float32 input and what it scales
    eager = numerics.attention == "eager"
    masked = batch.padded and numerics.attention == "sdpa"
    token = 2 * (rms * text.hidden + STATISTIC) + 2 * size * text.hidden
    if text.qk_norm:
        token += rms * (text.q + text.kv) + STATISTIC * (text.heads + text.kv_heads)
    keys_and_values = 2 * (text.q if eager or masked else text.kv)  # else copied for every group of heads
    token += size * (2 * text.q + keys_and_values)
    token += _scores(text.heads, batch.tokens, size) if eager else STATISTIC * text.heads
    token += size * batch.tokens * masked
    token += 4 * size * text.mlp
    return token * batch.all_tokens


@dataclass(frozen=True)
class Adapter:
    """LoRA on the linear layers `targets` of the language model, everything else frozen."""

    rank: int
    dropout: float
    targets: tuple[str, ...] = LINEAR


def adapted_layer(text: Text, batch: Batch, numerics: Numerics, adapter: Adapter) -> int:
    """`text_layer` with an adapter, whose weights peft keeps in float32.

    A frozen norm does not keep what it scales, nor a frozen linear layer its input. Below float32 every
    adapter casts its input for itself; with dropout it keeps a copy and a mask (a byte a number on a GPU, a
    float32 on the CPU).
    """
    size, linear, targets = numerics.size, text.linear, adapter.targets
    inputs = sum(linear[name][0] for name in targets)
    token = -size * (2 * text.hidden + (text.q + text.kv) * text.qk_norm) + size * adapter.rank * len(targets)
    token -= size * (2 * text.hidden + text.mlp)
    if size < FULL or adapter.dropout:
        token += size * inputs
    else:  # they share what is there; attention keeps its own output
        after_norms = any(name in targets for name in LINEAR[:3]) + any(
            name in targets for name in LINEAR[4:6]
        )
        token += size * (after_norms * text.hidden + (LINEAR[6] in targets) * text.mlp)
    if adapter.dropout:
        token += (1 if numerics.cuda else FULL) * inputs
    casts = size * adapter.rank * sum(sum(linear[name]) for name in targets) if size < FULL else 0
    return text_layer(text, batch, numerics) + token * batch.all_tokens + casts


def _scores(heads: int, length: int, size: int) -> int:
    """A row of attention weights, which eager attention keeps in float32 and in the model's dtype."""
    return heads * length * (FULL + (size if size < FULL else 0))


def vision_block(vision: Vision, batch: Batch, numerics: Numerics) -> int:
    """Bytes that one block of the vision tower keeps, its input included."""
    size, hidden = numerics.size, vision.hidden
    norms = 2 * (numerics.layer_norm + size) * hidden + 4 * size
    if vision.family == "qwen2_5_vl":
        norms = 2 * (FULL + 2 * size) * hidden + 2 * STATISTIC
    # Keys, queries and values as projected and, but in InternVL, as rotated; the output and its copy.
    rotated = 0 if vision.family == "internvl" else 2
    copies = 1 if numerics.attention == "sdpa" else 0
    patch = norms + size * hidden * (3 + rotated + 1 + copies)
    if vision.family == "internvl":
        patch += 2 * size * hidden  # what the layer scales multiply
    if numerics.attention == "eager":
        patches = batch.patches(vision) // max(1, batch.rows * batch.images)
        patch += _scores(vision.heads, patches, size)
    else:
        patch += STATISTIC * vision.heads
    patch += size * vision.mlp * (4 if vision.family == "qwen2_5_vl" else 2)
    return patch * batch.patches(vision)


def outside(
    geometry: Geometry,
    batch: Batch,
    numerics: Numerics,
    vision_frozen: bool = False,
    norm_frozen: bool = False,
) -> int:
    """Bytes that everything outside layers and blocks keeps: patches, mergers, positions, the last norm."""
    text, vision, size = geometry.text, geometry.vision, numerics.size
    patches = batch.patches(vision)
    mergers = (1 + vision.deepstack) * (3 * size + numerics.layer_norm - size) + size
    head_dim = vision.hidden // vision.heads
    patch = size * vision.pixels + mergers * vision.hidden + 2 * FULL * head_dim + 48
    token = 2 * size * text.head_dim + 8 + (FULL + size) * text.hidden + STATISTIC
    token -= size * text.hidden * norm_frozen
    return patch * patches * (not vision_frozen) + token * batch.all_tokens


def head(text: Text, batch: Batch, numerics: Numerics, trained: bool) -> tuple[int, int]:
    """What TRL's head keeps, and what its backward needs for a moment: it never holds all logits.

    On a GPU it takes the tokens that bear the loss, on the CPU all of them. `trained`: the head's weights
    get a gradient, which is summed up in float32.
    """
    tokens = batch.rows * (batch.answer_tokens if numerics.cuda else batch.tokens)
    rows = min(tokens, TILE_ROWS)
    tile = numerics.size * rows * TILE_COLUMNS
    if not numerics.cuda:
        tile += TILE_COPIES * rows * min(text.vocab, TILE_COLUMNS)
    cast = numerics.size if numerics.size < FULL else 0
    gradients = (FULL + cast) * (text.embedding * trained + tokens * text.hidden)
    return tokens * (numerics.size * text.hidden + 16), tile + gradients


@dataclass(frozen=True)
class Kept:
    """Bytes kept when the forward pass ends, and what a backward step through one layer adds to them."""

    text: int
    vision: int
    outside: int
    layer: int

    @property
    def total(self) -> int:
        return self.text + self.vision + self.outside


def kept(
    geometry: Geometry,
    batch: Batch,
    numerics: Numerics,
    checkpointing: bool,
    adapter: Adapter | None = None,
    vision_frozen: bool = False,
) -> Kept:
    """What the model without its head keeps.

    With gradient checkpointing a layer keeps its input alone and computes the rest again on the way back. A
    frozen vision tower keeps nothing, and with an adapter it is frozen: no gradient passes through it.
    """
    text, vision, size = geometry.text, geometry.vision, numerics.size
    vision_frozen = vision_frozen or adapter is not None
    block = 0 if vision_frozen else vision_block(vision, batch, numerics)
    layer = adapted_layer(text, batch, numerics, adapter) if adapter else text_layer(text, batch, numerics)
    of_text, of_vision = layer * text.layers, block * vision.depth
    going_back = batch.all_tokens * max(
        3 * size * text.mlp + size * text.hidden, (2 * size + 4 * FULL) * text.hidden
    )
    if checkpointing:
        of_text = size * text.hidden * batch.all_tokens * text.layers
        of_vision = size * vision.hidden * batch.patches(vision) * vision.depth * (not vision_frozen)
        going_back += max(layer, block)
    around = outside(geometry, batch, numerics, vision_frozen, norm_frozen=adapter is not None)
    return Kept(of_text, of_vision, around, going_back)
