"""How fast the command line answers: wall time of whole processes, the fastest and the middle of several.

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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Command line -> most seconds that it may take.
LIMITS = {
    "--help": 0.6,
    "list": 0.6,
    "sft recipe=imagination_cot dry_run=true": 2.0,
    "pipeline recipe=imagination_cot scale=tiny dry_run=true": 2.0,
}


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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--repeat", type=int, default=5, help="processes a command")
    arguments = parser.parse_args()
    records = measure(arguments.repeat)
    if arguments.json:
        print(json.dumps(records, indent=2))
    else:
        print(f"{'seconds':>8} {'median':>7} {'limit':>6}  command")
        for r in records:
            print(f"{r['fastest']:8.3f} {r['median']:7.3f} {r['limit']:6.1f}  {r['command']}")
    return 0 if all(record["holds"] for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
