"""Prep of MonoSR as a whole: what reaches a set, what never does, and that a stopped run ends the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omni3d import annotation, changed, image, put_file
from PIL import Image
from pyarrow import parquet

from configs import TREE
from data_prep.atomic import read_jsonl, sha256_file
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.monosr.filter import Thresholds
from data_prep.monosr.observed import observe_all
from data_prep.monosr.reader import Release, find_annotations
from data_prep.monosr.synthetic import write_release
from data_prep.prompts import load_prompt, prompt_text
from data_prep.rows import Row
from recipes import prep, prep_monosr
from recipes.audit import run as audit
from recipes.run_dir import RunDir
from recipes.stages import plan
from rewards import compute_score

SETS = ("sft", "rl", "test")
TINY = (
    "scale=tiny/monosr", "data.synthetic.train_pictures=42", "data.synthetic.test_pictures=18",
    "data.synthetic.side=160", "data.observability.min_area=100",
)  # fmt: skip


def open_run(runs: Path, *overrides: str, stage: str = "prep") -> RunDir:
    with initialize_config_dir(str(TREE), version_base=None):
        config = compose("config", ["recipe=monosr", f"runs_dir={runs}", *overrides])
    return plan(config, stage).open()


def take_release(run: RunDir, other: RunDir) -> RunDir:
    """The run with the other's synthetic release, which it would draw alike."""
    shutil.copytree(other.path / "release", run.path / "release")
    return run


def rows(run: RunDir) -> dict[str, list[Row]]:
    return {name: [Row.from_json(r) for r in read_jsonl(run.path / f"rows/{name}.jsonl")] for name in SETS}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> RunDir:
    run = open_run(tmp_path_factory.mktemp("runs"), *TINY)
    prep.run(run)
    return run


def test_a_synthetic_release_goes_through(made):
    found, manifest = rows(made), made.manifest
    assert len(found["sft"]) > 60
    assert found["rl"] == []
    assert len(found["test"]) > 10
    assert manifest["quarantined"] == {"rows": 0}
    assert manifest["group_overlaps"] == {"sft-rl": 0, "sft-test": 0, "rl-test": 0}
    assert {name: len(part) for name, part in found.items()} == {
        name: manifest["sets"][name]["rows"] for name in SETS
    }
    assert manifest["files"] == {name: sha256_file(made.path / name) for name in manifest["files"]}
    assert len(manifest["sources"]) == 12
    assert manifest["balance"]["train"]["rows"] == len(found["sft"])
    assert {row.subset for row in found["sft"]} == {"indoor", "outdoor", "object_centric"}
    prompt = load_prompt(made.config.prompt, aux="none")
    for row in (row for part in found.values() for row in part):
        (shown,) = row.images
        assert sha256_file(made.path / "images" / shown.path) == shown.sha256
        assert row.question in prompt_text(row, prompt)
    assert not {name for name in prep_monosr.UNFINISHED if (made.path / name).exists()}


def test_what_sft_teaches_earns_the_full_reward(made):
    found = rows(made)
    for row in found["sft"]:
        gold = row.answer if isinstance(row.answer, str) else json.dumps(row.answer)
        about = {"answer_type": row.answer_type, "options": row.options, "unit": row.unit}
        assert row.reasoning is not None
        assert compute_score("monosr", row.reasoning, gold, about)["accuracy"] == 1.0
    assert all(row.reasoning is None for row in found["test"])


def test_the_report_counts_both_sides(made):
    summary = json.loads((made.path / "observability.json").read_text())
    assert summary["all"]["pictures"] == 60
    assert summary["all"]["pictures_left"] >= len({row.group for part in rows(made).values() for row in part})
    assert summary["thresholds"]["max_truncation"] == 0.4
    page = (made.path / "observability.md").read_text()
    named = [line.partition("](")[2].rstrip(")") for line in page.splitlines() if line.startswith("![")]
    assert len(named) > 4
    assert all((made.path / name).is_file() for name in named)


def test_questions_about_rare_categories_are_marked(made):
    tail = made.manifest["long_tail"]
    counts = json.loads((made.path / "manifest.json").read_text())["long_tail"].values()
    assert list(counts) == sorted(counts)
    found = rows(made)
    named: dict[bool, set[str]] = {True: set(), False: set()}
    for row in (row for part in found.values() for row in part):
        assert row.meta.get("long_tail", True) is True
        words = " ".join(row.meta["names"])
        named["long_tail" in row.meta].update(name for name in tail if name in words)
    assert named[True]
    assert not named[False]


def snapshot(run: RunDir) -> dict[str, object]:
    files = {str(p.relative_to(run.path)): p.read_bytes() for p in sorted(run.path.rglob("*")) if p.is_file()}
    manifest = json.loads(files.pop("manifest.json"))
    roots = {key: manifest.pop(key) for key in ("finished", "root")}
    assert len(roots) == 2
    for name in ("config.yaml", "inputs.json"):  # they hold the folder of the runs
        files.pop(name)
    return {**files, "manifest": manifest}


