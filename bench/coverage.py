"""How often the 95 % interval of an accuracy covers the truth, over simulated models whose truth is known.

    python -m bench.coverage [--json PATH] [--models 2500] [--releases 4]

A simulated model is right on a row with a chance that all rows of an image group share; the chances of the
groups are drawn around the model's accuracy. All models of a release answer the same rows, and the releases
differ in how many rows a group has. The intervals are those of `recipes.statistics.bootstrap_ci`; as it
resamples every model on the same groups alike, one matrix of counts does for all of them.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from recipes.statistics import TAILS, resamples

GROUPS = (50, 100, 200, 500, 1000, 2000)
ENOUGH = 500  # groups from which on the share must lie in BOUNDS
BOUNDS = (0.94, 0.96)
ROWS = (1, 8)  # fewest and most questions of a group
ACCURACIES = (0.25, 0.9)
CONCENTRATIONS = (1.0, 16.0)  # of the groups' chances (beta): small when scenes differ much


def simulate(
    models: int, groups: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right answers by (group, model), rows by group, and the true accuracy by model."""
    sizes = generator.integers(ROWS[0], ROWS[1] + 1, size=groups)
    truth = generator.uniform(*ACCURACIES, size=models)
    concentration = np.exp(generator.uniform(*np.log(CONCENTRATIONS), size=models))
    chances = generator.beta(truth * concentration, (1 - truth) * concentration, size=(groups, models))
    return generator.binomial(sizes[:, None], chances).astype(float), sizes, truth


def draws(groups: int, n: int = 2000, seed: int = 0) -> np.ndarray:
    """How often each group (column) is in each of the bootstrap's resamples (row)."""
    return np.concatenate(
        [
            np.stack([np.bincount(row, minlength=groups) for row in chunk])
            for chunk in resamples(groups, n, seed)
        ]
    ).astype(float)


def intervals(totals: np.ndarray, sizes: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`bootstrap_ci` for many models at once: lower and upper ends, by model.

    Models whose groups are all alike have no spread to resample, and are no concern here.
    """
    low, high = np.quantile((drawn @ totals) / (drawn @ sizes)[:, None], TAILS, axis=0)
    return low, high


def coverage(
    models: int = 2500, releases: int = 4, groups: tuple[int, ...] = GROUPS, seed: int = 0
) -> list[dict[str, Any]]:
    """A record for each number of groups: the share of intervals that hold the truth, and on which side not.

    `error` is the standard error of that share.
    """
    generator = np.random.default_rng(seed)
    records = []
    for count in groups:
        drawn = draws(count)
        below, above, widths = [], [], []
        for _ in range(releases):
            totals, sizes, truth = simulate(models, count, generator)
            low, high = intervals(totals, sizes, drawn)
            below.append(high < truth)
            above.append(truth < low)
            widths.append(high - low)
        covered = 1 - float(np.mean(below) + np.mean(above))
        records.append(
            {
                "groups": count,
                "intervals": models * releases,
                "covered": covered,
                "error": float(np.sqrt(covered * (1 - covered) / (models * releases))),
                "below": float(np.mean(below)),
                "above": float(np.mean(above)),
                "mean_width": float(np.mean(widths)),
                "holds": count < ENOUGH or BOUNDS[0] <= covered <= BOUNDS[1],
            }
        )
    return records


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    parser.add_argument("--models", type=int, default=2500, help="simulated models a release")
    parser.add_argument("--releases", type=int, default=4, help="simulated releases a number of groups")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    started = time.perf_counter()
    records = coverage(arguments.models, arguments.releases, seed=arguments.seed)
    print(f"{'groups':>7}{'covered':>10}{'+-':>7}{'below':>8}{'above':>8}{'width':>8}")
    for r in records:
        print(f"{r['groups']:>7}{r['covered']:>10.1%}{r['error']:>7.1%}{r['below']:>8.1%}", end="")
        print(f"{r['above']:>8.1%}{r['mean_width']:>8.3f}{'' if r['holds'] else '  !'}")
    print(f"{records[0]['intervals']} intervals each, {time.perf_counter() - started:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return 0 if all(r["holds"] for r in records) else 1


if __name__ == "__main__":
    sys.exit(main())
