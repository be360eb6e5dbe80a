"""Depth maps: the real loading code on a tiny Depth Anything, what is cached, and how a map is normalised."""

import numpy as np
import pytest
from depth_models import save_depth_model
from omegaconf import OmegaConf
from PIL import Image
from view_releases import of_release, prepare, rows

from data_prep.errors import UserError
from data_prep.views.depth import DepthMaps, eight_bits
from data_prep.views.layouts import is_symmetry
from data_prep.views.stitch import side_by_side


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_depth_model(tmp_path_factory.mktemp("model"))


def settings(model, size=4):
    return OmegaConf.create({"model": str(model), "device": "cpu", "micro_batch_size": size})


def test_near_is_bright_whatever_the_model_measures():
    nearness = np.array([[1.0, 2.0], [3.0, 5.0]])
    assert eight_bits(nearness, metric=False).tolist() == [[0, 64], [128, 255]]
    metres = eight_bits(np.array([[80.0, 4.0], [2.0, 1.0]]), metric=True)
    assert metres[0, 0] == 0
    assert metres[1, 1] == 255
    assert (np.diff(metres.ravel().astype(int)) > 0).all()
    assert (eight_bits(np.full((2, 3), 7.0), metric=False) == 0).all()
    with pytest.raises(ValueError, match="not finite"):
        eight_bits(np.array([[1.0, np.nan]]), metric=False)


def noise(folder, count):
    found = {}
    for number in range(count):
        size = (40, 30, 3) if number % 2 else (24, 48, 3)
        pixels = np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)
        found[f"{number:064d}"] = folder / f"{number}.png"
        Image.fromarray(pixels).save(found[f"{number:064d}"])
    return found


def test_maps_have_their_pictures_size_do_not_depend_on_the_batch_and_are_made_once(model, tmp_path):
    pictures = noise(tmp_path, 5)
    seen = []
    made = DepthMaps(settings(model), tmp_path / "cache").make(pictures, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 5
    values = {}
    for sha, path in made.items():
        with Image.open(path) as found, Image.open(pictures[sha]) as picture:
            assert (found.mode, found.size) == ("L", picture.size)
            values[sha] = np.asarray(found).astype(int)
        assert (values[sha].min(), values[sha].max()) == (0, 255)
    alone = DepthMaps(settings(model, size=1), tmp_path / "other").make(pictures, seen.append)
    for sha, path in alone.items():
        assert np.abs(np.asarray(Image.open(path)).astype(int) - values[sha]).max() <= 1
    times = {path: path.stat().st_mtime_ns for path in made.values()}
    lost = next(iter(made.values()))
    lost.unlink()
    DepthMaps(settings(model), tmp_path / "cache").make(pictures, seen.append)
    changed = {path for path, before in times.items() if path.stat().st_mtime_ns != before}
    assert changed == {lost}


def test_another_model_makes_other_maps(model, tmp_path):
    metric = save_depth_model(tmp_path / "metric", seed=1, kind="metric")
    (picture,) = noise(tmp_path, 1).items()
    maps = [DepthMaps(settings(m), tmp_path / "cache") for m in (model, metric)]
    assert maps[0].path(picture[0]) != maps[1].path(picture[0])
    first, second = (next(iter(m.make(dict([picture]), lambda _: None).values())) for m in maps)
    assert first.read_bytes() != second.read_bytes()


def test_a_model_that_is_none_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"data\.views_depth\.model=.* cannot be loaded"):
        DepthMaps(settings(tmp_path), tmp_path / "cache").make(noise(tmp_path, 1), lambda _: None)


def test_prep_makes_what_no_file_supplies_and_stitches_symmetry(view_release, model, tmp_path):
    cache = tmp_path / "cache"
    options = ("data.views=depth", f"data.views_depth.model={model}", f"data.views_depth.cache={cache}")
    run = prepare(tmp_path / "runs", view_release, *options, "data.views_depth.device=cpu")
    found = rows(run)
    assert found.keys() == {row.id for row in of_release(view_release)}
    assert run.manifest["views"]["missing"] == run.manifest["views"]["from_files"] == 0
    maps = DepthMaps(settings(model), cache)
    strips = 0
    for row in found.values():
        picture, depth = row.images
        assert depth.role == "depth"
        assert (depth.width, depth.height) == (picture.width, picture.height)
        stored = np.asarray(Image.open(run.path / "images" / depth.path))
        if not is_symmetry(row):
            assert (stored == np.asarray(Image.open(maps.path(picture.sha256)).convert("RGB"))).all()
            continue
        strips += 1
        shown = rows(prepare(tmp_path / "runs", view_release))[row.id].images[:4]
        parts = [Image.open(maps.path(image.sha256)) for image in shown]
        assert (stored == np.asarray(side_by_side(parts))).all()
    assert strips == 11
    again = prepare(tmp_path / "again", view_release, *options, "data.views_depth.device=cpu")
    assert [r.images for r in rows(again).values()] == [r.images for r in found.values()]
