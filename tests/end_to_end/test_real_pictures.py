"""Real CVUSA pairs through the whole line: release, prep, one SFT step, two verl steps, evaluation.

The five pairs become twenty scenes: turning an aerial by a quarter is rolling its panorama by a quarter. The
FOV half cuts its photographs from the panoramas and draws the arrow. Questions are in the released form;
their answers are arbitrary, for nothing here is about accuracy.
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from PIL import Image, ImageDraw

from configs import TREE
from data_prep.atomic import read_jsonl
from data_prep.rows import Row
from recipes.stages import plan
from rewards import RESPONSE_FORMATS

PAIRS = Path(__file__).parents[3] / "shared/samples/crossview/cvusa_crossnet"
pytestmark = [
    pytest.mark.skipif(not PAIRS.is_dir(), reason=f"the sample pictures are not at {PAIRS}"),
    pytest.mark.slow,
]

LOCATION = "The center region | The left-quarter region | The right-quarter region | The far edge region"
VEGETATION = "Trees | Shrubs / bushes | Grass / lawn | No obvious vegetation"
ROOF = "Flat roof | Gabled roof | Arched/curved roof | Mixed/unclear roof form"
FILES = {"g2s": "Ground2Sat_VQA", "s2g": "Sat2Ground_VQA"}
TASKS = ("g2s", "s2g", "gs_grounding", "gs_view")
TEST_PAIR = 4
NO_REASONING = "the teacher gave no reasoning"


def scenes() -> Iterator[tuple[int, int, Image.Image, Image.Image]]:
    """(pair, quarter, aerial, panorama) of every turned pair."""
    for pair in range(5):
        aerial = Image.open(PAIRS / f"aerial{pair}.jpg").resize((370, 370))
        panorama = np.asarray(Image.open(PAIRS / f"ground{pair}.jpg"))
        for quarter in range(4):
            rolled = np.roll(panorama, quarter * panorama.shape[1] // 4, axis=1)
            yield pair, quarter, aerial.rotate(-90 * quarter), Image.fromarray(rolled)


def save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def question(text: str, options: str, letter: str) -> dict:
    labelled = [f"{label}) {option}" for label, option in zip("ABCD", options.split(" | "), strict=False)]
    return {"question": text, "options": labelled, "answer": letter}


def write_cvusa(root: Path, name: str, aerial: Image.Image, panorama: Image.Image) -> dict[str, list[dict]]:
    save(aerial, root / f"cvusa/data/bingmap/input{name}.png")
    save(panorama, root / f"cvusa/data/streetview/{name}.jpg")
    region = question("Which region of the panorama shows the road?", LOCATION, "ABCD"[int(name) % 4])
    roof = question("What roof form does the nearest house have?", ROOF, "B")
    pictures = {"satellite": (f"cvusa/data/bingmap/input{name}.png", aerial, (150, 160, 230, 220))}
    pictures["street"] = (f"cvusa/data/streetview/{name}.jpg", panorama, (500, 60, 720, 190))
    return {
        "gs_grounding": write_grounding(root, "cvusa", name, pictures),
        "g2s": [{"img_id": name, "source_image": f"cvusa/data/streetview/{name}.jpg", "questions": [roof]}],
        "s2g": [{"img_id": name, "sat_path": f"elsewhere/input{name}.png", "questions": [region]}],
    }


def write_grounding(root: Path, subset: str, name: str, pictures: dict[str, tuple]) -> list[dict]:
    """A box pair both ways on levels 3 and 4; `pictures`: side -> (path in the release, picture, box)."""
    records = []
    for task, source, target, mark in (
        ("ground2sat", "street", "satellite", "S2G"),  # the marks of the released files are swapped
        ("sat2ground", "satellite", "street", "G2S"),
    ):
        path, picture, box = pictures[source]
        marked = root / f"{subset}/gs_grounding/bbox_images/{source}/{name}_1_{mark}_bbox.jpg"
        save(framed(picture, box), marked)
        gold = [float(edge) for edge in pictures[target][2]]
        described = "The house beside the road. Give its box in the second picture."
        questions = [
            {"level": 3, "question": "The box is on a thing; give its box.", "answer": gold},
            {"level": 4, "question": described, "answer": gold, "region_hint": "centre"},
        ]
        where = {"source_image": path, "target_image": pictures[target][0], "task": task, "dataset": subset}
        records.append({"img_id": f"{name}_1", "view": 1, **where, "questions": questions})
    return records


def framed(picture: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """A copy with a red frame on `box`, as the marked pictures of level 3 have."""
    marked = picture.copy()
    ImageDraw.Draw(marked).rectangle(box, outline=(255, 0, 0), width=3)
    return marked


def side_by_side(*pictures: Image.Image) -> Image.Image:
    joined = Image.new("RGB", (sum(p.width for p in pictures), max(p.height for p in pictures)))
    for index, picture in enumerate(pictures):
        joined.paste(picture, (sum(p.width for p in pictures[:index]), 0))
    return joined


def write_fov(root: Path, name: str, aerial: Image.Image, panorama: Image.Image) -> dict[str, list[dict]]:
    for view in range(1, 5):
        left = (view - 1) * 308
        save(panorama.crop((left, 0, left + 308, 224)), root / f"fov/data/street/{name}/{view}.jpg")
    arrow = aerial.copy()
    ImageDraw.Draw(arrow).line((185, 185, 185, 120), fill=(255, 0, 0), width=6)
    save(arrow, root / f"fov/data/satellite_arrow/{name}/view_1_annotated.jpg")
    symmetric = question(
        "Does the main building appear left-right symmetric?", "Symmetric | Not symmetric", "B"
    )
    facade = question(
        "Is the porch identifiable?", "Visible in Satellite | Not visible in Satellite", "AB"[int(name) % 2]
    )
    vegetation = question("What grows in the right-forward sector?", VEGETATION, "A")
    views = {}
    for part, shown in (("arrow_select", (panorama, arrow)), ("arrow_street", (arrow, panorama))):
        end = {"arrow_select": "L1", "arrow_street": "arrow_sv"}[part]
        save(side_by_side(*shown), root / f"fov/gs_view/{part}/{name}_view1_{end}.jpg")
        asked = question("Which letter is it?", "Arrow A | Arrow B | Arrow C | Arrow D", "BD"[int(name) % 2])
        views[part] = {"sample_id": name, "view_id": 1, "q_index": 0, "type": "ge_view", **asked}
    save(aerial, root / f"fov/data/satellite/{name}.jpg")
    photo = panorama.crop((0, 0, 308, 224))
    pictures = {"satellite": (f"fov/test_satellite/{name}.jpg", aerial, (150, 160, 230, 220))}
    pictures["street"] = (f"fov/test_street/{name}/1.jpg", photo, (100, 60, 220, 190))
    return {
        "gs_grounding": write_grounding(root, "fov", name, pictures),
        "gs_view": [views],
        "g2s": [
            {"sample_id": name, "view_id": 0, "q_index": 0, **symmetric},
            {
                "sample_id": name,
                "view_id": 2,
                "q_index": 0,
                "street_path": f"fov/test_street/{name}/2.jpg",
                **facade,
            },
        ],
        "s2g": [{"sample_id": name, "view_id": 1, "q_index": 0, **vegetation}],
    }


def write_release(root: Path) -> Path:
    """A release in the exact layout with reasoning for its training rows; returns the reasoning's file."""
    lines: dict[str, list[dict]] = {}
    taught = []
    for pair, quarter, aerial, panorama in scenes():
        split = "test" if pair == TEST_PAIR else "train"
        number = pair * 4 + quarter + 1
        for subset, name, write in (
            ("cvusa", f"{number:07d}", write_cvusa),
            ("fov", f"{number:04d}", write_fov),
        ):
            made = write(root, name, aerial, panorama)
            for record in made.pop("gs_grounding", []):
                direction = {"ground2sat": "Ground2Sat", "sat2ground": "Sat2Ground"}[record["task"]]
                lines.setdefault(f"{subset}/gs_grounding/{direction}_5level_{split}.jsonl", []).append(record)
            for views in made.pop("gs_view", []):
                for part, record in views.items():
                    lines.setdefault(f"{subset}/gs_view/{part}_{split}.jsonl", []).append(record)
            for task, records in made.items():
                lines.setdefault(f"{subset}/{task}/{FILES[task]}_{split}.jsonl", []).extend(records)
                for record in records if split == "train" else ():
                    asked = record.get("questions", [record])
                    row_id = f"cvsbench/{subset}/{task}/{name}.{record.get('view_id', 'NA')}"
                    taught += [(f"{row_id}.q{i}", q["answer"]) for i, q in enumerate(asked)]
    for file, records in lines.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("".join(json.dumps(record) + "\n" for record in records))
    headings = RESPONSE_FORMATS["imagination_cot"].headings
    steps = "".join(f"{heading}\nA street between houses and trees.\n" for heading in headings)
    path = root / "reasoning.jsonl"
    path.write_text(
        "".join(
            json.dumps({"id": i, "reasoning": f"{steps}<answer> {a} </answer>"}) + "\n" for i, a in taught
        )
    )
    return path


