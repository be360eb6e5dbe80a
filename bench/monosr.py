"""How fast an Omni3D release becomes balanced questions, and how much memory that takes.

python -m bench.monosr [--images 1000 10000 100000 230000] [--workers 2] [--json PATH]

Every size is a synthetic release without pictures, written first (not counted), then read, filtered, asked
about and balanced by a process of its own and its workers; as many questions are wanted of an image as the
paper has, 1,000,000 of 230,000. `peak MB` adds the most that the process ever had to the most of a worker,
times their number; a worker counts at least what the process had when it started it.

`loop` does the same work for the smallest size in the plainest way: `json.load`, then one image after the
other, all in one process, and balance over a list of all rows. It asks by the same functions.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.omni3d import peak_megabytes
from data_prep.data_root import DataRoot
from data_prep.monosr.balance import cell_of, plan, rank
from data_prep.monosr.chunks import in_processes
from data_prep.monosr.filter import Thresholds, observe
from data_prep.monosr.generate import questions_of
from data_prep.monosr.index_build import build
from data_prep.monosr.observed import observe_all
from data_prep.monosr.options import Options
from data_prep.monosr.produce import produce
from data_prep.monosr.reader import Release, find_annotations
from data_prep.monosr.scene import SOURCES, Scene
from data_prep.monosr.selection import letter_at, moved
from data_prep.monosr.synthetic.release import write_release

ROOT = Path(__file__).resolve().parent.parent
IMAGES = (1_000, 10_000, 100_000, 230_000)
QUESTIONS_AN_IMAGE = 1_000_000 / 230_000
MOST_SECONDS, MOST_MB = 15 * 60, 2048  # of the largest size
OPTIONS = Options(per_format=1, situational=1)
SEED = 0


def ours(root: Path, work: Path, images: int, workers: int) -> dict[str, Any]:
    """Index, filter, questions and balance."""
    started = time.monotonic()
    files = find_annotations(DataRoot(root), list(SOURCES), ["train"])
    indexing = partial(_index, root, files, work / "index")
    for _ in in_processes(indexing, list(range(len(files))), workers):
        pass
    release = Release(DataRoot(root), files, work / "index", pictures=False)
    indexed = time.monotonic()
    observed, _ = observe_all(release, Thresholds(), work / "observed", workers)
    filtered = time.monotonic()
    steps: dict[str, float] = {}
    found = produce(
        observed, len(release), work / "questions", OPTIONS, SEED, workers=workers,
        total=round(images * QUESTIONS_AN_IMAGE),
        progress=lambda step, done, of: steps.update({step: time.monotonic()}),
    )  # fmt: skip
    ended = time.monotonic()
    return {
        "questions": found["rows"],
        "candidates": found["candidates"],
        "seconds": ended - started,
        "index_s": indexed - started,
        "filter_s": filtered - indexed,
        "questions_s": steps["questions"] - filtered,
        "balance_s": ended - steps["questions"],
    }


def _index(root: Path, files: list[tuple[str, str]], folder: Path, number: int) -> None:
    source, path = files[number]
    build(root / path, folder / Path(path).stem, source)


def loop(root: Path, work: Path, images: int, workers: int) -> dict[str, Any]:
    """The same by one image after the other."""
    started = time.monotonic()
    rows = []
    for source, path in find_annotations(DataRoot(root), list(SOURCES), ["train"]):
        whole = json.loads((root / path).read_text(encoding="utf-8"))
        objects = defaultdict(list)
        for record in whole["annotations"]:
            objects[record["image_id"]].append(record)
        for image in whole["images"]:
            scene = _scene(source, image, objects[image["id"]])
            for judged in observe([scene], Thresholds()):
                rows += questions_of(judged.scene, OPTIONS, SEED, scene) if judged.scene else []
    cells = defaultdict(list)
    for row in rows:
        cells[cell_of(row)].append(row)
    wanted = plan({c: len(found) for c, found in cells.items()}, round(images * QUESTIONS_AN_IMAGE)).quotas
    kept = [
        (cell, row)
        for cell, found in cells.items()
        for row in sorted(found, key=lambda row: rank(row.id, SEED))[: wanted[cell]]
    ]
    dealt: Counter[tuple[str, str, str]] = Counter()
    with open(work / "questions.jsonl", "w", encoding="utf-8") as out:
        for cell, row in kept:
            record = row.to_json()
            if row.options:
                column = cell[:3]
                record = moved(record, letter_at(column, dealt[column], len(row.options), SEED))
                dealt[column] += 1
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
    return {"questions": len(kept), "candidates": len(rows), "seconds": time.monotonic() - started}


def _scene(source: str, image: dict[str, Any], objects: list[dict[str, Any]]) -> Scene:
    size = np.array([record["dimensions"][::-1] for record in objects]).reshape(-1, 3)
    return Scene(
        f"{source}/{image['id']}", source, "train", image["file_path"], image["width"], image["height"],
        np.array(image["K"]), tuple(str(record["id"]) for record in objects),
        tuple(record["category_name"] for record in objects),
        np.array([record["center_cam"] for record in objects]).reshape(-1, 3), size,
        np.array([record["R_cam"] for record in objects]).reshape(-1, 3, 3),
        np.array([record["bbox2D_trunc"] for record in objects]).reshape(-1, 4),
        np.array([record["truncation"] for record in objects]),
        np.array([record["visibility"] for record in objects]),
    )  # fmt: skip


PARTS = ("index_s", "filter_s", "questions_s", "balance_s")
WORK = {"ours": ours, "loop": loop}


def child(name: str, root: Path, images: int, workers: int) -> None:
    with tempfile.TemporaryDirectory(dir=root) as folder:
        found = WORK[name](root, Path(folder), images, workers)
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    found["peak_mb"] = round(peak_megabytes() + others.ru_maxrss / 1024 * workers)
    found["cpu_s"] = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    print(json.dumps(found))


def measure(name: str, root: Path, images: int, workers: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "bench.monosr", "--child", name, "--root", str(root)]
    words += ["--images", str(images), "--workers", str(workers)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {"work": name, "images": images, "workers": workers, **found}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, nargs="+", default=IMAGES, help="sizes of the releases")
    parser.add_argument("--workers", type=int, default=2, help="processes that make questions")
    parser.add_argument("--folder", type=Path, help="keep the releases here, and take those that are there")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    parser.add_argument("--child", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.root, arguments.images[0], arguments.workers)
        return 0

    records = []
    for images in sorted(arguments.images):
        with tempfile.TemporaryDirectory() as folder:
            root = (arguments.folder or Path(folder)) / str(images)
            if not root.is_dir():
                made = root.with_name(f"{images}.part")
                write_release(made, SEED, {"train": images}, draw=False)
                made.rename(root)
            size = sum(path.stat().st_size for path in (root / "Omni3D").iterdir())
            run = partial(measure, root=root, images=images)
            records.append({**run("ours", workers=arguments.workers), "json_mb": round(size / 2**20)})
            if len(records) == 1:
                plain = {**run("loop", workers=0), "json_mb": round(size / 2**20)}
    largest = records[-1]
    show([plain, *records])
    ratios = {
        f"{r['images']}": {
            name: round((plain[name] / plain["images"]) / (r[name] / r["images"]), 2)
            for name in ("seconds", "cpu_s")
        }
        for r in records
    }
    print(f"\nan image takes the loop, at {plain['images']:,} images, compared with ours")
    for images, ratio in ratios.items():
        print(f"  at {int(images):,}: {ratio['seconds']} times the seconds, {ratio['cpu_s']} times the CPU")
    holds = largest["seconds"] < MOST_SECONDS and largest["peak_mb"] < MOST_MB
    print(f"limits at the largest size: {MOST_SECONDS} s, {MOST_MB} MB: {'kept' if holds else 'not kept'}")
    if arguments.json:
        figures = {"figures": [plain, *records], "loop_ratios": ratios, "holds": holds}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if holds else 1


def show(records: list[dict[str, Any]]) -> None:
    heads = ("work", "images", "MB of JSON", "questions", "candidates", "seconds", "index", "filter", "ask")
    print(
        "".join(f"{head:>12}" for head in (*heads, "balance", "ms/image", "questions/s", "CPU s", "peak MB"))
    )
    for r in records:
        numbers = (
            f"{r['images']:,}", f"{r['json_mb']:,}", f"{r['questions']:,}", f"{r['candidates']:,}",
            f"{r['seconds']:.1f}",
            *(f"{r[part]:.1f}" if part in r else "-" for part in PARTS),
            f"{1000 * r['seconds'] / r['images']:.2f}", f"{r['questions'] / r['seconds']:,.0f}",
            f"{r['cpu_s']:.0f}", f"{r['peak_mb']:,}",
        )  # fmt: skip
        print("".join(f"{number:>12}" for number in (r["work"], *numbers)))


if __name__ == "__main__":
    sys.exit(main())
