"""How fast a release is read, audited and made into sets, and how much memory that takes.

python -m bench.data [--rows N] [--json PATH]

The release has many rows and few distinct pictures, so that the time is the rows'. Every figure is of a
process of its own: seconds of wall time after the imports, and the most memory the process ever had.
`datasets.map` does the same reading, JSON lines in and checked rows out, in one process and in batches of a
thousand.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from data_prep.atomic import write_jsonl
from data_prep.cvsbench import SourceFile, find_files, read_release
from data_prep.cvsbench.pictures import PictureFinder
from data_prep.cvsbench.reader import READERS
from data_prep.data_root import DataRoot
from rewards import RESPONSE_FORMATS

ROOT = Path(__file__).resolve().parent.parent
LIMIT_MB = 1024
QUESTIONS = 8  # of a scene
PICTURES = 32  # distinct ones a split
SUBSETS, TASKS = ["cvusa"], ["g2s", "s2g"]
OPTIONS = {
    "g2s": ("Flat roof", "Gabled roof", "Arched/curved roof", "Mixed/unclear roof form"),
    "s2g": (
        "The center region",
        "The left-quarter region",
        "The right-quarter region",
        "The far edge region",
    ),
}
FILES = {"g2s": "Ground2Sat_VQA", "s2g": "Sat2Ground_VQA"}


def write_release(root: Path, rows: int) -> None:
    """A CVUSA release of `rows` questions, half of them training rows, with reasoning for those."""
    scenes = rows // QUESTIONS // 2
    for split, first in (("train", 1), ("test", 5_000_001)):
        for number in range(PICTURES):
            picture = np.random.default_rng(first + number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
            for folder in ("streetview", "bingmap"):
                path = root / f"cvusa/data/{folder}/{split}{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(picture).resize((32, 32)).save(path)
        for task, stem in FILES.items():
            lines = (_record(task, split, first + scene) for scene in range(scenes))
            write_jsonl(root / "cvusa" / task / f"{stem}_{split}.jsonl", lines)
    write_jsonl(root / "reasoning.jsonl", _reasoning(scenes))


def _record(task: str, split: str, scene: int) -> dict[str, Any]:
    asked = [
        {
            "question": f"What is seen of building {index} at place {scene}?",
            "options": [f"{letter}) {text}" for letter, text in zip("ABCD", OPTIONS[task], strict=True)],
            "answer": "ABCD"[(scene + index) % 4],
        }
        for index in range(QUESTIONS // 2)
    ]
    pictures = {
        "source_image": f"cvusa/data/streetview/{split}{scene % PICTURES}.png",
        "target_image": f"cvusa/data/bingmap/{split}{scene % PICTURES}.png",
    }
    return {"img_id": f"{scene:07d}", "task": task, **pictures, "questions": asked}


def _reasoning(scenes: int) -> Iterator[dict[str, str]]:
    headings = RESPONSE_FORMATS["imagination_cot"].headings
    steps = "".join(
        f"{heading}\nA street between houses and trees, seen from afar.\n" for heading in headings
    )
    for task in TASKS:
        for scene in range(1, scenes + 1):
            for index in range(QUESTIONS // 2):
                row_id = f"cvsbench/cvusa/{task}/{scene:07d}.NA.q{index}"
                letter = "ABCD"[(scene + index) % 4]
                yield {"id": row_id, "reasoning": f"{steps}<answer> {letter} </answer>"}


def read(root: Path, work: Path) -> Callable[[], int]:
    return lambda: sum(1 for split in ("train", "test") for _ in read_release(root, SUBSETS, TASKS, split))


def _opened(root: Path, work: Path, stage: str) -> Any:
    from launch.compose import compose
    from recipes.stages import plan

    options = [f"data.root={root}", f"teacher.path={root / 'reasoning.jsonl'}", "data.subsets=[cvusa]"]
    return plan(compose(["recipe=imagination_cot", f"runs_dir={work}", *options]), stage).open()


def audit(root: Path, work: Path) -> Callable[[], int]:
    from recipes import audit as stage

    run = _opened(root, work, "audit")

    def measured() -> int:
        if stage.run(run) != 0:
            raise SystemExit("the audit finds errors in a sound release")
        counts = json.loads((run.path / "audit.json").read_text())["counts"]
        return sum(record["all"] for record in counts if record["category"] is None)

    return measured


def sets(root: Path, work: Path) -> Callable[[], int]:
    from recipes import prep

    run = _opened(root, work, "prep")

    def measured() -> int:
        prep.run(run)
        return sum(part["rows"] for part in run.manifest["sets"].values())

    return measured


def datasets_map(root: Path, work: Path) -> Callable[[], int]:
    import datasets

    datasets.disable_progress_bars()
    folder = DataRoot(root)
    sources = [s for split in ("train", "test") for s in find_files(folder, SUBSETS, TASKS, split)]

    def measured() -> int:
        return sum(_mapped(datasets, folder, source, work) for source in sources)

    return measured


def _mapped(datasets: Any, folder: DataRoot, source: SourceFile, work: Path) -> int:
    reader = READERS[source.task, source.form](source, PictureFinder(folder, source.subset))

    def rows(batch: dict[str, list[Any]], lines: list[int]) -> dict[str, list[Any]]:
        found = []
        for place, line in enumerate(lines):
            record = {key: column[place] for key, column in batch.items()}
            found += [row.to_json() for row in reader.read(record, line + 1)]
        return {key: [row[key] for row in found] for key in found[0]}

    path, cache = str(folder.path / source.path), str(work / "cache")
    loaded = datasets.load_dataset("json", data_files=path, split="train", cache_dir=cache)
    mapped = loaded.map(rows, batched=True, with_indices=True, remove_columns=loaded.column_names)
    return sum(1 for _ in mapped)


WORK = {"read": read, "audit": audit, "sets": sets, "datasets.map": datasets_map}


def child(name: str, root: Path, work: Path) -> None:
    """Do the work `name` in this process and print its figures as the last line."""
    measured = WORK[name](root, work)
    started = time.perf_counter()
    rows = measured()
    seconds = time.perf_counter() - started
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    megabytes = max(peaks) / 1024  # Linux counts in KiB
    print(json.dumps({"rows": rows, "seconds": round(seconds, 2), "peak_mb": round(megabytes)}))


def measure(name: str, root: Path, rows: int) -> dict[str, Any]:
    """The figures of one piece of work, in a process of its own."""
    with tempfile.TemporaryDirectory() as work:
        words = [sys.executable, "-m", "bench.data", "--child", name, "--root", str(root), "--work", work]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    if figures["rows"] != rows:
        raise SystemExit(f"{name} came to {figures['rows']} rows of {rows}")
    return {"work": name, **figures, "rows_per_second": round(rows / max(figures["seconds"], 1e-3))}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=40_000, help="rows of the larger release")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    parser.add_argument("--child", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.root, arguments.work)
        return 0

    unit = 2 * QUESTIONS
    large = arguments.rows // unit * unit
    small = large // 4 // unit * unit
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in (small, large):
            root = Path(folder) / str(rows)
            write_release(root, rows)
            records += [measure(name, root, rows) for name in WORK]
    peaks = {(r["work"], r["rows"]): r["peak_mb"] for r in records}
    seconds = {(r["work"], r["rows"]): r["seconds"] for r in records}
    print(f"{'':<14}{'rows/s':>9}{'seconds':>9}{f'MB at {small:,}':>14}{f'MB at {large:,}':>14}{'limit':>7}")
    for r in records:
        if r["rows"] == large:
            ours = r["work"] != "datasets.map"
            print(f"{r['work']:<14}{r['rows_per_second']:>9,}{r['seconds']:>9.2f}", end="")
            print(f"{peaks[r['work'], small]:>14,}{r['peak_mb']:>14,}{LIMIT_MB if ours else '-':>7}")
    ratio = seconds["datasets.map", large] / max(seconds["read", large], 1e-3)
    print(f"\ndatasets.map takes {ratio:.1f} times as long for the same reading")
    if arguments.json:
        figures = {"figures": records, "datasets_map_times_read": round(ratio, 2), "limit_mb": LIMIT_MB}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if all(r["peak_mb"] < LIMIT_MB for r in records if r["work"] != "datasets.map") else 1


if __name__ == "__main__":
    sys.exit(main())
