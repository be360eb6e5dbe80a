"""Hand-made corners of a CVSBench release for the tests of the reader and of `prep`."""

import json
from pathlib import Path
from typing import Any

from PIL import Image

FACADE = ["A) Visible in Satellite", "B) Not visible in Satellite"]
LOCATION = [
    "A) The center region",
    "B) The left-quarter region",
    "C) The right-quarter region",
    "D) The far edge region",
]
FILES = {
    "g2s": "g2s/Ground2Sat_VQA",
    "s2g": "s2g/Sat2Ground_VQA",
    "gs_grounding/g2s": "gs_grounding/Ground2Sat_5level",
    "gs_grounding/s2g": "gs_grounding/Sat2Ground_5level",
    "gs_view/arrow_select": "gs_view/arrow_select",
    "gs_view/arrow_street": "gs_view/arrow_street",
}


def question(**fields: Any) -> dict[str, Any]:
    """A well-formed question; `fields` are added or replaced, and left out where they are None."""
    record = {"question": "Where is it?", "options": FACADE, "answer": "A", **fields}
    return {key: value for key, value in record.items() if value is not None}


def put_picture(path: Path, size: tuple[int, int] = (12, 8), seed: int = 0) -> None:
    """A picture whose pixels depend on `seed`; the format follows the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = (seed * 37 % 256, seed * 101 % 256, seed * 11 % 256)
    Image.new("RGB", size, colour).save(path)


def put_lines(path: Path, *records: Any) -> None:
    """JSON lines; a string or bytes goes in as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [record if isinstance(record, str | bytes) else json.dumps(record) for record in records]
    lines = [text if isinstance(text, bytes) else text.encode() for text in texts]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def put_vqa(root: Path, subset: str, task: str, *records: Any, split: str = "test") -> Path:
    path = root / subset / f"{FILES[task]}_{split}.jsonl"
    put_lines(path, *records)
    return path


def reasoning(letter: str, words: str = "A street with a low house ahead.") -> str:
    """A teacher's text in the Imagination format."""
    return (
        f"Step 1: Observations\n{words}\nStep 2: Cross-view mapping intention\nCarry it over.\n"
        "Step 3: Projection / imagination\nThe house stands ahead.\nStep 4: Final reasoning\nSo it is seen.\n"
        f"<answer> {letter} </answer>"
    )


def put_cvusa(root: Path, train: int, test: int, teach: bool = True) -> None:
    """A whole CVUSA half: two g2s questions and one s2g question a group, with pictures and reasoning."""
    taught = []
    for split, first, count in (("train", 1, train), ("test", 5001, test)):
        street, satellite = [], []
        for number in range(first, first + count):
            name = f"{number:07d}"
            put_picture(root / f"cvusa/data/streetview/{name}.jpg", (24, 8), number)
            put_picture(root / f"cvusa/data/bingmap/input{name}.png", (10, 10), number)
            street.append({"img_id": name, "questions": [question(), question(answer="B")]})
            street[-1]["source_image"] = f"cvusa/data/streetview/{name}.jpg"
            satellite.append(question(img_id=name, options=LOCATION, answer="C"))
            taught += [
                {"id": f"cvsbench/cvusa/g2s/{name}.NA.q0", "reasoning": reasoning("A")},
                {"id": f"cvsbench/cvusa/g2s/{name}.NA.q1", "reasoning": reasoning("B")},
                {"id": f"cvsbench/cvusa/s2g/{name}.NA.q0", "reasoning": reasoning("C")},
            ]
        put_vqa(root, "cvusa", "g2s", *street, split=split)
        put_vqa(root, "cvusa", "s2g", *satellite, split=split)
    if teach:
        put_lines(root / "reasoning.jsonl", *taught)
