"""The audit: silent about a sound release; every planted fault is found, with its file, line or id."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miniature import FACADE, LOCATION, put_lines, put_vqa, question
from PIL import Image
from prep_runs import compose_config

from data_prep.atomic import read_jsonl
from data_prep.cvsbench.audit import CHECKS, WORDS, Contents
from data_prep.cvsbench.audit_pictures import compare
from data_prep.cvsbench.audit_table import counts, letters, paper, paper_rows
from data_prep.findings import EXAMPLES, Finding, Findings
from data_prep.fingerprints import fingerprint_all
from data_prep.rows import ImageRef, Row
from data_prep.synthetic import write_release
from recipes import audit
from recipes.stages import plan

TRAIN, TEST = range(1, 5), range(11, 14)
STREET = "cvusa/data/streetview/{:07d}.jpg"
ABOVE = "cvusa/data/bingmap/input{:07d}.png"
G2S = "cvusa/g2s/Ground2Sat_VQA_{}.jsonl"
S2G = "cvusa/s2g/Sat2Ground_VQA_{}.jsonl"


def scene(seed: int, size: tuple[int, int]) -> Image.Image:
    """A picture with large shapes, as a photograph has and a plain colour has not."""
    cells = np.random.default_rng(seed).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(cells).resize(size, Image.Resampling.BICUBIC)


def records(number: int) -> tuple[dict, dict]:
    """The g2s line of a scene, with two questions, and its s2g line."""
    name = f"{number:07d}"
    asked = [question(), question(question="Is the porch identifiable?", answer="B")]
    g2s = {"img_id": name, "source_image": STREET.format(number), "questions": asked}
    return g2s, question(img_id=name, options=LOCATION, answer="C")


def put_scene(root: Path, number: int, seed: int | None = None) -> None:
    for path, size in ((STREET, (96, 32)), (ABOVE, (64, 64))):
        file = root / path.format(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        scene((number if seed is None else seed) * 2 + (path == ABOVE), size).save(file)


@pytest.fixture
def release(tmp_path) -> Path:
    root = tmp_path / "release"
    for split, numbers in (("train", TRAIN), ("test", TEST)):
        for number in numbers:
            put_scene(root, number)
        lines = [records(number) for number in numbers]
        put_vqa(root, "cvusa", "g2s", *(line[0] for line in lines), split=split)
        put_vqa(root, "cvusa", "s2g", *(line[1] for line in lines), split=split)
    return root


def run(runs: Path, *overrides: str) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """Exit status, audit.json and the findings of an audit."""
    stage = plan(compose_config(f"runs_dir={runs}", *overrides), "audit")
    status = audit.run(stage.open())
    found = list(read_jsonl(stage.path / "findings.jsonl"))
    return status, json.loads((stage.path / "audit.json").read_text()), found


def run_cvusa(runs: Path, root: Path) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    return run(runs, f"data.root={root}", "data.subsets=[cvusa]")


def change(file: str, line: int, edit: Callable[[dict], None]) -> Callable[[Path], None]:
    """Edits one record (line from 1) of a file of the release."""

    def apply(root: Path) -> None:
        lines = list(read_jsonl(root / file))
        edit(lines[line - 1])
        put_lines(root / file, *lines)

    return apply


def append(file: str, *added: Any) -> Callable[[Path], None]:
    return lambda root: put_lines(root / file, *read_jsonl(root / file), *added)


def asked(index: int, **fields: Any) -> Callable[[dict], None]:
    return lambda record: record["questions"][index].update(fields)


def hide_scene(root: Path, seeds: dict[str, int]) -> None:
    """Test scene 11 gets pictures of training scenes, re-encoded and scaled; `seeds` by path pattern."""
    for path, number in seeds.items():
        width, height = (96, 32) if path == STREET else (64, 64)
        picture = scene(number * 2 + (path == ABOVE), (width, height))
        kept = io.BytesIO()
        picture.resize((width * 5 // 4, height * 5 // 4)).save(kept, "JPEG", quality=70)
        Image.open(kept).save(root / path.format(11))


def test_a_sound_release_has_no_findings(release, tmp_path, capsys):
    status, told, found = run_cvusa(tmp_path / "runs", release)
    assert (status, found) == (0, [])
    assert told["errors"]["total"] == told["warnings"]["total"] == 0
    assert set(told["errors"]["checks"]) | set(told["warnings"]["checks"]) == set(CHECKS) == set(WORDS)
    assert told["pictures"] == 14
    assert told["groups"] == {"train": 4, "test": 3}
    assert [source["path"] for source in told["sources"]] == [
        G2S.format("train"), S2G.format("train"), G2S.format("test"), S2G.format("test")
    ]  # fmt: skip
    out = capsys.readouterr().out
    assert "errors: 0" in out
    assert "warnings: 0" in out


def test_counts_stand_beside_the_papers(release, tmp_path, capsys):
    _, told, _ = run_cvusa(tmp_path / "runs", release)
    rows = {(r["task"], r["category"]): r for r in told["counts"]}
    assert (rows["g2s", None]["train"], rows["g2s", None]["test"], rows["g2s", None]["all"]) == (8, 6, 14)
    assert (rows["g2s", None]["paper"], rows["g2s", None]["derived"]) == (2260, False)
    assert (rows["g2s", "facade"]["all"], rows["g2s", "facade"]["paper"]) == (14, None)
    assert (rows["s2g", "location"]["all"], rows["s2g", "location"]["paper"]) == (7, round(0.26 * 5131))
    assert rows["s2g", "location"]["derived"]
    assert rows["s2g", "visibility"]["all"] == 0
    shares = {r["of"]: r["percent"] for r in told["letters"]}
    assert shares["cvusa g2s"] == {"A": 50.0, "B": 50.0}
    assert shares["all"] == {"A": 33.3, "B": 33.3, "C": 33.3}
    assert shares["paper"] == {"A": 40, "B": 22, "C": 24, "D": 14}
    line = next(line for line in capsys.readouterr().out.splitlines() if " location " in line)
    assert line.split() == ["location", "4", "3", "7", "~1,334"]


def test_the_papers_numbers_add_up():
    """CVSBench figure 3: 40,679 rows in all; a task's shares are whole percents of it."""
    tasks = paper()["tasks"]
    assert sum(task["rows"] for task in tasks) == 40_679
    assert sum(task["rows"] for task in tasks if task["task"] in ("g2s", "s2g")) == 2 * 8_784
    for task in tasks:
        categories = paper_rows(task)
        assert not categories or abs(sum(n for n, _ in categories.values()) / task["rows"] - 1) <= 0.011


