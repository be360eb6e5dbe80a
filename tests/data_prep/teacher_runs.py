"""Rows, configurations and runs of a teacher for tests; as a script, one run in a process that may be killed.

python teacher_runs.py FOLDER    teaches FOLDER/rows.jsonl with FOLDER/teacher.yaml into FOLDER/teacher
"""

import contextlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from miniature import put_picture
from omegaconf import DictConfig, OmegaConf

from configs import TREE
from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.rows import ImageRef, Row
from data_prep.teacher.drafts import Draft, Lesson
from data_prep.teacher.reasoning import write_reasoning
from data_prep.teacher.report import report, write_report

SIZE = (64, 48)
PICTURES = 40
CATEGORIES = ("roof", "facade", "symmetry")


def teacher_config(base_url: str, **keys: Any) -> DictConfig:
    """The section `teacher=openai` for a stub, with short waits."""
    config = OmegaConf.load(TREE / "teacher/openai.yaml")
    fixed = {"base_url": base_url, "model": "stub", "api_key_env": None, "timeout": 2.0}
    config = OmegaConf.merge(config, fixed, keys)
    OmegaConf.set_struct(config, True)
    return config


def make_rows(folder: Path, count: int) -> list[Row]:
    """`count` questions on a few pictures under `folder/images`; also in `folder/rows.jsonl`."""
    for number in range(PICTURES):
        put_picture(folder / f"images/{number}.png", SIZE, number)
    rng = random.Random(count)
    rows = [
        Row(
            id=f"cvsbench/fov/g2s/{number:04d}.1.q0", benchmark="cvsbench", subset="fov", task="g2s",
            category=rng.choice(CATEGORIES), group=f"fov/{number:04d}",
            images=(ImageRef(f"{number % PICTURES}.png", "street", "", *SIZE),),
            question=f"Is window {number} visible or identifiable in the Satellite top-down view?",
            options={"A": "Visible in Satellite", "B": "Not visible in Satellite"}, answer=rng.choice("AB"),
            meta={"file": "f", "line": number + 1, "view": "1", "hidden_images": []},
        )
        for number in range(count)
    ]  # fmt: skip
    write_jsonl(folder / "rows.jsonl", (row.to_json() for row in rows))
    return rows


class Silent:
    """A progress bar that shows nothing."""

    def update(self, done: int, note: str = "") -> None:
        pass


@contextlib.contextmanager
def no_bar(title: str, total: int, already: int) -> Iterator[Silent]:
    yield Silent()


def teach(folder: Path, config: DictConfig, response_format: str = "structured_cot") -> list[Draft]:
    """Teach the rows of `folder` as prep does, and write the report."""
    rows = [Row.from_json(record) for record in read_jsonl(folder / "rows.jsonl")]
    lessons = [Lesson(row) for row in rows]
    images = folder / "images"
    drafts, usage = write_reasoning(config, response_format, lessons, images, folder / "teacher", no_bar)
    write_report(folder, report(drafts, usage, config.model))
    return drafts


if __name__ == "__main__":
    here = Path(sys.argv[1])
    teach(here, OmegaConf.load(here / "teacher.yaml"))