def test_a_run_that_is_stopped_and_taken_up_ends_the_same(made, tmp_path, monkeypatch):
    run = take_release(open_run(tmp_path, *TINY), made)
    stops = iter([("_ask", 1), ("clean_pictures", 0), ("write_rl_parquet", 0)])
    for name, after in stops:
        whole = getattr(prep_monosr, name)
        calls = iter([False] * after + [True] * 9)

        def stopping(*args, whole=whole, calls=calls, **kwargs):
            if next(calls):
                raise KeyboardInterrupt
            return whole(*args, **kwargs)

        monkeypatch.setattr(prep_monosr, name, stopping)
        with pytest.raises(KeyboardInterrupt):
            prep.run(run)
        assert not run.finished
        monkeypatch.undo()
    prep.run(run)
    assert snapshot(run) == snapshot(made)


def test_half_of_the_scenes_for_grpo(tmp_path, made):
    run = take_release(open_run(tmp_path, *TINY, "data.rl_half=true"), made)
    prep.run(run)
    found = rows(run)
    groups = {name: {row.group for row in part} for name, part in found.items()}
    assert min(len(groups["sft"]), len(groups["rl"])) > 8
    assert not groups["sft"] & groups["rl"]
    written = parquet.read_table(run.path / "rl.parquet").to_pylist()
    assert [record["extra_info"]["id"] for record in written] == [row.id for row in found["rl"]]
    for record in written:
        text = f"<answer>{record['reward_model']['ground_truth']}</answer>"
        gold = record["reward_model"]["ground_truth"]
        assert compute_score(record["data_source"], text, gold, record["extra_info"])["accuracy"] == 1.0


def test_auxiliary_information_is_told_and_shown(tmp_path, made):
    run = take_release(open_run(tmp_path, *TINY, "data.aux=vp2d_bbox3d"), made)
    assert run.path.name != made.path.name
    prep.run(run)
    plain, told = rows(made), rows(run)
    for name in SETS:
        assert [row.id for row in plain[name]] == [row.id for row in told[name]]
    for row in told["sft"]:
        assert row.meta["aux"]["objects"] == list(
            dict.fromkeys([*row.meta["objects"], *(row.meta["viewpoint"] or ())])
        )
        assert row.images[0].role == "numbered"
        assert (run.path / "images" / row.images[0].path).is_file()


def room(number: int, first: int) -> list[dict]:
    """Three chairs, a table and a car of one picture, which stand apart."""
    places = [(-1.5, 0.0, 4.0), (0.0, 0.3, 6.0), (1.6, -0.2, 8.0), (-0.6, -0.9, 5.0), (1.0, 0.6, 4.5)]
    kinds = (3, 3, 3, 5, 9)
    sizes = ((0.5, 0.9, 0.6), (0.7, 1.4, 0.9), (1.0, 2.0, 1.3), (0.6, 0.6, 0.8), (0.3, 0.4, 0.5))
    return [
        annotation(first + i, number, place, size, category_id=kind)
        for i, (place, size, kind) in enumerate(zip(places, sizes, kinds, strict=True))
    ]


@pytest.fixture
def faulty(tmp_path):
    """A release whose training side has one of every fault; of 20 sound scenes a picture is scaled."""
    root = tmp_path / "omni3d"
    sound = [(image(n), room(n, 10 * n)) for n in range(1, 21)]
    bad_room = [
        changed(one, change)
        for one, change in zip(
            room(30, 300),
            ({"center_cam": [float("nan")] * 3}, {"dimensions": [-1, 1, 1]}, {"R_cam": [[2, 0, 0]] * 3},
             {"category_id": 99}, {"id": 10}),
            strict=True,
        )
    ]  # fmt: skip
    images = [one for one, _ in sound] + [
        image(30), changed(image(31), {"K": None}), image(32), image(33), image(33),
        image(34, file_path="pictures/absent.png"),
    ]  # fmt: skip
    annotations = [a for _, own in sound for a in own] + bad_room
    annotations += [a for n in (31, 32, 33, 34) for a in room(n, 10 * n)] + room(77, 770)
    put_file(root, images, annotations)
    (root / "pictures/absent.png").unlink()
    (root / "pictures/32.png").write_bytes(b"\x89PNG cut short")
    Image.new("RGB", (480, 640)).save(root / "pictures/19.png")
    Image.new("RGB", (320, 240)).save(root / "pictures/20.png")
    broken = put_file(root, [image(1)], room(1, 10), "Hypersim_train")
    broken.write_bytes(broken.read_bytes()[:-100])
    for name in ("SUNRGBD_test", "Hypersim_test"):
        put_file(
            root,
            [image(n) for n in range(101, 111)],
            [a for n in range(101, 111) for a in room(n, 10 * n)],
            name,
        )
    return root


