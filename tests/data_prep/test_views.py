"""Auxiliary views in prep: which file belongs to which row, what is left out, and what stays."""

import json
from pathlib import Path

import numpy as np
import pytest
from miniature import put_picture
from omegaconf import OmegaConf
from PIL import Image
from prep_runs import compose_config, open_prep
from view_releases import of_release, prepare, rows

from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.errors import UserError
from data_prep.prompts import HINTS, load_prompt, prompt_text
from data_prep.views.layouts import ViewFiles, is_symmetry
from data_prep.views.settings import deciding
from data_prep.views.stitch import side_by_side
from recipes.stages import plan

# Kind -> layout -> what a FOV scene has there: of photo 1, of all photos, of the satellite picture.
LAYOUTS = {
    "miniature": {
        "nanobanana": (
            "fov/nanobanana/train_street/{s}/gen_1.jpg",
            "fov/nanobanana/results_multiview_final/{s}.jpg",
            "fov/nanobanana/gallery_satellite/{s}/gen_{s}.jpg",
        ),
        "another name in the gallery": (
            "fov/nanobanana/train_street/{s}/gen_1.jpg",
            "fov/nanobanana/results_multiview_final/{s}.jpg",
            "fov/nanobanana/gallery_satellite/{s}/picture.jpg",
        ),
        "zimage": (
            "single_gen/street/{s}/gen_1.webp",
            "multiview_gen/{s}.png",
            "single_gen/satellite/{s}/gen_{s}.jpeg",
        ),
        "ours": (
            "miniature/fov/street/{s}/1.png",
            "miniature/fov/street/{s}.png",
            "miniature/fov/satellite/{s}.png",
        ),
    },
    "depth": {
        "scripts": ("{s}/gen_1.png", None, "{s}/gen_{s}.png"),
        "scripts, plain names": ("{s}/1.png", None, "{s}.png"),
        "ours": ("depth/fov/street/{s}/1.png", None, "depth/fov/satellite/{s}.png"),
    },
    "map": {"ours": ("map/fov/street/{s}/1.png", "map/fov/street/{s}.png", "map/fov/satellite/{s}.png")},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "layout"), [(k, name) for k, own in LAYOUTS.items() for name in own])
def test_every_layout_is_found_and_no_row_gets_another_rows_view(view_release, tmp_path, kind, layout):
    single, several, satellite = LAYOUTS[kind][layout]
    expected = {}
    for number, row in enumerate(r for r in of_release(view_release) if r.subset == "fov"):
        scene = row.group.split("/")[1]
        if is_symmetry(row) and several is None:
            names = [single.replace("1.", f"{v}.") for v in (1, 2, 3, 4)]
        else:
            names = [several if is_symmetry(row) else single if row.task == "g2s" else satellite]
        expected[row.id] = [tmp_path / name.format(s=scene) for name in names]
        for path in expected[row.id]:
            put_picture(path, seed=number)
    found = ViewFiles([tmp_path], kind)
    for row in of_release(view_release):
        got = found.find(row)
        assert got == ([p.resolve() for p in expected[row.id]] if row.id in expected else None), row.id


