"""Small prepared sets and evaluation run directories for the tests of evaluation and report."""

import dataclasses
import functools
import random
from collections.abc import Callable
from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from PIL import Image

from configs import TREE
from data_prep.atomic import read_jsonl, write_json, write_jsonl
from data_prep.rows import ImageRef, Row
from recipes.run_dir import RunDir
from recipes.scores import predict, summarise
from recipes.stages import plan

CATEGORIES = {
    "location": ("s2g", "cvusa", ("The center region", "The left-quarter region", "The far edge region")),
    "facade": ("g2s", "fov", ("Visible in Satellite", "Not visible in Satellite")),
}
ROLES = {"s2g": "satellite", "g2s": "street"}
SIZES = ((32, 32), (96, 64), (128, 64))


@functools.cache
def tiny_config(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(TREE), version_base=None):
        return compose("config", ["recipe=imagination_cot", "scale=tiny", *overrides])


def make_rows(images: Path, groups: int) -> list[Row]:
    """One location and two facade questions a group; the group's pictures are written below `images`."""
    rows = []
    for number in range(groups):
        rng = random.Random(number)
        picture = ImageRef(f"{number:02d}/{number}.png", "", "", *SIZES[number % len(SIZES)])
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
                    images=(dataclasses.replace(picture, role=ROLES[task]),) * (1 + index // 2),
                    question=f"Question {index} about place {number}{' and more' * index}?",
                    options=options,
                    answer=rng.choice(list(options)),
                )
            )
    return rows


def make_prep(folder: Path, groups: int = 6, change: Callable[[Row], Row] = lambda row: row) -> RunDir:
    """A run directory with what evaluation and report read of a finished prep stage."""
    cfg = tiny_config()
    prep = RunDir.open(folder, plan(cfg, "prep").config, {})
    rows = [change(row) for row in make_rows(folder / "images", groups)]
    write_jsonl(folder / "rows" / "test.jsonl", (row.to_json() for row in rows))
    prep.finish({})
    return prep


def make_checkpoint(folder: Path) -> Path:
    """An untrained model that knows the words of `make_rows`, in `folder`."""
    from data_prep.prompts import load_prompt, prompt_text
    from recipes.base_model import build  # torch, which most of these tests do without

    cfg = tiny_config()
    prompt = load_prompt(cfg.prompt)
    texts = [prompt_text(row, prompt) for row in make_rows(folder.parent / "images", 4)]
    build(folder, cfg.model.build, texts, [], seed=0)
    return folder


def make_eval(folder: Path, prep: RunDir, checkpoint: Path | str, *overrides: str) -> RunDir:
    """An opened, unfinished evaluation of a checkpoint folder (or of the stage of that name)."""
    stage = plan(tiny_config(f"eval.checkpoint={checkpoint}", *overrides), "eval")
    return RunDir.open(folder, stage.config, {"prep": prep.path})


def finish_eval(run: RunDir, skill: float, wording: str = "A road.\n<answer> {} </answer>") -> RunDir:
    """Finish the evaluation as if by a model that knows the share `skill` of the answers."""
    prep = run.inputs["prep"]
    records = []
    for row in map(Row.from_json, read_jsonl(prep.path / "rows" / "test.jsonl")):
        rng = random.Random(f"{row.id}/{run.path.name}")
        wrong = [letter for letter in row.options or () if letter != row.answer] or ["null"]
        letter = row.answer if rng.random() < skill else rng.choice(wrong)
        records.append(predict(row, wording.format(letter), 40, False, "answer_only", {"format_weight": 0.1}))
    write_jsonl(run.path / "predictions.jsonl", records)
    facts = (
        "rows",
        "decoding",
        "max_new_tokens",
        "max_image_tokens",
        "prompt",
        "prompt_hash",
        "seed",
        "engine",
        "date",
    )
    provenance = {"model": run.config.model.name, "commit": None, **dict.fromkeys(facts, "as tested")}
    write_json(run.path / "scores.json", summarise(records) | {"provenance": provenance})
    run.finish({})
    return run


def make_pipeline(folder: Path, prep: RunDir, skills: dict[str, float], **wording: str) -> dict[str, Path]:
    """Finished evaluations by key of the report, each as skilful as `skills` says."""
    evals = {}
    for key, skill in skills.items():
        blank = "true" if key.endswith("blank") else "false"
        run = make_eval(folder / f"eval-{key}", prep, key.split("-")[0], f"eval.blank={blank}")
        evals[key] = finish_eval(run, skill, **wording).path
    return evals
