"""The peak of SFT's update in a recipe's real configuration, random weights, one GPU: beside the estimate.

    python -m bench.estimate_gpu recipe=imagination_cot                     Qwen3-VL-4B, all weights
    python -m bench.estimate_gpu recipe=imagination_cot sft.lora.rank=32    with an adapter
    python -m bench.estimate_gpu recipe=imagination_cot scale=tiny          on the CPU, to try the script

Words are keys of the configuration. No model and no data are needed: the weights are random, the rows as long
as the budgets allow. Two micro-batches are one update, and the second update is measured, when AdamW has its
state. A line is added to estimate_gpu.jsonl. Qwen3-VL alone.
"""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from bench import estimate_models as models
from launch.compose import compose
from launch.estimate.memory import ALL, GIB, Sft, sft
from launch.estimate.setups import geometry_of, setups
from launch.pipeline import stages_of

MICRO_BATCHES, UPDATES = 2, 2
RECORDS = Path("estimate_gpu.jsonl")


def run_of(words: list[str]) -> Sft:
    """SFT of the configuration `words` on one GPU."""
    config = compose([*words, "cluster.gpus=1"])
    stages = stages_of("sft", config)
    geometry = geometry_of(config, stages)
    if geometry is None or geometry.vision.family != "qwen3_vl":
        raise SystemExit(f"{config.model.path} is no Qwen3-VL that the estimate knows.")
    (setup,) = setups(config, stages, geometry)
    run = replace(setup.sft(), accumulation=MICRO_BATCHES)
    if run.part != ALL and not run.numerics.cuda:
        raise SystemExit("On the CPU torch's tracker takes no frozen weights: leave them all to be trained.")
    return run


def peak_of(run: Sft) -> dict[str, Any]:
    """Bytes of the second update's peak, as CUDA's allocator counts them, on the CPU as torch's tracker."""
    model: Any = models.only(models.build(run.geometry, run.numerics), run.part)
    if run.checkpointing:
        models.checkpoint(model, run.part.adapter is not None)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    device = "cuda" if run.numerics.cuda else "cpu"
    rows = {name: tensor.to(device) for name, tensor in models.inputs(run.geometry, run.batch).items()}
    tracker = MemTracker()
    if not run.numerics.cuda:
        tracker.track_external(model, optimizer)
        tracker.__enter__()
    started = 0.0
    for _ in range(UPDATES):
        if run.numerics.cuda:
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(run.accumulation):
            if not run.numerics.cuda:
                tracker.reset_mod_stats()
            with models.autocast(run.numerics):
                loss = models.loss_of(model, rows, run.batch)
            (loss / run.accumulation).backward()
        optimizer.step()
        optimizer.zero_grad()
        if run.numerics.cuda:
            torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    if run.numerics.cuda:
        peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        return {
            "device": torch.cuda.get_device_name(),
            "peak": peak,
            "reserved": reserved,
            "seconds": seconds,
        }
    tracker.__exit__(None, None, None)
    (account,) = tracker.get_tracker_snapshot("peak").values()
    return {"device": "cpu", "peak": int(account["Total"]), "reserved": None, "seconds": seconds}


def main(words: list[str]) -> int:
    run = run_of(words)
    if run.numerics.cuda and not torch.cuda.is_available():
        print("This machine shows no GPU: nothing is measured. scale=tiny tries the script on the CPU.")
        return 2
    estimated = sft(run)
    record = {
        "model": run.geometry.name,
        "parameters": run.geometry.parameters,
        "words": words,
        "rows": run.batch.rows,
        "tokens": run.batch.tokens,
        "estimate": int(estimated.total - estimated.other),  # CUDA's context is outside the allocator
        **peak_of(run),
        "torch": torch.__version__,
    }
    with open(RECORDS, "a", encoding="utf-8") as out:
        out.write(json.dumps(record) + "\n")
    off = record["estimate"] / record["peak"] - 1
    print(
        f"{record['model']} on {record['device']}: estimate {record['estimate'] / GIB:.2f} GiB, measured "
        f"{record['peak'] / GIB:.2f} GiB ({off:+.1%}), an update of {run.accumulation} micro-batches in "
        f"{record['seconds']:.1f} s; added to {RECORDS}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