def options(root: Path) -> tuple[str, ...]:
    return (f"data.root={root}", "data.sources=[SUNRGBD,Hypersim]", "data.train_splits=[train]")


def test_bad_annotations_are_listed_and_never_asked_about(faulty, tmp_path):
    run = open_run(tmp_path / "runs", *options(faulty))
    prep.run(run)
    listed = {
        record["id"].removeprefix("monosr/"): record for record in read_jsonl(run.path / "quarantine.jsonl")
    }
    expected = {
        "SUNRGBD_train/annotation 300": "not finite",
        "SUNRGBD_train/annotation 301": "a dimension is zero or negative",
        "SUNRGBD_train/annotation 302": "R_cam is no rotation",
        "SUNRGBD_train/annotation 303": "no category (99)",
        "SUNRGBD_train/annotation 10": "used twice",
        "SUNRGBD_train/annotation 770": "no image (77)",
        "SUNRGBD_train/image 31": "K is missing",
        "SUNRGBD_train/image 33": "used twice",
        "SUNRGBD/34": "no picture",
        "Hypersim_train/file": "cut short",
    }
    for name, reason in expected.items():
        assert reason in listed[name]["reason"], name
        assert listed[name]["file"].startswith("Omni3D/")
    unreadable = [record for name, record in listed.items() if name.startswith("SUNRGBD/32/")]
    assert unreadable
    assert all(
        record["kind"] == "picture" and "pictures/32.png: " in record["reason"] for record in unreadable
    )
    turned = [record for name, record in listed.items() if name.startswith("SUNRGBD/19/")]
    assert turned
    assert all("480 x 640 pixels, its annotations speak of 640 x 480" in r["reason"] for r in turned)
    found = rows(run)
    groups = {row.group for row in found["sft"]}
    assert groups <= {f"SUNRGBD/{n}" for n in range(1, 21)}
    assert "SUNRGBD/20" in groups
    assert {row.group.partition("/")[0] for row in found["test"]} == {"SUNRGBD", "Hypersim"}
    text = "".join((run.path / f"rows/{name}.jsonl").read_text() for name in SETS)
    assert "NaN" not in text
    pictures = 1 + len(unreadable) + len(turned)
    assert run.manifest["quarantined"] == {"rows": 14 + pictures, "annotation": 14, "picture": pictures}
    broken = {source["path"]: source["broken"] for source in run.manifest["sources"]}
    assert "cut short" in broken.pop("Omni3D/Hypersim_train.json")
    assert set(broken.values()) == {None}


def test_check_audits_the_annotations_alone(faulty, tmp_path, capsys):
    run = open_run(tmp_path / "runs", *options(faulty), stage="audit")
    assert audit(run) == 1
    told = capsys.readouterr().out
    assert "| pictures | " in told
    assert "as annotations, images or files that cannot be used" in told
    assert len(list(read_jsonl(run.path / "findings.jsonl"))) == 15
    assert not (run.path / "rows").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.sources=[KITTI]"], r"has no KITTI_train\.json"),
        (["data.observability.min_objects=30"], r"No question is left for the sft set: .*observability\.md"),
        (["data.root=/nowhere/at/all"], "is not a folder"),
        (["data.observability.max_occlusion=1.2"], "is no share from 0 to 1"),
        (["data.questions.angle=50"], "questions.angle=50"),
    ],
)
def test_mistakes_get_one_sentence(faulty, tmp_path, overrides, message):
    run = open_run(tmp_path / "runs", *options(faulty), *overrides)
    with pytest.raises(UserError, match=message):
        prep.run(run)
    assert not run.finished


def test_judging_depends_on_no_number_of_processes(tmp_path):
    write_release(tmp_path / "release", 3, {"train": 60}, draw=False)
    root = DataRoot(tmp_path / "release")
    files = find_annotations(root, ["SUNRGBD", "KITTI", "Objectron"], ["train"])
    release = Release(root, files, tmp_path / "index", pictures=False)
    found, tallies = [], []
    for workers, chunk in ((1, 1000), (2, 7)):
        observed, tally = observe_all(release, Thresholds(), tmp_path / str(workers), workers, chunk)
        found.append([(s.id, s.ids, len(full)) for s, full in observed(0, len(release))])
        tallies.append((tally.counts, {r: [j.full.id for j in own] for r, own in tally.shown()}))
        part = [(s.id, s.ids, len(full)) for s, full in observed(5, 12)]
        assert part == [one for one in found[-1] if one in part]
        assert 0 < len(part) <= 7
    assert found[0] == found[1]
    assert tallies[0] == tallies[1]
    assert np.load(tmp_path / "1/reasons.npy").min() == -1
