"""How fast Omni3D files are indexed, read and filtered, and how much memory that takes.

python -m bench.omni3d [--annotations N [N ...]] [--json PATH]

Files of N annotations are written first, about 28 an image, from a few hundred synthetic scenes with ids of
their own. Every figure is of a process of its own: seconds of its processor after the imports, and the most
memory it ever had. The last columns are what `json.load` of the same file takes, where it is small enough.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import orjson

from data_prep.data_root import DataRoot
from data_prep.monosr.filter import Thresholds, observe
from data_prep.monosr.reader import Release
from data_prep.monosr.synthetic import write_release

SOURCE, SCENES = "SUNRGBD", 300
PLAIN = 200_000  # most annotations that json.load is asked to hold
STEPS = ("index", "read", "filter", "json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--annotations", type=int, nargs="+", default=[50_000, 200_000, 1_000_000])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        step, folder = arguments.step
        print(json.dumps(measure(step, Path(folder))))
        return
    found = []
    print("| annotations | file | index | peak | read | filter | peak | json.load | peak |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for count in arguments.annotations:
            folder = Path(temporary) / str(count)
            size = write(folder, count) / 1e6
            one = {"annotations": count, "megabytes": size}
            for step in STEPS if count <= PLAIN else STEPS[:3]:
                one[step] = run(step, folder)
            found.append(one)
            print(line(one), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")


def line(one: dict[str, Any]) -> str:
    def figures(step: str) -> tuple[str, str]:
        if step not in one:
            return "-", "-"
        return f"{one[step]['seconds']:.1f} s", f"{one[step]['peak']:.0f} MB"

    index, read, own, plain = (figures(step) for step in STEPS)
    cells = [
        f"{one['annotations']:,}",
        f"{one['megabytes']:,.0f} MB",
        *index,
        read[0],
        own[0],
        own[1],
        *plain,
    ]
    return f"| {' | '.join(cells)} |"


def write(folder: Path, count: int) -> int:
    """Write a file of `count` annotations; its bytes."""
    write_release(folder / "few", 0, {"train": SCENES}, [SOURCE], draw=False)
    few = orjson.loads((folder / f"few/Omni3D/{SOURCE}_train.json").read_bytes())
    own: dict[int, list[dict[str, Any]]] = {image["id"]: [] for image in few["images"]}
    for annotation in few["annotations"]:
        own[annotation["image_id"]].append(annotation)
    path = folder / f"Omni3D/{SOURCE}_train.json"
    path.parent.mkdir(parents=True)
    images: list[bytes] = []
    with open(path, "wb") as out:
        out.write(b'{"categories": ' + orjson.dumps(few["categories"]) + b', "annotations": [')
        made = 0
        for number, image in enumerate(cycle(few["images"])):
            for annotation in islice(own[image["id"]], count - made):
                made += 1
                separator = b",\n" if made > 1 else b"\n"
                out.write(separator + orjson.dumps({**annotation, "id": made, "image_id": number}))
            images.append(orjson.dumps({**image, "id": number}))
            if made == count:
                break
        out.write(b'], "images": [' + b",\n".join(images) + b"]}")
    return path.stat().st_size


def run(step: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.omni3d", "--step", step, str(folder)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def measure(step: str, folder: Path) -> dict[str, float]:
    """Seconds and peak megabytes of one step in this process."""
    path = f"Omni3D/{SOURCE}_train.json"
    started = time.process_time()
    if step == "json":
        with open(folder / path, "rb") as file:
            count = len(json.load(file)["annotations"])
    else:
        release = Release(DataRoot(folder), [(SOURCE, path)], folder / "index", pictures=False)
        count = len(release)
        if step == "read":
            count = sum(len(scene) for scene in release.scenes())
        if step == "filter":
            count = sum(len(judged.full) for judged in observe(release.scenes(), Thresholds()))
    seconds = time.process_time() - started
    assert count
    return {"seconds": seconds, "peak": peak_megabytes()}


def peak_megabytes() -> float:
    """The most that this process had in memory; `getrusage` would count its parent's, too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