def test_a_list_of_rows_may_name_any_file_and_a_wrong_line_is_told(view_release, tmp_path):
    some = [row.id for row in of_release(view_release)][:3]
    put_picture(tmp_path / "x.png")
    write_jsonl(tmp_path / "views.jsonl", [{"id": row_id, "image": "x.png"} for row_id in some])
    found = ViewFiles([tmp_path], "map")
    assert [row.id for row in of_release(view_release) if found.find(row)] == some
    write_jsonl(tmp_path / "views.jsonl", [{"id": some[0], "image": "gone.png"}])
    row = next(row for row in of_release(view_release) if row.id == some[0])
    with pytest.raises(UserError, match=r"names gone\.png for .*, which is not there"):
        ViewFiles([tmp_path], "map").find(row)
    (tmp_path / "views.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(UserError, match="line 1 is not"):
        ViewFiles([tmp_path], "map")


def test_pictures_side_by_side_have_the_smallest_height_and_keep_their_order():
    strip = np.asarray(side_by_side([Image.new("RGB", (10, 20), "red"), Image.new("RGB", (6, 10), "blue")]))
    assert strip.shape == (10, 5 + 6, 3)
    assert (strip[:, :5] == (255, 0, 0)).all()
    assert (strip[:, 5:] == (0, 0, 255)).all()


def put_miniatures(view_release: Path, views: Path, but: tuple[str, ...] = ()) -> None:
    """A miniature for every row of FOV and CVUSA except those ids."""
    lines = []
    for number, row in enumerate(of_release(view_release)):
        if row.id not in but:
            put_picture(views / f"{number}.png", (32, 32), number)
            lines.append({"id": row.id, "image": f"{number}.png"})
    write_jsonl(views / "views.jsonl", lines)


def test_rows_get_the_view_after_what_they_showed_and_a_hint(view_release, tmp_path):
    put_miniatures(view_release, tmp_path / "views")
    run = prepare(
        tmp_path / "runs", view_release, "data.views=miniature", f"data.views_root={tmp_path}/views"
    )
    plain = rows(prepare(tmp_path / "runs", view_release))
    given = {
        line["id"]: tmp_path / "views" / line["image"] for line in read_jsonl(tmp_path / "views/views.jsonl")
    }
    prompt = load_prompt(run.config.prompt, "miniature")
    assert rows(run).keys() == plain.keys()
    for row_id, row in rows(run).items():
        first, view = row.images
        assert view.role == "miniature"
        stored = np.asarray(Image.open(run.path / "images" / view.path))
        assert (stored == np.asarray(Image.open(given[row_id]))).all()
        assert (view.width, view.height) == (32, 32)
        text = prompt_text(row, prompt)
        assert text.count(HINTS["miniature"]) == 1
        assert HINTS["miniature"] not in prompt_text(plain[row_id], prompt)
        if is_symmetry(row):
            assert len(plain[row_id].images) == 5
            assert first.role == "strip"
            assert first.height == 17  # the lowest of photos 1 to 4; 0.jpg and 5.jpg are not among them
            parts = [Image.open(run.path / "images" / i.path) for i in plain[row_id].images[:4]]
            near = np.asarray(Image.open(run.path / "images" / first.path)).astype(int)
            assert np.abs(near - np.asarray(side_by_side(parts)).astype(int)).mean() < 3
        else:
            assert first == plain[row_id].images[0]
        assert {**vars(row), "images": ()} == {**vars(plain[row_id]), "images": ()}
    assert run.manifest["prompt"]["hash"] == prompt.hash != load_prompt(run.config.prompt).hash


def test_rows_without_a_view_are_listed_counted_and_left_out_of_every_variant(view_release, tmp_path):
    ids = [row.id for row in of_release(view_release)]
    gone = (ids[0], ids[-1])
    put_miniatures(view_release, tmp_path / "views", but=gone)
    options = ("data.views=miniature", f"data.views_root={tmp_path}/views")
    run = prepare(tmp_path / "runs", view_release, *options)
    missing = list(read_jsonl(run.path / "missing_views.jsonl"))
    assert {m["id"] for m in missing} == set(gone)
    assert {"subset", "task", "category", "reason"} <= missing[0].keys()
    assert run.manifest["views"]["missing"] == run.manifest["quarantined"]["view"] == 2
    assert run.manifest["views"]["from_files"] == len(ids) - 2
    assert not {*gone} & rows(run).keys()

    # Depth lacks another row; what both have is what every variant is given.
    lines = [{"id": i, "image": f"{n}.png"} for n, i in enumerate(ids) if i not in (gone[0], ids[3])]
    (tmp_path / "depth").mkdir()
    for line in lines:
        put_picture(tmp_path / "depth" / line["image"], (16, 16))
    write_jsonl(tmp_path / "depth/views.jsonl", lines)
    deep = ("data.views=depth", f"data.views_root={tmp_path}/depth", "data.views_depth.model=null")
    other = prepare(tmp_path / "runs", view_release, *deep)
    common = f"data.only_rows=[{run.path}/comparable.txt,{other.path}/comparable.txt]"
    expected = set(ids) - {*gone, ids[3]}
    for variant in ((), options, deep):
        assert rows(prepare(tmp_path / "runs", view_release, common, *variant)).keys() == expected


def test_a_row_that_lacks_its_photos_depth_is_missing(view_release, tmp_path):
    row = next(row for row in of_release(view_release) if is_symmetry(row))
    scene = row.group.split("/")[1]
    for view in (1, 2, 4):
        put_picture(tmp_path / f"views/{scene}/{view}.png")
    options = ("data.views=depth", f"data.views_root={tmp_path}/views", "data.views_depth.model=null")
    with pytest.raises(UserError, match="No question is left"):
        prepare(tmp_path / "runs", view_release, *options)
    run = open_prep(
        tmp_path / "runs",
        f"data.root={view_release}",
        f"teacher.path={view_release}/reasoning.jsonl",
        *options,
    )
    missing = {m["id"]: m["reason"] for m in read_jsonl(run.path / "missing_views.jsonl")}
    assert missing[row.id] == "no file supplies its depth"


def test_rows_that_no_set_holds_need_no_view(view_release, tmp_path):
    """They are set aside for their own fault, and nothing is paid for them."""
    lines = list(read_jsonl(view_release / "reasoning.jsonl"))
    write_jsonl(tmp_path / "reasoning.jsonl", lines[5:])
    put_miniatures(view_release, tmp_path / "views", but=tuple(line["id"] for line in lines[:5]))
    options = ("data.views=miniature", f"data.views_root={tmp_path}/views")
    run = prepare(tmp_path / "runs", view_release, *options, f"teacher.path={tmp_path}/reasoning.jsonl")
    aside = {line["id"]: line["kind"] for line in read_jsonl(run.path / "quarantine.jsonl")}
    missing = {line["id"] for line in read_jsonl(run.path / "missing_views.jsonl")}
    assert aside == {line["id"]: "view" if line["id"] in missing else "reasoning" for line in lines[:5]}
    wanted = run.manifest["views"]["rows"]
    assert wanted == len(of_release(view_release)) - sum(kind == "reasoning" for kind in aside.values())


def test_a_broken_view_file_is_a_missing_view(view_release, tmp_path):
    put_miniatures(view_release, tmp_path / "views")
    (tmp_path / "views/2.png").write_bytes(b"no picture")
    run = prepare(
        tmp_path / "runs", view_release, "data.views=miniature", f"data.views_root={tmp_path}/views"
    )
    (missing,) = read_jsonl(run.path / "missing_views.jsonl")
    assert missing["id"] == of_release(view_release)[2].id
    assert "2.png: no picture" in missing["reason"]


def test_only_rows_refuses_files_that_name_no_row(view_release, tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.jsonl").write_text(json.dumps({"id": "two"}) + "\n")
    with pytest.raises(UserError, match="no row id is in all of these"):
        prepare(tmp_path / "runs", view_release, f"data.only_rows=[{tmp_path}/a.txt,{tmp_path}/b.jsonl]")
    (tmp_path / "c.jsonl").write_text('{"row": 1}\n')
    with pytest.raises(UserError, match="line 1 has no id"):
        prepare(tmp_path / "runs", view_release, f"data.only_rows={tmp_path}/c.jsonl")


def test_without_views_a_run_keeps_the_directory_that_it_had_before_there_were_any(tmp_path):
    config = compose_config("data.root=/data", "teacher.path=/t", f"runs_dir={tmp_path}")
    before = plan(config, "prep")
    stripped = OmegaConf.to_container(config.data, resolve=True)
    old = {k: v for k, v in stripped.items() if not k.startswith("views") and k != "only_rows"}
    assert deciding(stripped) == old == deciding(old)
    run = before.open()
    (run.path / "config.yaml").write_text(OmegaConf.to_yaml({**before.config, "data": old}))
    before.check()  # a directory whose configuration knows no views is taken up
    for idle in ("data.views_depth.model=x", "data.views_miniature.model=x", "data.views_root=/x"):
        other = compose_config("data.root=/data", "teacher.path=/t", f"runs_dir={tmp_path}", idle)
        assert plan(other, "prep").hash == before.hash, idle


@pytest.mark.parametrize(
    ("option", "same"),
    [
        ("data.views_miniature.model=other", True),
        ("data.views_depth.micro_batch_size=3", True),
        ("data.views_depth.cache=/x", True),
        ("data.views_depth.model=other", False),
        ("data.views_root=/x", False),
        ("data.views=miniature", False),
        ("data.only_rows=/x", False),
    ],
)
def test_what_decides_the_views_names_the_directory(option, same):
    fixed = ("data.root=/data", "teacher.path=/t", "data.views=depth")
    kept = plan(compose_config(*fixed, option), "prep").hash == plan(compose_config(*fixed), "prep").hash
    assert kept == same
