"""Small prepared sets and evaluation run directories for the tests of evaluation and report."""

import random
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from PIL import Image

from configs import TREE
from data_prep.atomic import write_jsonl
from data_prep.rows import ImageRef, Row
from recipes.run_dir import RunDir
from recipes.stages import plan

CATEGORIES = {
    "location": ("s2g", "cvusa", ("The center region", "The left-quarter region", "The far edge region")),
    "facade": ("g2s", "fov", ("Visible in Satellite", "Not visible in Satellite")),
}
SIZES = ((32, 32), (96, 64), (128, 64))


def tiny_config(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(TREE), version_base=None):
        return compose("config", ["recipe=imagination_cot", "scale=tiny", *overrides])


def make_rows(images: Path, groups: int) -> list[Row]:
    """One location and two facade questions a group; the group's pictures are written below `images`."""
    rows = []
    for number in range(groups):
        rng = random.Random(number)
        picture = ImageRef(f"{number:02d}/{number}.png", "satellite", "", *SIZES[number % len(SIZES)])
        (images / picture.path).parent.mkdir(parents=True, exist_ok=True)
        colour = tuple(rng.randrange(256) for _ in range(3))
        Image.new("RGB", (picture.width, picture.height), colour).save(images / picture.path)
        for index, category in enumerate(("location", "facade", "facade")):
            task, subset, texts = CATEGORIES[category]
            options = dict(zip("ABC", texts, strict=False))
            rows.append(
                Row(
                    id=f"cvsbench/{subset}/{task}/{number}.{index}.q0",
                    benchmark="cvsbench",
                    subset=subset,
                    task=task,
                    category=category,
                    group=f"{subset}/{number}",
                    images=(picture,) * (1 + index // 2),
                    question=f"Question {index} about place {number}{' and more' * index}?",
                    options=options,
                    answer=rng.choice(list(options)),
                )
            )
    return rows


def make_prep(folder: Path, groups: int = 6) -> RunDir:
    """A run directory with what evaluation and report read of a finished prep stage."""
    cfg = tiny_config()
    prep = RunDir.open(folder, plan(cfg, "prep").config, {})
    write_jsonl(
        folder / "rows" / "test.jsonl", (row.to_json() for row in make_rows(folder / "images", groups))
    )
    prep.finish({})
    return prep


def make_eval(folder: Path, prep: RunDir, checkpoint: Path | str, *overrides: str) -> RunDir:
    """An opened, unfinished evaluation of a checkpoint folder (or of the stage of that name)."""
    stage = plan(tiny_config(f"eval.checkpoint={checkpoint}", *overrides), "eval")
    return RunDir.open(folder, stage.config, {"prep": prep.path})
