"""Simulated GRPO runs: what a rollout log holds when a policy goes a certain way, under the real reward."""

import functools
import random
from collections.abc import Callable
from typing import Any

from recipes.rollouts import step_metrics
from rewards import compute_score

CATEGORIES = {"location": "s2g", "facade": "s2g", "roof_form": "g2s", "distance_to_camera": "g2s"}
LETTERS = "ABCD"
PROMPTS, GROUP = 32, 4
WORDS = (
    "road",
    "house",
    "tree",
    "roof",
    "wall",
    "left",
    "right",
    "near",
    "far",
    "red",
    "path",
    "wide",
    "tall",
)

Answer = Callable[[random.Random, float, str, str], str]
"""(random, share of the run that is done, gold, category) -> completion."""


def prose(rng: random.Random, words: int = 60) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def knows(rng: random.Random, share: float, gold: str) -> str:
    """The right letter in `share` of the cases, else any."""
    return gold if rng.random() < share else rng.choice(LETTERS)


def healthy(rng: random.Random, done: float, gold: str, category: str) -> str:
    return f"{prose(rng)}\n<answer> {knows(rng, 0.2 + 0.4 * done, gold)} </answer>"


def answers(
    policy: Answer, step: int, steps: int, pay: Callable[[dict[str, Any], str], float] | None = None
) -> list[dict[str, Any]]:
    """The answers of a step, as the rollout log holds them; `pay` is a reward of the user's own."""
    rng = random.Random(f"{policy.__name__}/{step}")
    found = []
    for row in range(PROMPTS):
        category = rng.choice(list(CATEGORIES))
        gold = rng.choice(LETTERS)
        for _ in range(GROUP):
            text = policy(rng, step / steps, gold, category)
            record = {"id": f"{step}/{row}", "task": CATEGORIES[category], "category": category}
            record |= {"answer_type": "choice", "gold": gold, "completion": text}
            record |= {"tokens": len(text.split()), "truncated": "</answer>" not in text}
            record |= compute_score("any", text, gold, {"options": dict.fromkeys(LETTERS, "")})
            found.append(record | ({"score": pay(record, gold)} if pay else {}))
    return found


def steady(done: float) -> dict[str, float]:
    return {"actor/kl_loss": 0.02, "actor/entropy": 0.4}


@functools.cache
def run_of(
    policy: Answer,
    steps: int = 30,
    pay: Callable[[dict[str, Any], str], float] | None = None,
    verl: Callable[[float], dict[str, float]] = steady,
) -> list[dict[str, Any]]:
    """The records of metrics.jsonl."""
    return [
        step_metrics(step, answers(policy, step, steps, pay), verl(step / steps))
        for step in range(1, steps + 1)
    ]
