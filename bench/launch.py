"""How fast the command line answers: wall time of whole processes, the fastest and the middle of several.

The dry run of every recipe at every scale comes last: once each, in all, and which was the slowest.

python bench/launch.py [--json] [--repeat 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from launch.compose import group_choices

ROOT = Path(__file__).resolve().parent.parent
# Command line -> most seconds that it may take.
LIMITS = {
    "--help": 0.6,
    "list": 0.6,
    "sft recipe=imagination_cot dry_run=true": 2.0,
    "pipeline recipe=imagination_cot scale=tiny dry_run=true": 2.0,
}
DRY_RUN_LIMIT = 5.0  # seconds for any one recipe, measured once


def seconds(words: str, folder: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "launch", *words.split()],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - started


def measure(repeat: int) -> list[dict[str, object]]:
    records: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for words, limit in LIMITS.items():
            times = [seconds(words, folder) for _ in range(repeat)]
            middle = statistics.median(times)
            records.append({
                "command": f"launch {words}",
                "fastest": round(min(times), 3),
                "median": round(middle, 3),
                "limit": limit,
                "holds": middle < limit,
            })  # fmt: skip
    return records


def dry_runs() -> dict[str, object]:
    """Seconds of the dry run of every recipe at every scale: in all, and of the slowest."""
    choices = group_choices()
    with tempfile.TemporaryDirectory() as folder:
        times = {
            words: seconds(words, folder)
            for recipe, scale in product(choices["recipe"], choices["scale"])
            for words in [f"pipeline recipe={recipe} scale={scale} dry_run=true"]
        }
    slowest = max(times, key=lambda words: times[words])
    return {
        "dry_runs": len(times),
        "total": round(sum(times.values()), 3),
        "slowest": f"launch {slowest}",
        "slowest_seconds": round(times[slowest], 3),
        "limit": DRY_RUN_LIMIT,
        "holds": times[slowest] < DRY_RUN_LIMIT,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeat", type=int, default=5, help="processes a command")
    arguments = parser.parse_args()
    records, dry = measure(arguments.repeat), dry_runs()
    if arguments.json:
        print(json.dumps({"commands": records, **dry}, indent=2))
    else:
        print(f"{'seconds':>8} {'median':>7} {'limit':>6}  command")
        for r in records:
            print(f"{r['fastest']:8.3f} {r['median']:7.3f} {r['limit']:6.1f}  {r['command']}")
        print(
            f"dry run of every recipe: {dry['dry_runs']} in {dry['total']:.3f} s; the slowest, "
            f"{dry['slowest']}, {dry['slowest_seconds']:.3f} s of {dry['limit']:.1f}"
        )
    return 0 if dry["holds"] and all(record["holds"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