FAULTS = {
    # fault -> (how it is planted, {(check, id, file, line)}, words of a message)
    "an answer that is no option": (
        change(G2S.format("train"), 2, asked(1, answer="E")),
        {("answer", "cvsbench/cvusa/g2s/0000002.NA.q1", G2S.format("train"), 2)},
        "'E' is not among the options A, B",
    ),
    "a question without words": (
        change(S2G.format("test"), 3, lambda record: record.update(question=" ")),
        {("question", "cvsbench/cvusa/s2g/0000013.NA.q0", S2G.format("test"), 3)},
        "no question",
    ),
    "words that would break the prompt": (
        change(G2S.format("test"), 1, asked(0, question="Is <image> there?")),
        {("question", "cvsbench/cvusa/g2s/0000011.NA.q0", G2S.format("test"), 1)},
        "'<image>'",
    ),
    "a picture that is not there": (
        lambda root: (root / ABOVE.format(3)).unlink(),
        {("missing_picture", "cvsbench/cvusa/s2g/0000003.NA.q0", S2G.format("train"), 3)},
        "no picture",
    ),
    "a picture that is cut short": (
        lambda root: (root / STREET.format(4)).write_bytes((root / STREET.format(4)).read_bytes()[:-40]),
        {("unreadable_picture", STREET.format(4), G2S.format("train"), 4)},
        "cannot be decoded",
    ),
    "an id that is used twice": (
        append(S2G.format("train"), {**records(2)[1], "q_index": 0, "question": "Where else?"}),
        {("repeated_id", "cvsbench/cvusa/s2g/0000002.NA.q0", S2G.format("train"), 5)},
        "used twice",
    ),
    "a question with two answers": (
        append(S2G.format("test"), {**records(12)[1], "answer": "A"}),
        {("contradiction", "cvsbench/cvusa/s2g/0000012.NA.q1", S2G.format("test"), 4)},
        "is answered C where this one is answered A",
    ),
    "a scene in both halves": (
        append(S2G.format("test"), {**records(1)[1], "question": "Where is the shed?"}),
        {
            ("id_in_both", "cvsbench/cvusa/s2g/0000001.NA.q0", S2G.format("test"), 4),
            ("group_in_both", "cvusa/0000001", S2G.format("test"), 4),
        },
        "the other split",
    ),
    "a question in both halves": (
        append(S2G.format("test"), {**records(1)[1], "q_index": 7}),
        {
            ("group_in_both", "cvusa/0000001", S2G.format("test"), 4),
            ("question_in_both", "cvsbench/cvusa/s2g/0000001.NA.q7", S2G.format("test"), 4),
        },
        "the other split",
    ),
    "a scene under another id": (
        lambda root: hide_scene(root, {STREET: 2, ABOVE: 2}),
        {("pictures_in_both", "cvusa/0000011", G2S.format("test"), 1)},
        "cvusa/0000002 shows the same",
    ),
    "a line that is no JSON": (
        append(S2G.format("test"), '{"img_id": "00000'),
        {("file", "", "cvusa/s2g, test", 0)},
        "line 4",
    ),
    "a file that is missing": (
        lambda root: (root / S2G.format("train")).unlink(),
        {("file", "", "cvusa/s2g, train", 0)},
        "has no Sat2Ground_VQA_train.jsonl",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_error_is_found_and_nothing_else(fault, release, tmp_path, capsys):
    plant, expected, words = FAULTS[fault]
    plant(release)
    status, told, found = run_cvusa(tmp_path / "runs", release)
    assert status == 1
    assert {(f["check"], f["id"], f["file"], f["line"]) for f in found} == expected
    assert len(found) == told["errors"]["total"] == len(expected)
    assert all(f["severity"] == "error" for f in found)
    assert words in found[0]["message"]
    out = capsys.readouterr().out
    assert f"errors: {len(expected)}" in out
    assert all(f"  {check}: 1 ({WORDS[check]})" in out for check, *_ in expected)


ODD = ["A) Flat", "B) Not flat"]
WARNINGS = {
    "a question asked twice": (
        append(S2G.format("test"), records(12)[1]),
        {("repeated_question", "cvsbench/cvusa/s2g/0000012.NA.q1", S2G.format("test"), 4)},
        "s2g/0000012.NA.q0 asks the same",
    ),
    "options of no known set": (
        change(S2G.format("train"), 1, lambda record: record.update(options=ODD, answer="A")),
        {("options", "cvsbench/cvusa/s2g/0000001.NA.q0", S2G.format("train"), 1)},
        "Flat | Not flat",
    ),
    "known options in another order": (
        change(S2G.format("train"), 1, lambda record: record.update(options=FACADE[::-1], answer="A")),
        {("options", "cvsbench/cvusa/s2g/0000001.NA.q0", S2G.format("train"), 1)},
        "Not visible in Satellite | Visible in Satellite",
    ),
    "a category that the options contradict": (
        change(G2S.format("test"), 2, asked(0, category="roof")),
        {("category", "cvsbench/cvusa/g2s/0000012.NA.q0", G2S.format("test"), 2)},
        "the row says roof_form, its options are those of facade",
    ),
    "one picture of a training scene in a test scene": (
        lambda root: hide_scene(root, {STREET: 2}),
        {("picture_in_both", STREET.format(11), G2S.format("test"), 1)},
        f"looks like {STREET.format(2)}, of cvusa/0000002",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WARNINGS)
def test_a_warning_is_told_and_leaves_the_status_at_0(fault, release, tmp_path):
    plant, expected, words = WARNINGS[fault]
    plant(release)
    status, told, found = run_cvusa(tmp_path / "runs", release)
    assert status == 0
    assert {(f["check"], f["id"], f["file"], f["line"]) for f in found} == expected
    assert told["warnings"]["total"] == len(found) == 1
    assert words in found[0]["message"]


def test_the_same_file_under_two_ids_is_pixel_for_pixel(release, tmp_path):
    for path in (STREET, ABOVE):
        (release / path.format(13)).write_bytes((release / path.format(1)).read_bytes())
    _, _, found = run_cvusa(tmp_path / "runs", release)
    assert [f["check"] for f in found] == ["pictures_in_both"]
    assert "is pixel for pixel" in found[0]["message"]


def test_a_hidden_picture_is_decoded_too(release, tmp_path):
    """The teacher sees both views, so a broken one counts even where no question shows it."""
    put_vqa(release, "cvusa", "s2g", *(records(n)[1] for n in TEST if n != 12), split="test")
    (release / ABOVE.format(12)).write_bytes(b"no picture")
    status, _, found = run_cvusa(tmp_path / "runs", release)
    assert (status, [f["id"] for f in found]) == (1, [ABOVE.format(12)])


def test_many_findings_are_all_written_and_few_kept(tmp_path):
    with open(tmp_path / "findings.jsonl", "w") as out:
        findings = Findings({"box": "error", "options": "warning"}, out)
        for number in range(500):
            findings.add(Finding("box", "it leaves", f"row{number}", "a.jsonl", number + 1))
    assert [f["line"] for f in read_jsonl(tmp_path / "findings.jsonl")] == list(range(1, 501))
    told = findings.summary()
    assert told["errors"]["checks"] == {"box": 500}
    assert len(told["errors"]["first"]) == EXAMPLES
    assert told["warnings"] == {"total": 0, "checks": {"options": 0}, "first": []}


@pytest.mark.parametrize(
    ("box", "inside"),
    [
        ([0, 0, 60, 40], True),
        ([59, 39, 0, 0], True),  # corners in the other order are the same box
        ([10.5, 3, 60.5, 20], False),
        ([10, -1, 20, 20], False),
        ([10, 3, 20, 41], False),
    ],
)
def test_a_box_must_lie_in_the_picture_it_is_about(box, inside, tmp_path):
    """The target is the row's last picture; the source is larger and does not count."""
    Image.new("RGB", (200, 200)).save(tmp_path / "source.png")
    Image.new("RGB", (60, 40)).save(tmp_path / "target.png")
    row = Row(
        id="b", benchmark="cvsbench", subset="fov", task="gs_grounding", category="x", group="fov/1",
        images=(ImageRef("source.png", "street"), ImageRef("target.png", "satellite")), question="?",
        options=None, answer=box, answer_type="box", meta={"file": "g.jsonl", "line": 9},
    )  # fmt: skip
    contents, found = Contents(), []
    contents.add(row, "test")
    compare(contents, fingerprint_all(tmp_path, list(contents.pictures)), found.append)
    assert [(f.check, f.id, f.file, f.line) for f in found] == (
        [] if inside else [("box", "b", "g.jsonl", 9)]
    )
    assert all("target.png, which is 60 x 40 pixels" in f.message for f in found)
    assert letters(contents)[0] == {"of": "all", "letters": {}, "percent": {}}
    assert [r["all"] for r in counts(contents)] == [1, 1]


def test_a_synthetic_release_is_sound(tmp_path):
    """No category, limit or teacher of the recipe plays a part: the whole release is looked at."""
    write_release(tmp_path / "release", seed=3, train_groups=40, test_groups=20)
    status, told, found = run(tmp_path / "runs", f"data.root={tmp_path / 'release'}", "data.max_test_rows=1")
    assert status == 0
    assert {f["check"] for f in found} <= {"picture_in_both"}
    totals = {(r["subset"], r["task"]): r["all"] for r in told["counts"] if r["category"] is None}
    assert totals == {("cvusa", "g2s"): 60, ("cvusa", "s2g"): 60, ("fov", "g2s"): 60, ("fov", "s2g"): 90}


TASKS = ("g2s", "s2g", "gs_grounding", "gs_view")


def test_boxes_and_viewpoints_are_audited_too(tmp_path):
    root = tmp_path / "release"
    write_release(root, seed=3, train_groups=20, test_groups=10, tasks=TASKS)
    options = (f"data.root={root}", f"data.tasks=[{','.join(TASKS)}]")
    status, told, found = run(tmp_path / "runs", *options)
    assert status == 0
    assert {f["check"] for f in found} <= {"picture_in_both"}
    rows = {(r["subset"], r["task"], r["category"]): r for r in told["counts"]}
    assert rows["fov", "gs_view", None]["paper"] == 4_179
    assert rows["fov", "gs_view", "view_arrow"]["paper"] == 2_543
    assert rows["cvusa", "gs_grounding", None]["paper"] == 8_620
    assert ("cvusa", "gs_view", None) not in rows
    assert all(r["all"] for (_, task, _), r in rows.items() if task.startswith("gs_"))

    file = "fov/gs_grounding/Ground2Sat_5level_test.jsonl"
    lines = list(read_jsonl(root / file))
    lines[1]["questions"][0]["answer"] = [90, 10, 400, 20]
    put_lines(root / file, *lines)
    status, _, found = run(tmp_path / "runs", *options)
    errors = [f for f in found if f["severity"] == "error"]
    assert status == 1
    assert [(f["check"], f["file"], f["line"]) for f in errors] == [("box", file, 2)]
    assert "[90, 10, 400, 20] leaves fov/" in errors[0]["message"]


def test_a_synthetic_release_is_drawn_once_and_audited_again(tmp_path, capsys):
    options = ("scale=tiny", "data.synthetic.train_groups=8", "data.synthetic.test_groups=4")
    assert run(tmp_path, *options)[0] == 0
    assert "drawing a synthetic release" in capsys.readouterr().out
    first = next(tmp_path.rglob("release/fov/data/street/*/*.jpg"))
    first.write_bytes(b"")
    status, _, found = run(tmp_path, *options)
    assert "drawing" not in capsys.readouterr().out
    errors = [f["check"] for f in found if f["severity"] == "error"]
    assert (status, errors) == (1, ["unreadable_picture"])
