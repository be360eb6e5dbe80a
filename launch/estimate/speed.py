"""Seconds that training takes, scaled from measured runs by tokens times parameters (`speeds.json`).

A step of GRPO takes a fixed time (pictures, the rollout's start, weights to the rollout) and one in
proportion to tokens x parameters / (GPUs x peak of the GPU); both are fitted to the table. SFT's speed is one
run's. The error bars are as wide as the worst run is off the fit or, where there is one run, `ALONE`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from launch.estimate.geometry import published

TABLE = Path(__file__).with_name("speeds.json")
ALONE = 2.5  # either way: packing alone moves SFT from 20 % of a GPU's peak to 40 % (lmms-engine's README)


@dataclass(frozen=True)
class Seconds:
    """A time with its range."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> "Seconds":
        return Seconds(self.value * factor, self.low * factor, self.high * factor)


@lru_cache(maxsize=1)
def speeds() -> dict[str, Any]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def peaks() -> dict[str, float]:
    """GPU type to its peak in 1e12 operations a second."""
    return {name: peak for name, peak in speeds()["tflops"].items() if name != "source"}


def work(parameters: float, tokens: float, gpu: str, gpus: int) -> float:
    """Seconds that two operations a parameter and token would take at the GPUs' peak."""
    return 2 * parameters * tokens / (gpus * peaks()[gpu] * 1e12)


def work_of(run: Mapping[str, Any], sequences: int) -> float:
    return work(published()[run["model"]].parameters, sequences * run["tokens"], run["gpu"], run["gpus"])


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(left, right, strict=True))


@lru_cache(maxsize=1)
def step_fit() -> tuple[float, float, float]:
    """Seconds a step that are fixed, seconds a unit of `work`, and the worst run's ratio to the fit.

    The two minimise the squared relative error over the runs of the table.
    """
    runs = [(work_of(run, run["answers"]), run["seconds"]) for run in speeds()["grpo"]]
    ones = [1 / seconds for _, seconds in runs]
    works = [amount / seconds for amount, seconds in runs]
    aa, ab, bb = _dot(ones, ones), _dot(ones, works), _dot(works, works)
    a, b = sum(ones), sum(works)
    determinant = aa * bb - ab * ab
    fixed, slope = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    ratios = [seconds / (fixed + slope * amount) for amount, seconds in runs]
    return fixed, slope, max(max(ratio, 1 / ratio) for ratio in ratios)


def grpo_step(parameters: float, tokens: float, gpu: str, gpus: int) -> Seconds:
    """A step whose answers have `tokens` tokens together, prompts included."""
    fixed, slope, worst = step_fit()
    value = fixed + slope * work(parameters, tokens, gpu, gpus)
    return Seconds(value, value / worst, value * worst)


def sft(parameters: float, tokens: float, gpu: str, gpus: int) -> Seconds:
    """All of an SFT run over `tokens` tokens."""
    (run,) = speeds()["sft"]
    value = work(parameters, tokens, gpu, gpus) * run["seconds"] / work_of(run, run["rows"])
    return Seconds(value, value / ALONE, value * ALONE)
