"""A small CVSBench release of CVUSA and FOV, symmetry included, for the tests of auxiliary views."""

from pathlib import Path

from miniature import FACADE, LOCATION, put_lines, put_picture, put_vqa, question, reasoning
from prep_runs import open_prep

from data_prep.atomic import read_jsonl
from data_prep.cvsbench import read_release
from data_prep.rows import Row
from recipes import prep
from recipes.run_dir import RunDir

SETS = ("sft", "rl", "test")
VEGETATION = ["A) Trees", "B) Shrubs / bushes", "C) Grass / lawn", "D) No obvious vegetation"]
ROOFS = ["A) Flat roof", "B) Gabled roof", "C) Arched/curved roof", "D) Mixed/unclear roof form"]
SYMMETRY = ["A) Symmetric", "B) Not symmetric"]


def put_release(root: Path, train: int = 8, test: int = 3, photos: int = 5) -> None:
    """Scenes of FOV (a facade, a symmetry, a satellite question each) and as many of CVUSA (two questions).

    Photos of a scene are 0.jpg, which is none, then 1.jpg to `photos`.jpg of different heights; there is
    reasoning for every training row.
    """
    taught = []
    for split, first, count in (("train", 1, train), ("test", 501, test)):
        lines: dict[tuple[str, str], list] = {(s, t): [] for s in ("fov", "cvusa") for t in ("g2s", "s2g")}
        for number in range(first, first + count):
            scene, tile = f"{number:04d}", f"{number:07d}"
            for view in range(photos + 1):
                put_picture(root / f"fov/data/street/{scene}/{view}.jpg", (24, 16 + view), 10 * number + view)
            put_picture(root / f"fov/data/satellite/{scene}.jpg", (20, 20), 7000 + number)
            put_picture(
                root / f"fov/data/satellite_arrow/{scene}/view_2_annotated.jpg", (20, 20), 8000 + number
            )
            put_picture(root / f"cvusa/data/streetview/{tile}.jpg", (40, 8), 3000 + number)
            put_picture(root / f"cvusa/data/bingmap/input{tile}.png", (18, 18), 5000 + number)
            street = f"fov/data/street/{scene}/1.jpg"
            lines["fov", "g2s"] += [
                question(sample_id=scene, view_id=1, source_image=street, options=FACADE, category="facade"),
                question(sample_id=scene, view_id=0, options=SYMMETRY, category="symmetry", answer="B"),
            ]
            satellite, panorama = f"fov/data/satellite/{scene}.jpg", f"cvusa/data/streetview/{tile}.jpg"
            lines["fov", "s2g"].append(
                question(sample_id=scene, view_id=2, sat_path=satellite, options=VEGETATION, answer="C")
            )
            lines["cvusa", "g2s"].append(
                question(img_id=tile, source_image=panorama, options=ROOFS, category="roof_form")
            )
            lines["cvusa", "s2g"].append(question(img_id=tile, options=LOCATION, answer="C"))
            rows = {
                f"fov/g2s/{scene}.1.q0": "A", f"fov/g2s/{scene}.0.q0": "B", f"fov/s2g/{scene}.2.q0": "C",
                f"cvusa/g2s/{tile}.NA.q0": "A", f"cvusa/s2g/{tile}.NA.q0": "C",
            }  # fmt: skip
            taught += [{"id": f"cvsbench/{i}", "reasoning": reasoning(letter)} for i, letter in rows.items()]
        for (subset, task), records in lines.items():
            put_vqa(root, subset, task, *records, split=split)
    put_lines(root / "reasoning.jsonl", *taught)


def prepare(runs: Path, root: Path, *overrides: str) -> RunDir:
    """A finished prep of the release `root`."""
    run = open_prep(runs, f"data.root={root}", f"teacher.path={root}/reasoning.jsonl", *overrides)
    prep.run(run)
    return run


def rows(run: RunDir) -> dict[str, Row]:
    """Every row of the three sets by its id."""
    found = (Row.from_json(r) for name in SETS for r in read_jsonl(run.path / f"rows/{name}.jsonl"))
    return {row.id: row for row in found}


def of_release(root: Path) -> list[Row]:
    """Every row as the reader gives it."""
    return [
        item
        for split in ("train", "test")
        for item in read_release(root, ["cvusa", "fov"], ["g2s", "s2g"], split)
        if isinstance(item, Row)
    ]