def compose_config(runs: Path, root: Path, reasoning: Path) -> DictConfig:
    overrides = [
        "recipe=imagination_cot", "scale=tiny", "data=cvsbench", f"data.root={root}",
        f"data.tasks=[{','.join(TASKS)}]", "teacher=file",
        f"teacher.path={reasoning}", f"runs_dir={runs}", "model.max_image_tokens=16",
        "model.max_prompt_tokens=512", "model.max_response_tokens=12", "sft.max_steps=1", "sft.batch_size=8",
        "grpo.max_steps=2", "grpo.batch_size=4", "grpo.mini_batch_size=4", "grpo.group_size=2",
        "grpo.probe.rows=0",
        "eval.max_new_tokens=12", "model.build.pretraining.steps=0", "model.build.pretraining.pictures=8",
    ]  # fmt: skip
    with initialize_config_dir(str(TREE), version_base=None):
        return compose("config", overrides)


def test_real_pictures_from_release_to_evaluation(tmp_path):
    reasoning = write_release(tmp_path / "release")
    config = compose_config(tmp_path / "runs", tmp_path / "release", reasoning)
    stages = {stage.name: stage for stage in plan(config, "eval").with_inputs()}
    assert list(stages) == ["prep", "base", "sft", "grpo", "eval"]
    modules = {"base": "base_model", "eval": "evaluate"}
    runs = {}
    for name, stage in stages.items():
        runs[name] = stage.open()
        importlib.import_module(f"recipes.{modules.get(name, name)}").run(runs[name])
        assert runs[name].finished

    prep = runs["prep"]
    rows = {
        name: [Row.from_json(record) for record in read_jsonl(prep.path / f"rows/{name}.jsonl")]
        for name in ("sft", "rl", "test")
    }
    # The teacher wrote reasoning for choice questions alone; grounding and viewpoints go to RL and test.
    untaught = prep.manifest["quarantined"]["rows"]
    assert {record["reason"] for record in read_jsonl(prep.path / "quarantine.jsonl")} == {NO_REASONING}
    assert {row.task for row in rows["sft"]} == {"g2s", "s2g"}
    assert {row.task for row in rows["rl"]} == {row.task for row in rows["test"]} == set(TASKS)
    assert (len(rows["sft"]) + len(rows["rl"]) + untaught, len(rows["test"])) == (16 * 15, 4 * 15)
    shapes = {
        (row.category, tuple((image.role, image.width, image.height) for image in row.images))
        for row in rows["test"]
    }
    panorama, aerial, photo = ("panorama", 1232, 224), ("satellite", 370, 370), ("street", 308, 224)
    assert shapes == {
        ("roof_form", (panorama,)),
        ("location", (aerial,)),
        ("symmetry", (photo,) * 4),
        ("facade", (photo,)),
        ("vegetation_sector", (aerial,)),
        ("level3", (("marked", 1232, 224), aerial)),
        ("level3", (("marked", 370, 370), panorama)),
        ("level4", (panorama, aerial)),
        ("level4", (aerial, panorama)),
        ("level3", (("marked", 308, 224), aerial)),
        ("level3", (("marked", 370, 370), photo)),
        ("level4", (photo, aerial)),
        ("level4", (aerial, photo)),
        ("view_arrow", (("composite", 1602, 370),)),
        ("view_image", (("composite", 1602, 370),)),
    }

    assert [record["step"] for record in runs["grpo"].metrics()] == [1, 2]
    answered = list(read_jsonl(runs["grpo"].path / "rollouts.jsonl"))
    assert len(answered) == 2 * 4 * 2
    assert {record["id"] for record in answered} <= {row.id for row in rows["rl"]}

    predicted = list(read_jsonl(runs["eval"].path / "predictions.jsonl"))
    assert {record["id"] for record in predicted} == {row.id for row in rows["test"]}
    scores = json.loads((runs["eval"].path / "scores.json").read_text())
    assert scores["overall"]["n"] == len(rows["test"])
