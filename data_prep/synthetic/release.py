"""Write scenes to disk in the released layout, with the oracle's reasoning."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from data_prep.atomic import write_jsonl
from data_prep.cvsbench.layout import task_names
from data_prep.synthetic import draw, pairs
from data_prep.synthetic.questions import CVUSA, FOV, Question
from data_prep.synthetic.scene import Scene, draw_scene

FILES = {"g2s": "g2s/Ground2Sat_VQA", "s2g": "s2g/Sat2Ground_VQA"}
REASONING_FORMATS = ("imagination_cot", "structured_cot")
# Image ids of the two splits never meet, as in the release.
FIRST_ID = {("cvusa", "train"): 1, ("cvusa", "test"): 500_001, ("fov", "train"): 1, ("fov", "test"): 5_001}


def write_release(
    root: Path, seed: int, train_groups: int, test_groups: int, tasks: Sequence[str] = ("g2s", "s2g")
) -> None:
    """Write a release under `root`: half of the image groups CVUSA-like, half FOV-like.

    The same arguments give the same bytes, and more groups leave the earlier ones as they are.
    `root/teacher/<format>.jsonl` holds the oracle's reasoning of the training questions by row id.

    Args:
        tasks: gs_grounding and gs_view are added where named, and change nothing of the other files but that
            their reasoning stands at the end of the oracle's; g2s and s2g are always written.
    """
    lines: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    for place, rng in _places(seed, train_groups, test_groups):
        split, subset, name, scene = place
        asked = [maker(scene, rng, rng.randint(1, 4)) for maker in (CVUSA if subset == "cvusa" else FOV)]
        pictures = _cvusa_pictures if subset == "cvusa" else _fov_pictures
        pictures(root, name, scene, asked)
        for task, file in FILES.items():
            questions = [q for q in asked if q.task == task]
            rows = _cvusa_rows if subset == "cvusa" else _fov_rows
            lines[root / subset / f"{file}_{split}.jsonl"] += rows(name, task, split, questions)
            if split == "train":
                _teach(lines, root, _row_ids(subset, task, name, questions))
    wanted = set(task_names(tasks)) & set(pairs.TASKS)
    places = (place for place, _ in _places(seed, train_groups, test_groups)) if wanted else ()
    for place, line in pairs.ask(places, seed, wanted):
        lines[root / line.file].append(line.record)
        for path, picture in line.pictures.items():
            _save(picture, root / path)
        if place.split == "train":
            _teach(lines, root, line.questions)
    for path, records in lines.items():
        write_jsonl(path, records)


def _places(seed: int, train_groups: int, test_groups: int) -> Iterator[tuple[pairs.Place, random.Random]]:
    """Every image group, with the random stream that its g2s and s2g questions go on with."""
    for split, groups in (("train", train_groups), ("test", test_groups)):
        for subset in ("cvusa", "fov"):
            for number in range(groups // 2):
                rng = random.Random(f"{seed}/{subset}/{split}/{number}")
                name = f"{FIRST_ID[subset, split] + number:0{7 if subset == 'cvusa' else 4}d}"
                yield pairs.Place(split, subset, name, draw_scene(rng)), rng


def _cvusa_rows(name: str, task: str, split: str, questions: list[Question]) -> list[dict[str, Any]]:
    """One line a picture with its `questions`; no view."""
    images = {
        "source_image": f"cvusa/data/streetview/{name}.jpg",
        "target_image": f"cvusa/data/bingmap/input{name}.png",
    }
    return [
        {
            "img_id": name,
            "dataset": "cvusa",
            "task": task,
            **images,
            "questions": [_fields(q) for q in questions],
        }
    ]


def _fov_rows(name: str, task: str, split: str, questions: list[Question]) -> list[dict[str, Any]]:
    """One flat line a question, with the view; paths as in the release, in folders that readers rewrite."""
    rows = []
    for index, question in enumerate(questions):
        view = question.view
        images = {
            "street_path": f"fov/{split}_street/{name}/{view or 1}.jpg",
            "sat_path": f"fov/data/satellite_arrow/{name}/view_{view or 1}_annotated.jpg",
        }
        row = {"sample_id": name, "view_id": view, "q_index": index, "dataset": "fov", "task": task}
        rows.append({**row, **images, **_fields(question)})
    return rows


def _fields(question: Question) -> dict[str, Any]:
    options = [f"{letter}) {text}" for letter, text in zip("ABCD", question.options, strict=False)]
    return {
        "question": question.question,
        "options": options,
        "answer": question.answer,
        "category": question.category,
    }


def _row_ids(subset: str, task: str, name: str, questions: list[Question]) -> dict[str, Question]:
    stem = f"cvsbench/{subset}/{task}/{name}"
    return {
        f"{stem}.{'NA' if subset == 'cvusa' else question.view}.q{index}": question
        for index, question in enumerate(questions)
    }


def _teach(lines: dict[Path, list[dict[str, Any]]], root: Path, questions: dict[str, Question]) -> None:
    for row_id, question in questions.items():
        for response_format in REASONING_FORMATS:
            record = {"id": row_id, "reasoning": question.reasoning(response_format)}
            lines[root / "teacher" / f"{response_format}.jsonl"].append(record)


def _cvusa_pictures(root: Path, name: str, scene: Scene, asked: list[Question]) -> None:
    _save(draw.satellite(scene), root / f"cvusa/data/bingmap/input{name}.png")
    _save(draw.panorama(scene), root / f"cvusa/data/streetview/{name}.jpg")


def _fov_pictures(root: Path, name: str, scene: Scene, asked: list[Question]) -> None:
    """The pictures that the questions need: all four photos where one asks about view 0."""
    views = {q.view for q in asked}
    for view in range(1, 5) if 0 in views else sorted(views):
        _save(draw.street_photo(scene, view - 1), root / f"fov/data/street/{name}/{view}.jpg")
    for view in sorted(views - {0}):
        annotated = root / f"fov/data/satellite_arrow/{name}/view_{view}_annotated.jpg"
        _save(draw.satellite(scene, heading=view - 1), annotated)


def _save(picture: Image.Image, path: Path) -> None:
    """Quality 95 keeps a small drawing's colours; a file is not compared, so no atomic write is needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, **({"quality": 95, "subsampling": 0} if path.suffix == ".jpg" else {}))
