"""Finished evaluations for the tests of the viewer: choice rows, boxes, and text that tries to break out."""

import random
from pathlib import Path

from evaluation_runs import finish_eval, make_eval, make_prep
from PIL import Image

from data_prep.atomic import read_jsonl, write_json, write_jsonl
from data_prep.rows import ImageRef, Row
from recipes.run_dir import RunDir
from recipes.scores import predict, summarise

ATTACK = """</pre></script></style><script>document.title = "broken"</script><img src=x onerror=alert(2)>
" onload="alert(4)' onclick='alert(5) <svg onload=alert(6)> {{ 7*7 }} &lt;b&gt; \u202e"""


def make_runs(folder: Path, groups: int = 4, attack: bool = False) -> dict[str, Path]:
    """Three models on the same choice rows, each as skilful as its label says."""
    prep = make_prep(folder / "prep", groups=groups)
    wording = ATTACK.replace("{", "{{").replace("}", "}}") + "\n<answer> {} </answer>"
    texts = {"wording": wording} if attack else {}
    skills = {"blind": 0.2, "fair": 0.6, "good": 0.95}
    return {
        label: finish_eval(make_eval(folder / f"eval-{label}-0", prep, "base"), skill, **texts).path
        for label, skill in skills.items()
    }


def box_row(images: Path, number: int) -> Row:
    """A grounding question with a box in the second of two pictures, 200 x 100 pixels."""
    pictures = []
    for role, size in (("marked", (160, 120)), ("satellite", (200, 100))):
        image = ImageRef(f"bb/{number}-{role}.png", role, f"{number}-{role}", *size)
        (images / image.path).parent.mkdir(parents=True, exist_ok=True)
        rng = random.Random(f"{number}{role}")
        Image.effect_noise(size, rng.uniform(10, 90)).convert("RGB").save(images / image.path)
        pictures.append(image)
    return Row(
        id=f"cvsbench/fov/gs_grounding/g2s/{number:04d}_1.1.L3.q0", benchmark="cvsbench", subset="fov",
        task="gs_grounding", category="bbox_to_bbox", group=f"fov/{number:04d}", images=tuple(pictures),
        question="Which box holds the same house?", options=None, answer=[20.0, 10.0, 80.0, 60.0],
        answer_type="box", meta={"level": 3},
    )  # fmt: skip


def make_box_runs(folder: Path, answers: dict[str, str]) -> dict[str, Path]:
    """One evaluation a label, whose every answer is the text given for it."""
    prep = make_prep(folder / "prep", groups=1)
    rows = [box_row(prep.path / "images", number) for number in range(2)]
    write_jsonl(prep.path / "rows" / "test.jsonl", (row.to_json() for row in rows))
    runs = {}
    for label, text in answers.items():
        run = make_eval(folder / f"eval-{label}-0", prep, "base")
        records = [predict(row, text, 20, False, "answer_only", {}) for row in rows]
        write_jsonl(run.path / "predictions.jsonl", records)
        write_json(run.path / "scores.json", summarise(records) | {"provenance": {}})
        run.finish({})
        runs[label] = run.path
    return runs


def predictions(path: Path) -> dict[str, dict]:
    return {p["id"]: p for p in read_jsonl(path / "predictions.jsonl")}


def rows_of(path: Path) -> list[Row]:
    prep = RunDir(path).inputs["prep"]
    return [Row.from_json(record) for record in read_jsonl(prep.path / "rows" / "test.jsonl")]
