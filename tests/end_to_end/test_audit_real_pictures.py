"""The audit of a miniature release of real CVUSA pairs, which the documentation shows."""

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from test_real_pictures import PAIRS, TASKS, write_release

from configs import TREE
from data_prep.atomic import read_jsonl
from recipes import audit
from recipes.stages import Stage, plan

PAGE = Path(__file__).parents[2] / "docs" / "cvsbench_sets.md"
pytestmark = pytest.mark.skipif(not PAIRS.is_dir(), reason=f"the sample pictures are not at {PAIRS}")


def audit_stage(folder: Path, tasks: tuple[str, ...]) -> Stage:
    write_release(folder / "release")
    options = [
        "recipe=imagination_cot", f"data.root={folder / 'release'}", f"data.tasks=[{','.join(tasks)}]",
        f"runs_dir={folder / 'runs'}",
    ]  # fmt: skip
    with initialize_config_dir(str(TREE), version_base=None):
        return plan(compose("config", options), "audit")


def test_a_miniature_release_is_sound_and_audited_as_documented(tmp_path, capsys):
    stage = audit_stage(tmp_path, TASKS)
    assert audit.run(stage.open()) == 0
    assert list(read_jsonl(stage.path / "findings.jsonl")) == []
    told = json.loads((stage.path / "audit.json").read_text())
    assert told["groups"] == {"train": 32, "test": 8}
    # CVUSA: a pair, with and without a red box; FOV: four photos, two satellites, two with a box, two joined.
    assert told["pictures"] == 5 * 4 * ((2 + 2) + (4 + 2 + 2 + 2))
    page = PAGE.read_text(encoding="utf-8")
    shown = capsys.readouterr().out.partition("\nrelease at ")[2].splitlines()[1:-1]
    assert "\n".join(shown).strip() in page


def test_a_test_scene_of_another_pair_put_into_training_is_found(tmp_path):
    """The pictures of training scene 1 in place of test scene 17's; the ids stay apart."""
    stage = audit_stage(tmp_path, ("g2s", "s2g"))
    root = tmp_path / "release"
    for folder, names in (("streetview", "{}.jpg"), ("bingmap", "input{}.png")):
        source, target = (root / "cvusa/data" / folder / names.format(f"{n:07d}") for n in (1, 17))
        target.write_bytes(source.read_bytes())
    assert audit.run(stage.open()) == 1
    found = list(read_jsonl(stage.path / "findings.jsonl"))
    assert [(f["check"], f["id"]) for f in found] == [("pictures_in_both", "cvusa/0000017")]
    assert "cvusa/0000001 shows the same" in found[0]["message"]
