"""`launch generate` from image pairs to a release, against an endpoint that errs; killed and resumed."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from generator_endpoint import HOPELESS, LEAKY, Generator
from image_pairs import put_pairs, write
from miniature import put_lines, reasoning
from prep_runs import compose_config, open_prep

from data_prep.atomic import read_jsonl
from data_prep.cvsbench import read_release
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.generation.pairs import read_pairs
from data_prep.generation.templates import VARIANTS
from data_prep.rows import Row
from data_prep.teacher.limits import Stopped
from launch.cli import main
from recipes import prep
from recipes.generate import run
from recipes.run_dir import RunDir
from recipes.stages import plan

ROOT = Path(__file__).parents[2]
VQA = ("g2s", "s2g")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    root = tmp_path_factory.mktemp("pairs")
    put_pairs(root)
    return root


def open_run(folder: Path, pairs: Path, stub: Generator | None, *overrides: str) -> RunDir:
    teacher = ["teacher=openai", "teacher.model=stub", "teacher.api_key_env=null", "teacher.timeout=1"]
    asked = [*teacher, f"teacher.base_url={stub.base_url}"] if stub else []
    return plan(
        compose_config(f"runs_dir={folder}", f"generation.pairs={pairs}", *asked, *overrides), "generate"
    ).open()


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def outputs(made: RunDir) -> dict[str, bytes]:
    single = ("set_aside.jsonl", "answers.json")
    return files_of(made.path / "release") | {name: (made.path / name).read_bytes() for name in single}


def questions_of(made: RunDir) -> list[dict]:
    """Every VQA question in the files of the release, with its place."""
    found = []
    for name, split in (
        (n, s) for n in made.manifest["files"] if "VQA" in n for s in ("train", "test") if s in n
    ):
        for record in read_jsonl(made.path / "release" / name):
            found += [{**record, **q, "split": split, "file": name} for q in record["questions"]]
    return found


@pytest.fixture(scope="module")
def undisturbed(pairs, tmp_path_factory):
    """A finished run, the requests it took, and how many there were."""
    with Generator(latency=0.002) as stub:
        made = open_run(tmp_path_factory.mktemp("undisturbed"), pairs, stub)
        run(made)
    return made, stub.log


def test_the_reader_takes_the_release_without_setting_anything_aside(undisturbed):
    made, _ = undisturbed
    root = DataRoot(made.path / "release")
    tasks = [*VQA, "gs_grounding", "gs_view"]
    rows = [
        item for split in ("train", "test") for item in read_release(root, ["cvusa", "fov"], tasks, split)
    ]
    assert all(isinstance(row, Row) for row in rows), [row for row in rows if not isinstance(row, Row)]
    vqa = [row for row in rows if row.task in VQA]
    assert Counter((r.subset, r.task, r.category) for r in vqa) == Counter(
        (q["dataset"], q["task"], q["category"]) for q in questions_of(made)
    )
    assert {row.task for row in rows} == set(tasks)
    assert all((root.path / image.path).is_file() for row in rows for image in row.images)
    assert {r.images[0].path.split("/")[2] for r in vqa if (r.subset, r.task) == ("fov", "s2g")} == {
        "satellite_arrow"
    }
    assert all(r.meta["hidden_images"] for r in vqa)


def test_prep_makes_sets_of_the_release(undisturbed, tmp_path):
    root = undisturbed[0].path / "release"
    tasks = [*VQA, "gs_grounding", "gs_view"]
    train = list(read_release(DataRoot(root), ["cvusa", "fov"], tasks, "train"))
    taught = [{"id": row.id, "reasoning": reasoning(row.answer)} for row in train if row.task in VQA]
    put_lines(tmp_path / "reasoning.jsonl", *taught)
    made = open_prep(
        tmp_path, f"data.root={root}", f"data.tasks=[{','.join(tasks)}]",
        f"teacher.path={tmp_path}/reasoning.jsonl",
    )  # fmt: skip
    prep.run(made)
    rows = {
        name: [Row.from_json(record) for record in read_jsonl(made.path / f"rows/{name}.jsonl")]
        for name in ("sft", "rl", "test")
    }
    aside = list(read_jsonl(made.path / "quarantine.jsonl"))
    assert {record["reason"] for record in aside} <= {"the teacher gave no reasoning"}
    assert len(rows["sft"]) + len(rows["rl"]) + len(aside) == len(train)
    assert {row.task for row in rows["sft"]} <= set(VQA)
    assert {row.task for row in rows["test"]} == set(tasks)
    assert pq.read_table(made.path / "rl.parquet").num_rows == len(rows["rl"]) > 0


def test_scenes_are_in_one_split_and_letters_are_the_options(undisturbed):
    questions = questions_of(undisturbed[0])
    splits: dict[tuple[str, str], set[str]] = {}
    for q in questions:
        splits.setdefault((q["dataset"], q.get("img_id") or q["sample_id"]), set()).add(q["split"])
        variant = VARIANTS[f"{q['task']}_{q['dataset']}"]
        category = variant.category(q["category"])
        assert q["options"] == category.labelled
        assert q["answer"] in category.letters
        assert category.filled(q["question"].removeprefix(variant.lead).strip()) is not None
    assert len(questions) > 30
    assert {len(found) for found in splits.values()} == {1}
    assert {split for found in splits.values() for split in found} == {"train", "test"}


def test_symmetry_is_asked_once_a_scene_about_all_photos(undisturbed):
    made, _ = undisturbed
    asked = [q for q in questions_of(made) if q["category"] == "symmetry"]
    assert asked
    assert all(q["view_id"] == 0 for q in asked)
    assert len({q["sample_id"] for q in asked}) == len(asked)
    root = DataRoot(made.path / "release")
    rows = [row for split in ("train", "test") for row in read_release(root, ["fov"], ["g2s"], split)]
    assert {len(row.images) for row in rows if row.category == "symmetry"} == {4}


def test_everything_left_out_is_listed_with_its_step(undisturbed):
    made, _ = undisturbed
    aside = list(read_jsonl(made.path / "set_aside.jsonl"))
    assert Counter(item["step"] for item in aside) == made.manifest["set_aside"]
    assert all(item["reason"] for item in aside)
    assert {"arrow", "rules", "blind filter"} <= {item["step"] for item in aside}
    assert {"id": "fov/0003.4", "step": "arrow", "reason": "it has no arrow", "kinds": []} in aside
    counted = made.manifest["questions"]
    assert counted["kept"] == len(questions_of(made))
    assert counted["generated"] - counted["kept"] == sum(item["step"] == "balance" for item in aside)
    assert made.manifest["faults_sent_back"]["options"] > 20  # of 11 photos, three tries each


def test_after_the_last_try_the_sound_questions_stay_and_the_others_are_named(undisturbed):
    made, _ = undisturbed
    hopeless = [
        item
        for item in read_jsonl(made.path / "set_aside.jsonl")
        if item["step"] == "rules" and f"the options of {HOPELESS} must be exactly" in item["reason"]
    ]
    assert len({item["id"].rpartition(".reply")[0] for item in hopeless}) >= 8
    assert all("options" in item["kinds"] for item in hopeless)
    kept = {q["category"] for q in questions_of(made) if (q["dataset"], q["task"]) == ("fov", "g2s")}
    assert kept == {"facade", "symmetry"}


def test_what_is_known_blind_is_dropped_and_fixed_texts_are_not_asked(undisturbed):
    made, _ = undisturbed
    assert not any(LEAKY in q["question"] for q in questions_of(made))
    blind = [
        item["id"] for item in read_jsonl(made.path / "set_aside.jsonl") if item["step"] == "blind filter"
    ]
    assert blind
    fixed = ("roof", "symmetry", "ground_material", "vegetation", "vegetation_sector")
    assert not any(name.split(".")[-1].rstrip("0123456789") in fixed for name in blind)


def test_without_the_blind_filter_leaky_questions_stay(pairs, tmp_path):
    with Generator(flawed=False, trouble=0.0) as stub:
        made = open_run(tmp_path, pairs, stub, "generation.blind.times=0", "generation.balance=null")
        run(made)
    assert any(LEAKY in q["question"] for q in questions_of(made))
    assert made.manifest["questions"]["kept"] == made.manifest["questions"]["generated"]
    assert set(made.manifest["set_aside"]) == {"arrow"}


def test_the_distribution_of_letters_is_told_before_and_after(undisturbed):
    made, _ = undisturbed
    answers = json.loads((made.path / "answers.json").read_text())
    after = Counter((q["dataset"], q["task"], q["category"], q["answer"]) for q in questions_of(made))
    told = {
        (*where.split("/"), letter): n for where, by in answers["after"].items() for letter, n in by.items()
    }
    assert told == after
    for where, letters in answers["after"].items():
        assert all(n <= answers["before"][where][letter] for letter, n in letters.items())
        if len(letters) > 1:
            most = max(letters.values())
            assert most <= 1.5 * (sum(letters.values()) - most) / (len(letters) - 1)


def test_killed_at_any_moment_it_ends_as_if_undisturbed_and_pays_nothing_twice(pairs, tmp_path, undisturbed):
    whole, log = undisturbed
    moments = [3, len(log) // 2, len(log) - 10]
    with Generator(latency=0.01) as stub:
        made = open_run(tmp_path, pairs, stub)
        for moment in moments:
            process = start(made)
            while len(stub.log) < moment and process.poll() is None:
                time.sleep(0.001)
            assert process.poll() is None, "it ended before it could be killed"
            process.kill()
            process.wait()
            paid, asked = on_disk(made), len(stub.log)
            assert not (made.path / "release").exists()
            later = start(made) if moment == moments[-1] else None
            if later:
                assert later.wait() == 0
                assert not paid & {key for key, _ in stub.log[asked:]}
        assert len(paid) > 10
    assert outputs(made) == outputs(whole)


def start(made: RunDir) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "recipes", "generate", str(made.path)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT
    )


def on_disk(made: RunDir) -> set[str]:
    log = made.path / "replies/replies.jsonl"
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return {json.loads(line)["key"] for line in lines}


def test_a_run_cut_short_at_its_very_end_is_finished_without_a_request(pairs, tmp_path):
    with Generator(trouble=0.0) as stub:
        made = open_run(tmp_path, pairs, stub)
        run(made)
        before, asked = outputs(made), len(stub.log)
        (made.path / "manifest.json").unlink()
        (made.path / "release/fov/data/left_over.jpg").write_bytes(b"of another attempt")
        run(made)
        assert len(stub.log) == asked
    assert outputs(made) == before


def test_a_limit_on_requests_ends_the_run_and_raising_it_goes_on(pairs, tmp_path):
    with Generator(trouble=0.0) as stub:
        with pytest.raises(Stopped, match="max_requests=20 is reached"):
            run(open_run(tmp_path, pairs, stub, "teacher.max_requests=20"))
        assert len(stub.log) == 20
        run(open_run(tmp_path, pairs, stub))
        assert len({key for key, _ in stub.log}) == len(stub.log)


def test_an_endpoint_that_refuses_every_request_is_no_empty_release(pairs, tmp_path):
    with Generator(status=400) as stub:
        made = open_run(tmp_path, pairs, stub, "generation.subsets=[cvusa]", "generation.tasks=[g2s]")
        with pytest.raises(UserError, match=r"4 requests were never answered \(status 400"):
            run(made)
        assert not made.finished
        run(open_run(tmp_path, pairs, stub, "generation.subsets=[cvusa]", "generation.tasks=[g2s]",
                     "teacher.allow_unanswered=true"))  # fmt: skip
    assert made.manifest["set_aside"]["unanswered"] == 4


def test_viewpoints_alone_ask_nobody(pairs, tmp_path):
    made = open_run(tmp_path, pairs, None, "generation.tasks=[gs_view]", "generation.subsets=[fov]")
    run(made)
    rows = made.manifest["rows"]
    assert set(rows) == {
        f"fov/gs_view/{kind}_{split}.jsonl"
        for kind in ("arrow_select", "arrow_street")
        for split in ("train", "test")
    }
    assert sum(rows.values()) >= 16
    assert not (made.path / "replies").exists()


def test_grounding_has_a_row_for_every_box_and_direction(undisturbed):
    made, _ = undisturbed
    records = [
        record
        for name in made.manifest["files"]
        if "5level" in name
        for record in read_jsonl(made.path / "release" / name)
    ]
    assert len(records) == 2 * (4 + 3)
    described = [record for record in records if len(record["questions"]) == 2]
    assert len(described) > 8
    missing = {i["id"] for i in read_jsonl(made.path / "set_aside.jsonl") if "gs_grounding" in i["id"]}
    assert len(missing) == len(records) - len(described)


def test_pairs_that_lack_something_are_named(tmp_path):
    put_pairs(tmp_path, cvusa=2, fov=2)
    (tmp_path / "cvusa/data/streetview/0000001.jpg").unlink()
    (tmp_path / "cvusa/boxes.json").unlink()
    (tmp_path / "fov/data/satellite/0001.jpg").unlink()
    (tmp_path / "fov/data/street/0003_x").mkdir()
    boxes = {"0002_9": {"rs": [], "sv": []}, "0002_1": {"rs": [None], "sv": [None]}}
    write(tmp_path / "fov/boxes.json", boxes)
    scenes, aside = read_pairs(DataRoot(tmp_path), ["cvusa", "fov"])
    assert [scene.group for scene in scenes] == ["cvusa/0000002", "fov/0002"]
    reasons = {item.id: item.reason for item in aside}
    assert reasons["cvusa/0000001"] == "it has no panorama"
    assert reasons["fov/0001"] == "it has no satellite picture"
    assert "its name holds '_'" in reasons["fov/0003_x"]
    assert {"fov/0002_1", "fov/0002_9", "fov/0001_1"} <= set(reasons)
    assert [view.name for view in scenes[1].views] == ["1", "2", "3", "4"]


def test_a_broken_picture_costs_its_scene_alone(tmp_path):
    put_pairs(tmp_path / "pairs", cvusa=3, fov=1)
    (tmp_path / "pairs/cvusa/data/streetview/0000002.jpg").write_bytes(b"no picture")
    overrides = ("generation.subsets=[cvusa]", "generation.tasks=[g2s]")
    with Generator(trouble=0.0, flawed=False) as stub:
        made = open_run(tmp_path, tmp_path / "pairs", stub, *overrides)
        run(made)
    assert made.manifest["scenes"]["used"] == 2
    assert made.manifest["set_aside"]["picture"] == 1
    assert not (made.path / "release/cvusa/data/streetview/0000002.jpg").exists()


def test_the_command_shows_its_requests_in_a_dry_run(pairs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["recipe=imagination_cot", f"generation.pairs={pairs}", "teacher=vllm", "dry_run=true"]
    assert main(["generate", *words]) == 0
    out = capsys.readouterr().out
    assert "30 requests for questions and 14 for descriptions" in out
    assert all(f"## {name}, " in out for name in VARIANTS)
    assert "-m recipes generate runs/imagination_cot/generate-" in out
    assert "Nothing stands in the way." in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "generation.pairs is null"),
        (["generation.pairs=/nowhere"], "is no folder"),
        (["generation.pairs={pairs}"], "teacher=file is none: take teacher=openai"),
        (["generation.pairs={pairs}", "teacher=openai"], "teacher.base_url is not set"),
        (["generation.pairs={pairs}", "generation.tasks=[g2v]"], "did you mean g2s?"),
        (["generation.pairs={pairs}", "generation.balance=0.5"], "at least 1"),
        (["generation.pairs={pairs}", "generation.test_share=2"], "is no share"),
        (["generation.pairs={pairs}/cvusa"], "lacks cvusa/"),
        (
            ["generation.pairs={pairs}", "generation.prompts=/nowhere"],
            "generation.prompts=/nowhere is no folder",
        ),
    ],
)
def test_what_stands_in_the_way_is_said_before_the_start(words, said, pairs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = [word.format(pairs=pairs) for word in words]
    assert main(["generate", "recipe=imagination_cot", *words]) == 2
    assert said in capsys.readouterr().err
