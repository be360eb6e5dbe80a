"""The hidden view reaches neither SFT, nor RL, nor evaluation: compared by content over every task."""

import hashlib
import json
from pathlib import Path

import pytest
from pyarrow import parquet
from test_real_pictures import PAIRS, compose_config, write_release

from data_prep.atomic import read_jsonl, sha256_file
from data_prep.images import clean
from data_prep.prompts import build_messages, load_prompt
from data_prep.rows import Row
from recipes import prep as prep_stage
from recipes.decoding import Pictures
from recipes.run_dir import RunDir
from recipes.sft import example
from recipes.stages import plan

TASKS = "data.tasks=[g2s,s2g,gs_grounding,gs_view]"
VQA = {("cvusa", "g2s"), ("cvusa", "s2g"), ("fov", "g2s"), ("fov", "s2g")}
PAIRED = {("cvusa", "gs_grounding"), ("fov", "gs_grounding"), ("fov", "gs_view")}


def prepared(config) -> tuple[RunDir, Path]:
    run = plan(config, "prep").open()
    prep_stage.run(run)
    return run, Path(run.manifest["root"])


def synthetic(folder: Path) -> tuple[RunDir, Path]:
    from launch.compose import compose

    words = ["recipe=imagination_cot", "scale=tiny", f"runs_dir={folder}", TASKS, "data.categories=null"]
    words += ["data.synthetic.train_groups=32", "data.synthetic.test_groups=16"]
    return prepared(compose(words))


def real(folder: Path) -> tuple[RunDir, Path]:
    if not PAIRS.is_dir():
        pytest.skip(f"the sample pictures are not at {PAIRS}")
    reasoning = write_release(folder / "release")
    return prepared(compose_config(folder / "runs", folder / "release", reasoning))


@pytest.fixture(scope="module", params=[synthetic, real], ids=["synthetic", "real"])
def release(request, tmp_path_factory):
    """(prep, its rows by set, for each row the content of the pictures that it hides)."""
    run, root = request.param(tmp_path_factory.mktemp("release"))
    rows = {
        name: [Row.from_json(record) for record in read_jsonl(run.path / f"rows/{name}.jsonl")]
        for name in ("sft", "rl", "test")
    }
    return run, rows, root


def hidden(row: Row, root: Path) -> set[str]:
    """SHA-256 of what the release hides from the row, as it would stand in the store of clean pictures."""
    paths = [root / picture["path"] for picture in row.meta["hidden_images"]]
    return {hashlib.sha256(clean(path.read_bytes())[0]).hexdigest() for path in paths}


def test_every_task_is_in_every_set(release):
    _, rows, _ = release
    taught = {(row.subset, row.task) for row in rows["sft"]}
    assert VQA <= taught <= VQA | PAIRED  # the real pairs have reasoning for choice questions alone
    for name in ("rl", "test"):
        assert {(row.subset, row.task) for row in rows[name]} == VQA | PAIRED


def test_no_row_shows_what_it_hides(release):
    run, rows, root = release
    told = set()  # where the release says which picture is hidden, else nothing would be compared
    for row in (row for members in rows.values() for row in members):
        shown = {sha256_file(run.path / "images" / image.path) for image in row.images}
        assert shown == {image.sha256 for image in row.images}
        concealed = hidden(row, root)
        assert not shown & concealed, row.id
        told |= {(row.subset, row.task)} if concealed else set()
    assert told == VQA


def test_sft_rl_and_evaluation_open_the_rows_own_pictures_alone(release):
    run, rows, root = release
    prompt, images = load_prompt(run.config.prompt), run.path / "images"
    opened: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    for row in rows["sft"]:
        made = example(row, prompt, images)
        opened[row.id], words[row.id] = list(made.images), json.dumps(made.messages)
    for record in parquet.read_table(run.path / "rl.parquet").to_pylist():
        row_id = record["extra_info"]["id"]
        opened[row_id], words[row_id] = record["images"], json.dumps(record["prompt"])
    for row in rows["test"]:
        pictures = Recorder(images)
        assert len(pictures.of(row)) == len(row.images)
        opened[row.id], words[row.id] = pictures.paths, json.dumps(build_messages(row, prompt))
    by_id = {row.id: row for members in rows.values() for row in members}
    assert opened.keys() == by_id.keys()
    for row_id, row in by_id.items():
        contents = [sha256_file(Path(path)) for path in opened[row_id]]
        assert set(contents) == {image.sha256 for image in row.images}
        assert not set(contents) & hidden(row, root), row_id
        assert not any(picture["path"] in words[row_id] for picture in row.meta["hidden_images"])
        assert words[row_id].count('"image"') + words[row_id].count("<image>") == len(row.images)


class Recorder(Pictures):
    """Evaluation's pictures, with the files that were opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, blank=False)
        self.paths: list[str] = []

    def _decode(self, path):
        self.paths.append(str(self.folder / path))
        return super()._decode(path)
