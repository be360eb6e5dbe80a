"""The prep stage as a whole: what it writes, what it refuses, and that a kill changes nothing."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from miniature import put_cvusa, put_lines, put_picture, put_vqa, question, reasoning
from prep_runs import open_prep, open_release
from pyarrow import parquet

from data_prep.atomic import read_jsonl, sha256_file
from data_prep.errors import UserError
from data_prep.rows import Row
from recipes import prep
from recipes.run_dir import RunDir
from recipes.scores import predict
from rewards import compute_score

SETS = ("sft", "rl", "test")


def rows(run: RunDir) -> dict[str, list[Row]]:
    return {name: [Row.from_json(r) for r in read_jsonl(run.path / f"rows/{name}.jsonl")] for name in SETS}


def aside(run: RunDir) -> list[dict]:
    return list(read_jsonl(run.path / "quarantine.jsonl"))


@pytest.fixture
def release(tmp_path):
    put_cvusa(tmp_path / "release", train=16, test=4)
    return tmp_path / "release"


def test_a_sound_release(release, tmp_path):
    run = open_release(tmp_path / "runs", release)
    prep.run(run)
    found, manifest = rows(run), run.manifest
    assert {name: len(part) for name, part in found.items()} == {
        name: manifest["sets"][name]["rows"] for name in SETS
    }
    assert len(found["sft"]) + len(found["rl"]) == 16 * 3
    assert len(found["test"]) == 4 * 3
    assert aside(run) == []
    groups = {name: {row.group for row in part} for name, part in found.items()}
    assert not groups["sft"] & groups["rl"]
    assert not (groups["sft"] | groups["rl"]) & groups["test"]
    assert manifest["group_overlaps"] == {"sft-rl": 0, "sft-test": 0, "rl-test": 0}
    assert all(
        row.reasoning is not None and row.reasoning.endswith(f"<answer> {row.answer} </answer>")
        for row in found["sft"]
    )
    assert all(row.reasoning is None for row in [*found["rl"], *found["test"]])
    for row in (row for part in found.values() for row in part):
        for image in row.images:
            assert sha256_file(run.path / "images" / image.path) == image.sha256
            assert (image.width, image.height) == ((24, 8) if image.role == "panorama" else (10, 10))
    written = parquet.read_table(run.path / "rl.parquet").to_pylist()
    assert [record["extra_info"]["id"] for record in written] == [row.id for row in found["rl"]]
    assert all(Path(image).is_file() for record in written for image in record["images"])


def test_the_manifest_counts_and_names_everything(release, tmp_path):
    run = open_release(tmp_path / "runs", release)
    prep.run(run)
    manifest, found = run.manifest, rows(run)
    assert manifest["files"] == {
        name: sha256_file(run.path / name)
        for name in (
            "rows/sft.jsonl",
            "rows/rl.jsonl",
            "rows/test.jsonl",
            "rl.parquet",
            "quarantine.jsonl",
            "images.jsonl",
            "halves.json",
        )
    }
    assert [(source["split"], source["path"]) for source in manifest["sources"]] == [
        ("train", "cvusa/g2s/Ground2Sat_VQA_train.jsonl"),
        ("train", "cvusa/s2g/Sat2Ground_VQA_train.jsonl"),
        ("test", "cvusa/g2s/Ground2Sat_VQA_test.jsonl"),
        ("test", "cvusa/s2g/Sat2Ground_VQA_test.jsonl"),
    ]
    assert manifest["sets"]["test"] == {
        "rows": 12,
        "groups": 4,
        "categories": {"cvusa": {"g2s": {"facade": 8}, "s2g": {"location": 4}}},
        "answers": {"A": 4, "B": 4, "C": 4},
    }
    assert manifest["pictures"] == len(
        {image.path for part in found.values() for row in part for image in row.images}
    )
    assert manifest["quarantined"] == {"rows": 0}
    assert manifest["prompt"]["format"] == "imagination_cot"


def test_filters_and_limits(release, tmp_path):
    run = open_release(
        tmp_path / "runs",
        release,
        "data.categories=[location]",
        "data.max_train_groups=6",
        "data.max_test_rows=2",
    )
    prep.run(run)
    found = rows(run)
    assert {row.category for part in found.values() for row in part} == {"location"}
    assert (len(found["sft"]) + len(found["rl"]), len(found["test"])) == (6, 2)


def test_more_scenes_move_no_row_whose_half_is_kept(release, tmp_path):
    first = open_release(tmp_path / "one", release)
    prep.run(first)
    put_cvusa(release, train=20, test=4)
    second = open_release(tmp_path / "two", release, f"data.halves={first.path / 'halves.json'}")
    prep.run(second)
    before, after = rows(first), rows(second)
    for name in SETS:
        assert {row.id for row in before[name]} <= {row.id for row in after[name]}
    halves = json.loads((second.path / "halves.json").read_text())
    assert {name: {halves[row.group] for row in after[name]} for name in ("sft", "rl")} == {
        "sft": {"sft"},
        "rl": {"rl"},
    }
    sizes = [sum(row.category == "facade" for row in after[name]) for name in ("sft", "rl")]
    assert abs(sizes[0] - sizes[1]) <= 2


@pytest.fixture
def faulty(release):
    """Five faults of different kinds in the release, each on a known row."""
    first = {"img_id": "0000001", "questions": [question(question="See <image>?"), question(answer="B")]}
    second = {"img_id": "0000002", "questions": [question(answer="E"), question(answer="B")]}
    rest = [
        {"img_id": f"{n:07d}", "questions": [question(), question(answer="B")]} for n in (*range(3, 17), 5001)
    ]
    put_vqa(release, "cvusa", "g2s", first, second, *rest, split="train")
    (release / "cvusa/data/streetview/0000003.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut short")
    (release / "cvusa/data/streetview/0000004.jpg").unlink()
    return release


FAULTS = {
    "cvsbench/cvusa/g2s/0000001.NA.q0": ("row", "'<image>'"),
    "cvsbench/cvusa/g2s/0000002.NA.q0": ("row", "'E' is not among the options"),
    "cvsbench/cvusa/g2s/0000003.NA.q0": ("picture", "0000003.jpg: cannot be decoded"),
    "cvsbench/cvusa/g2s/0000003.NA.q1": ("picture", "0000003.jpg: cannot be decoded"),
    "cvsbench/cvusa/g2s/0000004.NA.q0": ("picture", "no picture"),
    "cvsbench/cvusa/g2s/0000004.NA.q1": ("picture", "no picture"),
    "cvsbench/cvusa/g2s/0005001.NA.q0": ("leak", "its scene is also in the test files"),
    "cvsbench/cvusa/g2s/0005001.NA.q1": ("leak", "its scene is also in the test files"),
}


def test_unreadable_pictures_end_the_command_and_are_listed(faulty, tmp_path):
    run = open_release(tmp_path / "runs", faulty)
    with pytest.raises(UserError, match=r"^4 questions have a picture .*quarantine\.jsonl.*allow_unreadable"):
        prep.run(run)
    assert not run.finished
    listed = {record["id"]: record for record in aside(run)}
    assert listed.keys() == FAULTS.keys()
    for row_id, (kind, reason) in FAULTS.items():
        assert listed[row_id]["kind"] == kind
        assert reason in listed[row_id]["reason"]
        assert listed[row_id]["file"] == "cvusa/g2s/Ground2Sat_VQA_train.jsonl"
    assert listed["cvsbench/cvusa/g2s/0000004.NA.q1"]["line"] == 4


def test_the_command_ends_with_a_status_and_one_line(faulty, tmp_path):
    run = open_release(tmp_path / "runs", faulty)
    command = [sys.executable, "-m", "recipes", "prep", str(run.path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("prep: 4 questions have a picture")
    assert ended.stderr.count("\n") == 1


def test_allow_unreadable_goes_on_without_those_rows(faulty, tmp_path):
    run = open_release(tmp_path / "runs", faulty, "data.allow_unreadable=true")
    prep.run(run)
    assert run.manifest["quarantined"] == {"rows": 8, "leak": 2, "picture": 4, "row": 2}
    found = rows(run)
    assert len(found["sft"]) + len(found["rl"]) == 16 * 3 - 6
    assert not FAULTS.keys() & {row.id for row in [*found["sft"], *found["rl"]]}


def test_mended_pictures_are_taken_up(faulty, tmp_path):
    run = open_release(tmp_path / "runs", faulty)
    with pytest.raises(UserError):
        prep.run(run)
    for number in (3, 4):
        put_picture(faulty / f"cvusa/data/streetview/{number:07d}.jpg", (24, 8), number)
    prep.run(run)
    assert run.manifest["quarantined"] == {"rows": 4, "leak": 2, "row": 2}


def test_reasoning_that_is_missing_or_wrong_is_set_aside(release, tmp_path):
    taught = list(read_jsonl(release / "reasoning.jsonl"))
    wrong = {r["id"]: reasoning("D") for r in taught if r["id"].endswith("q1")}
    kept = [{**r, "reasoning": wrong.get(r["id"], r["reasoning"])} for r in taught if "/s2g/" not in r["id"]]
    put_lines(release / "reasoning.jsonl", *kept)
    run = open_release(tmp_path / "runs", release)
    prep.run(run)
    found = rows(run)
    assert {row.id.rpartition(".")[2] for row in found["sft"]} == {"q0"}
    assert {row.task for row in found["sft"]} == {"g2s"}
    reasons = {record["reason"] for record in aside(run)}
    assert len(aside(run)) == run.manifest["quarantined"]["reasoning"] == 2 * len(found["sft"])
    assert {reason.split(" ")[1] for reason in reasons} == {"teacher", "reasoning"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.categories=[rooof]"], "No question is left for the sft set .*facade, location"),
        (["data.subsets=[fov]"], "has no Ground2Sat_VQA_test.jsonl"),
        (["data.root=/nowhere/at/all"], "is not a folder"),
        (["teacher.path=/nowhere/at/all"], "no reasoning at /nowhere"),
        (["data.tasks=[g2g]"], "'g2g' is not one of g2s, s2g"),
    ],
)
def test_mistakes_get_one_sentence(release, tmp_path, overrides, message):
    run = open_release(tmp_path / "runs", release, *overrides)
    with pytest.raises(UserError, match=message):
        prep.run(run)
    assert not run.finished


def test_no_usable_reasoning_at_all(release, tmp_path):
    put_lines(release / "reasoning.jsonl")
    run = open_release(tmp_path / "runs", release)
    with pytest.raises(UserError, match="left for the sft set"):
        prep.run(run)
    assert {record["kind"] for record in aside(run)} == {"reasoning"}


def test_a_broken_line_is_named(release, tmp_path):
    with open(release / "cvusa/s2g/Sat2Ground_VQA_train.jsonl", "a") as lines:
        lines.write('{"img_id": "00000')
    run = open_release(tmp_path / "runs", release)
    with pytest.raises(UserError, match=r"Sat2Ground_VQA_train\.jsonl, line 17: '\{\"img_id\": \"00000'"):
        prep.run(run)


SYNTHETIC = ("scale=tiny", "data.synthetic.train_groups=80", "data.synthetic.test_groups=10")


def snapshot(run: Path) -> dict[str, object]:
    """Every file of the run directory; the manifest without the time it was written."""
    files = {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
    manifest = json.loads(files.pop("manifest.json"))
    return {**files, "manifest.json": {key: value for key, value in manifest.items() if key != "finished"}}


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


MOMENTS: tuple[tuple[str, Callable[[Path], bool]], ...] = (
    ("release begun", lambda run: (run / "release.part/cvusa").exists()),
    ("release whole", lambda run: (run / "release").exists()),
    ("first pictures", lambda run: lines(run / "images.jsonl") > 0),
    ("more pictures", lambda run: lines(run / "images.jsonl") > 130),
    ("all pictures", lambda run: (run / "rows").exists()),
    ("rows written", lambda run: (run / "rows/sft.jsonl").exists()),
    ("parquet written", lambda run: (run / "rl.parquet").exists()),
)


def test_killed_at_any_moment_and_started_again_it_ends_the_same(tmp_path):
    run = open_prep(tmp_path, *SYNTHETIC)
    command = [sys.executable, "-m", "recipes", "prep", str(run.path)]
    killed = []
    for name, reached in MOMENTS:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while process.poll() is None and not reached(run.path):
            time.sleep(0.001)
        if process.poll() is None:
            process.kill()
            killed.append(name)
        process.wait()
        # Each moment is met for the first time: what came before it was kept.
        assert reached(run.path), name
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert len(killed) >= len(MOMENTS) - 1, killed
    interrupted = snapshot(run.path)

    run.path.rename(tmp_path / "interrupted")
    undisturbed = open_prep(tmp_path, *SYNTHETIC)
    assert undisturbed.path == run.path
    prep.run(undisturbed)
    assert interrupted == snapshot(undisturbed.path)


PAIRS = (
    "scale=tiny", "data.synthetic.train_groups=16", "data.synthetic.test_groups=4", "data.categories=null",
    "data.tasks=[gs_grounding,gs_view]",
)  # fmt: skip


def test_grounding_and_viewpoint_questions_go_through(tmp_path):
    run = open_prep(tmp_path, *PAIRS)
    prep.run(run)
    found, manifest = rows(run), run.manifest
    assert manifest["sets"]["test"]["categories"] == {
        "cvusa": {"gs_grounding": {"level3": 4, "level4": 4}},
        "fov": {"gs_grounding": {"level3": 4, "level4": 4}, "gs_view": {"view_arrow": 2, "view_image": 2}},
    }
    assert aside(run) == []
    assert {(s["task"], s["part"], s["assumed"]) for s in manifest["sources"] if s["split"] == "train"} == {
        (task, part, "a train file is named like its test file")
        for task, part in (("gs_grounding", "g2s"), ("gs_grounding", "s2g"),
                           ("gs_view", "arrow_select"), ("gs_view", "arrow_street"))
    }  # fmt: skip
    assert {s["assumed"] for s in manifest["sources"] if s["split"] == "test"} == {""}
    assert all(row.reasoning is not None for row in found["sft"])
    written = parquet.read_table(run.path / "rl.parquet").to_pylist()
    assert {record["extra_info"]["answer_type"] for record in written} == {"box", "choice"}
    for record, row in zip(written, found["rl"], strict=True):
        info, gold = record["extra_info"], record["reward_model"]["ground_truth"]
        box = row.answer_type == "box"
        assert info["coordinates"] == ("pixel" if box else None)
        assert info["image_size"] == ([row.images[-1].width, row.images[-1].height] if box else None)
        assert len(record["images"]) == (2 if box else 1)
        right = compute_score(record["data_source"], f"<answer>{gold}</answer>", gold, info)
        assert (right["accuracy"], right["out_of_range"]) == (1.0, 0)
        assert predict(row, f"<answer>{gold}</answer>", 9, False, "answer_only", {})["correct"]


def test_training_rows_without_reasoning_are_set_aside_and_the_rest_goes_on(release, tmp_path):
    """Teachers write for g2s and s2g (CVSBench, section 4.3); grounding is then for GRPO and the test."""
    for split, first, count in (("train", 1, 16), ("test", 5001, 4)):
        box = {"level": 4, "question": "Where?", "answer": [1, 1, 5, 5]}
        for direction in ("g2s", "s2g"):
            ids = (f"{number:07d}_1" for number in range(first, first + count))
            records = [{"img_id": image_id, "questions": [box]} for image_id in ids]
            put_vqa(release, "cvusa", f"gs_grounding/{direction}", *records, split=split)
    off = {"img_id": "0005001_2", "questions": [{"level": 4, "question": "?", "answer": [400, 1, 405, 9]}]}
    with open(release / "cvusa/gs_grounding/Ground2Sat_5level_test.jsonl", "a") as lines:
        lines.write(json.dumps(off) + "\n")
    run = open_release(tmp_path / "runs", release, "data.tasks=[g2s,s2g,gs_grounding]")
    prep.run(run)
    found = rows(run)
    assert {row.task for row in found["sft"]} == {"g2s", "s2g"}
    assert {row.task for row in found["rl"]} == {row.task for row in found["test"]} == {
        "g2s", "s2g", "gs_grounding",
    }  # fmt: skip
    untaught = 2 * len({row.group for row in found["sft"]})
    assert run.manifest["quarantined"] == {"rows": untaught + 1, "reasoning": untaught, "row": 1}
    assert any("off its picture of 10 x 10" in record["reason"] for record in aside(run))
