"""The estimate in lines of at most 110 columns."""

from collections.abc import Iterator, Sequence

from launch.estimate.advice import ways_out
from launch.estimate.memory import GIB, Phase, cache_room
from launch.estimate.setups import Setup
from launch.estimate.speed import Seconds, grpo_step, sft, speeds
from recipes.step_counts import grpo_steps, sft_steps

# What a sum may be off by; docs/estimate.md compares it with published peaks.
BELOW, ABOVE = 0.90, 1.45
NAME = 18
COLUMNS = ("weights", "gradients", "optimizer", "activations", "logits", "rollout", "other", "sum")
MIB = 2**20


def head(setup: Setup) -> Iterator[str]:
    """The model and what the numbers rest on."""
    geometry, model = setup.geometry, setup.config.model
    unit = (
        f"{geometry.parameters / 1e9:.3f} billion"
        if geometry.parameters > 1e8
        else f"{geometry.parameters:,}"
    )
    batch = setup.batch(1)
    yield (
        f"{model.name}: {unit} parameters, {model.dtype}; sequences of {setup.tokens:,} tokens (the budgets),"
        f" {batch.image_tokens:,} of pictures."
    )


def memory(found: Sequence[Setup]) -> Iterator[str]:
    """A row for every phase, and a warning with the ways out where the GPU is too small."""
    rows = [(setup, phase) for setup in found for phase in setup.phases()]
    if not rows:
        return
    cuda, gpu = rows[0][0].cuda, rows[0][0].config.cluster.gpu_memory
    small = max(phase.total for _, phase in rows) < GIB
    unit, name = (MIB, "MiB") if small else (GIB, "GiB")
    titles = "".join(f"{column:>{_width(column)}}" for column in COLUMNS)
    yield f"{f'{name} a GPU' if cuda else f'{name} of tensors':<{NAME}}{titles}"
    for setup, phase in rows:
        yield _row(setup, phase, unit, gpu if cuda else None)
    if not cuda:
        return
    yield (
        f"A real peak may be from {1 - BELOW:.0%} below to {ABOVE - 1:.0%} above a sum; no GPU run of ours "
        "stands behind it (docs/estimate.md)."
    )
    for setup in found:
        yield from _room(setup)
        yield from _warning(setup, gpu)


def _row(setup: Setup, phase: Phase, unit: float, gpu: float | None) -> str:
    parts = (
        phase.weights, phase.gradients, phase.optimizer, phase.activations, phase.logits, phase.rollout,
        phase.other, phase.total,
    )  # fmt: skip
    name = phase.name if phase.name == setup.stage else f"{setup.stage}, {phase.name}"
    texts = [f"{part / unit:.1f}" if part else "-" for part in parts]
    cells = "".join(f"{text:>{_width(column)}}" for text, column in zip(texts, COLUMNS, strict=True))
    return f"{name:<{NAME}}{cells}{'' if gpu is None else f'  {verdict(phase, gpu)}'}"


def _width(column: str) -> int:
    return max(9, len(column) + 2)


def verdict(phase: Phase, gpu: float) -> str:
    """Whether a GPU of `gpu` GiB holds the phase: fits, even where the real peak is as much above the sum as
    it may be; tight, where only the sum fits; too much."""
    if phase.total > gpu * GIB:
        return "too much"
    return "fits" if phase.total * ABOVE <= gpu * GIB else "tight"


def _room(setup: Setup) -> Iterator[str]:
    if setup.stage != "grpo":
        return
    room = int(cache_room(setup.grpo()) // setup.tokens)
    if room < 1:
        yield (
            f"warning: grpo.rollout_memory={setup.config.grpo.rollout_memory} leaves the rollout no cache "
            "for one sequence: raise it, or grpo.tensor_parallel."
        )
    else:
        yield f"The rollout's cache holds {room:,} whole sequences an engine."


def _warning(setup: Setup, gpu: float) -> Iterator[str]:
    phases = setup.phases()
    if not phases or max(phase.total for phase in phases) <= gpu * GIB:
        return
    worst = max(phases, key=lambda phase: phase.total)
    name = worst.name if worst.name == setup.stage else f"{setup.stage}'s phase {worst.name!r}"
    yield f"warning: {name} wants {worst.total / GIB:.0f} GiB of a GPU's {gpu:g}. Ways out:"
    for words, then in ways_out(setup):
        yield f"  {words}: {then:.0f} GiB{'' if then > gpu else ', which fits'}"


def time(found: Sequence[Setup], price: float | None) -> Iterator[str]:
    """Hours, GPU hours and, with a price, dollars of the stages whose speed is known."""
    timed = [(setup, *seconds) for setup in found if (seconds := _seconds(setup))]
    if timed and not timed[0][0].cuda:
        return
    for setup, seconds, how in timed:
        hours = seconds * (setup.times / 3600)
        of_gpus = hours * setup.gpus
        yield (
            f"{setup.stage}{f' x {setup.times}' if setup.times > 1 else ''}: {_range(hours, 'h')}, "
            f"{_range(of_gpus, 'GPU hours')} on {setup.gpus} {setup.config.cluster.gpu_type}"
            f"{_cost(of_gpus, price)}; {how}."
        )
    if timed and not all(setup.rows_known for setup, *_ in timed):
        yield (
            "The sets are not prepared yet: "
            f"{max(setup.rows for setup, *_ in timed):,} rows each are taken, as in the paper."
        )
    if timed and any(setup.stage in ("eval", "parity") for setup in found):
        yield "Evaluation: no speed of it on GPUs is published that this could be scaled from."


def tiny(benchmark: str) -> str:
    """What stages at scale=tiny took where they were measured."""
    times = speeds()["tiny"][benchmark]
    told = ", ".join(f"{stage} {time}" for stage, time in times.items() if stage != "source")
    return f"Time at scale=tiny, as measured once: {told} ({times['source']})."


def _seconds(setup: Setup) -> tuple[Seconds, str] | None:
    """A stage's time and what it is made of; half the budgets' tokens stand for a mean sequence."""
    gpu, parameters, config = setup.config.cluster.gpu_type, setup.geometry.parameters, setup.config
    if setup.stage == "sft":
        section = config.sft
        steps = sft_steps(config, setup.rows)
        tokens = steps * section.batch_size * setup.tokens / 2
        return sft(parameters, tokens, gpu, setup.gpus), f"{steps:,} steps"
    if setup.stage == "grpo":
        section = config.grpo
        steps = grpo_steps(config, setup.rows)
        step = grpo_step(
            parameters, section.batch_size * section.group_size * setup.tokens / 2, gpu, setup.gpus
        )
        return step * steps, f"{steps:,} steps of {_range(step, 's')}"
    return None


def _range(value: Seconds, unit: str) -> str:
    digits = 0 if value.value >= 10 else 1
    return f"{value.value:.{digits}f} {unit} ({value.low:.{digits}f} to {value.high:.{digits}f})"


def _cost(hours: Seconds, price: float | None) -> str:
    if price is None:
        return ""
    least, most = hours.low * price, hours.high * price
    return f", ${hours.value * price:,.0f} (${least:,.0f} to ${most:,.0f})"
