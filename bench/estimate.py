"""The estimate beside what torch counts: `python -m bench.estimate [--largest 100M] [--json]`.

Small models of the real classes take one update each on the CPU; their parameters, gradients and AdamW states
must be equal to the byte, what they keep for backward within 20 % (the bound; the last column says how far).
Then the estimate beside published peaks and published times. docs/estimate.md shows what this prints.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from launch.estimate.activations import Adapter, Batch, Numerics, kept
from launch.estimate.geometry import LINEAR, published
from launch.estimate.lines import ABOVE, BELOW, verdict
from launch.estimate.memory import ALL, GIB, LOGITS_WHOLE, Grpo, Phase, Sft, Trained, grpo, sft, sft_states
from launch.estimate.speed import peaks, speeds, step_fit, work_of

BOUND = 0.20  # of activations
PUBLISHED = Path(__file__).with_name("published_memory.json")


@dataclass(frozen=True)
class Compared:
    """A quantity as estimated and as torch counts it, in bytes; `exact`: they must be equal."""

    what: str
    estimated: int
    measured: int
    exact: bool = False

    @property
    def off(self) -> float:
        return self.estimated / self.measured - 1

    @property
    def holds(self) -> bool:
        return self.estimated == self.measured if self.exact else abs(self.off) <= BOUND


def states(name: str, part: Trained = ALL) -> Iterator[Compared]:
    """Parameters, gradients, AdamW and the peak of an update of the model `name`."""
    from bench import estimate_models as models

    batch, numerics = Batch(2, 256, 1, 64, 128, padded=False), Numerics(4, "sdpa", cuda=False)
    geometry = models.SIZES[name]
    model = models.only(models.build(geometry, numerics), part)
    held = models.update(model, geometry, batch, numerics)
    reckoned = sft_states(geometry, "none", 1, 4, part)
    label = f"{name}{_words(part)}"
    yield Compared(f"{label}: parameters", int(reckoned.weights), held.parameters, exact=True)
    yield Compared(f"{label}: gradients", int(reckoned.gradients), held.gradients, exact=True)
    yield Compared(f"{label}: AdamW", int(reckoned.optimizer), held.optimizer, exact=True)
    if held.peak is None:
        return
    run = Sft(geometry, batch, numerics, "none", 1, checkpointing=False, accumulation=1)
    yield Compared(f"{label}: peak of an update", int(sft(run).total), held.peak)


def activations(
    name: str, batch: Batch, numerics: Numerics, checkpointing: bool, part: Trained = ALL
) -> Compared:
    """What the model `name` without its head keeps for backward."""
    from bench import estimate_models as models

    geometry = models.SIZES[name]
    model: Any = models.build(geometry, numerics)
    rows, backbone = models.inputs(geometry, batch), model.model
    whole = models.only(model, part)
    if checkpointing:
        models.checkpoint(model, part.adapter is not None)
    with models.autocast(numerics):
        measured = models.kept_by(whole, lambda: backbone(**rows, use_cache=False))
    reckoned = kept(geometry, batch, numerics, checkpointing, part.adapter, part.vision_frozen).total
    words = [
        name, f"{batch.tokens} tokens", "bfloat16" if numerics.size == 2 else "float32", numerics.attention,
        *(["checkpointing"] if checkpointing else []), *(["padded"] if batch.padded else []),
    ]  # fmt: skip
    return Compared(", ".join(words) + _words(part), int(reckoned), measured)


def _words(part: Trained) -> str:
    if part.adapter:
        dropout = f", dropout {part.adapter.dropout:g}" if part.adapter.dropout else ""
        return f", LoRA {part.adapter.rank} on {len(part.adapter.targets)}{dropout}"
    return ", vision frozen" if part.vision_frozen else ""


def measured(names: list[str]) -> Iterator[Compared]:
    """All comparisons on this machine."""
    attention = Adapter(8, 0.0, LINEAR[:4])
    for name in names:
        yield from states(name)
    for part in (Trained(Adapter(8, 0.0)), Trained(attention), Trained(vision_frozen=True)):
        yield from states(names[0], part)
    for name, tokens, size, checkpointing in product(names, (128, 512), (4, 2), (False, True)):
        batch = Batch(2, tokens, 1, 64, tokens // 2, padded=False)
        yield activations(name, batch, Numerics(size, "sdpa", cuda=False), checkpointing)
    batch = Batch(2, 256, 1, 64, 128, padded=True)
    for way, size in product(("sdpa", "eager"), (4, 2)):
        yield activations(names[0], batch, Numerics(size, way, cuda=False), False)
    parts = (
        Trained(Adapter(16, 0.0)),
        Trained(Adapter(16, 0.1)),
        Trained(attention),
        Trained(vision_frozen=True),
    )
    for part, size in product(parts, (4, 2)):
        yield activations(names[0], batch, Numerics(size, "sdpa", cuda=False), False, part)


def published_phases(run: dict[str, Any]) -> list[Phase]:
    """The estimate of a run of `published_memory.json`, whose keys it explains."""
    geometry = published()[run["model"]]
    tokens, answer = run["prompt"] + run["answer"], run["answer"]
    numerics = Numerics(2, "flash_attention_2", cuda=True)

    def batch(rows: int) -> Batch:
        return Batch(rows, tokens, 1, run["pictures"], answer, padded=False)

    part = Trained(Adapter(run["lora"], 0.0) if run.get("lora") else None)
    if run["stage"] == "sft":
        reckoned = sft(
            Sft(geometry, batch(run["micro"][0]), numerics, run["shard"], run["gpus"], True, 2, part)
        )
        # Its trainer holds all logits at once, where ours goes tile by tile.
        logits = LOGITS_WHOLE * geometry.text.vocab * batch(run["micro"][0]).all_tokens
        return [replace(reckoned, logits=logits)]
    update, log_probs = (batch(rows) for rows in run["micro"])
    return grpo(
        Grpo(
            geometry,
            update,
            log_probs,
            numerics,
            gpus=run["gpus"],
            tensor_parallel=run["tensor_parallel"],
            share=run["share"],
            gpu_memory=run["gpu_memory"] * GIB,
            checkpointing=True,
            packed=True,
            part=part,
            weights_off=run["offload"],
            moments_off=run["offload"],
            master=run["master"],
            moment=run["master"],
        )
    )


def agrees(run: dict[str, Any], phase: Phase) -> bool:
    """Whether a published peak lies within the error bar, or the verdict does not contradict what is said."""
    if run["peak"]:
        return BELOW * phase.total <= run["peak"] * GIB <= ABOVE * phase.total
    return verdict(phase, run["gpu_memory"]) != ("too much" if run["fits"] else "fits")


def from_publications() -> Iterator[tuple[dict[str, Any], Phase]]:
    """Every published run with the largest phase that is estimated for it."""
    for run in json.loads(PUBLISHED.read_text(encoding="utf-8"))["runs"]:
        yield run, max(published_phases(run), key=lambda phase: phase.total)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the comparisons as JSON")
    parser.add_argument(
        "--largest", default="10M", help="of the models that are measured: 1M, 10M, 30M, 100M"
    )
    arguments = parser.parse_args()
    names = ["1M", "10M", "30M", "100M"]
    if arguments.largest not in names:
        parser.error(f"--largest is one of {', '.join(names)}")
    found = list(measured(names[: names.index(arguments.largest) + 1]))
    if arguments.json:
        print(json.dumps([{**asdict(one), "off": one.off, "holds": one.holds} for one in found], indent=2))
    else:
        _print(found)
    return 0 if all(one.holds for one in found) else 1


def _print(found: list[Compared]) -> None:
    print("| torch's own count, CPU | estimate, MB | torch, MB | off |\n|---|---|---|---|")
    for one in found:
        off = ("equal" if one.off == 0 else "DIFFERS") if one.exact else f"{one.off:+.1%}"
        mark = "" if one.holds else " !"
        print(f"| {one.what} | {one.estimated / 1e6:.2f} | {one.measured / 1e6:.2f} | {off}{mark} |")
    print("\n| published run | a GPU has | estimate | largest phase | published | agrees |")
    print("|---|---|---|---|---|---|")
    for run, phase in from_publications():
        total, gpu = phase.total / GIB, run["gpu_memory"]
        named = "enough" if run["fits"] else "less than is named"
        said = f"{run['peak']} GB, {run['peak'] / total - 1:+.0%}" if run["peak"] else named
        print(
            f"| {run['name']} | {gpu} GB | {total:.1f} GiB, {verdict(phase, gpu)} | {phase.name} | {said} "
            f"| {'yes' if agrees(run, phase) else 'NO'} |"
        )
    fixed, slope, worst = step_fit()
    print(f"\nA step of GRPO: {fixed:.0f} s + {slope:.1f} x work, within a factor of {worst:.2f}.\n")
    print("| published step | seconds | fit |\n|---|---|---|")
    for run in speeds()["grpo"]:
        reckoned = fixed + slope * work_of(run, run["answers"])
        hardware = f"{run['gpus']} {run['gpu']} ({peaks()[run['gpu']]:g} TFLOPS)"
        print(f"| {run['model']}, {run['answers']} answers, {hardware} | {run['seconds']} | {reckoned:.0f} |")


if __name__ == "__main__":
    sys.exit(main())
