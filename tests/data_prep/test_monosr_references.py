"""A name fits one object of the picture, and is given only where nothing else comes close."""

import re
from dataclasses import replace

import numpy as np
import pytest
from monosr_scenes import random_scene

from data_prep.monosr.references import AmbiguousReferenceError, References, noun
from data_prep.monosr.scene import Scene

SCENES = [random_scene(number, domain) for number in range(60) for domain in ("indoor", "outdoor")]
FORM = re.compile(
    r"the (?:(?P<most>leftmost|rightmost|largest|smallest|tallest) |(?P<nth>second|third) )?(?P<noun>.+?)"
    r"(?: nearest to (?P<near>.+)| farthest (?P<far>from the camera)| (?P<left>from the left))?"
)


def reading(name: str, scene: Scene) -> list[int]:
    """The objects of a picture that a reader would take for what is named, best first."""
    match = FORM.fullmatch(name)
    assert match, name
    group = [i for i, category in enumerate(scene.categories) if noun(category) == match["noun"]]
    pixels = scene.center @ scene.K.T
    columns = pixels[:, 0] / pixels[:, 2]
    if match["left"]:
        row = sorted(group, key=lambda i: columns[i])
        first = {"second": 1, "third": 2}[match["nth"]]
        return [row[first], *row[:first], *row[first + 1 :]]
    if match["near"] or match["far"]:
        anchor = (match["near"] or "the camera").removeprefix("the ")
        places = [i for i, category in enumerate(scene.categories) if noun(category) == anchor]
        origin = scene.center[places[0]] if places else np.zeros(3)
        assert len(places) == (anchor != "camera")
        return sorted(
            group,
            key=lambda i: np.linalg.norm(scene.center[i] - origin) * (-1 if match["far"] else 1),
        )
    if match["most"] is None:
        return group
    size = scene.size.prod(axis=1)
    keys = {"leftmost": columns, "rightmost": -columns, "largest": -size, "smallest": size}
    return sorted(group, key=lambda i: keys.get(match["most"], -scene.size[:, 1])[i])


def test_every_name_is_read_as_its_object():
    kinds = set()
    for scene in SCENES:
        references = References(scene)
        references.check()
        for place, names in enumerate(references.names):
            for name in names:
                kinds.add(name.kind)
                found = reading(name.text, scene)
                assert found[0] == place, f"{scene.id}: {name.text}"
                assert name.kind != "only" or found == [place]
    assert kinds == {
        "only", "leftmost", "rightmost", "nearest", "farthest", "largest", "smallest", "tallest", "counted",
        "nearest to",
    }  # fmt: skip


def two(**second) -> Scene:
    """Two chairs; the second as the first but for `second`: center and size."""
    scene = random_scene(0, count=2)
    center = np.array([[-0.5, 0.8, 3.0], second.get("center", [-0.5, 0.8, 3.0])])
    size = np.array([[0.5, 0.9, 0.5], second.get("size", [0.5, 0.9, 0.5])])
    return replace(scene, categories=("chair", "chair"), center=center, size=size)


def texts(scene: Scene, full: Scene | None = None) -> list[set[str]]:
    return [{name.text for name in names} for names in References(scene, full).names]


def test_what_nothing_sets_apart_has_no_name():
    assert texts(two()) == [set(), set()]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"center": [-0.49, 0.8, 3.0]}, set()),  # 2 px to the right
        ({"center": [0.0, 0.8, 3.0]}, {"leftmost"}),
        ({"center": [-0.52, 0.8, 3.1]}, set()),
        ({"size": [0.5, 0.95, 0.5]}, set()),
        ({"size": [0.5, 1.2, 0.5]}, {"tallest"}),
        ({"size": [0.8, 0.9, 0.8]}, {"largest", "smallest"}),
    ],
)
def test_a_small_difference_is_none(second, words):
    scene = two(**second)
    found = " ".join(text for names in texts(scene) for text in names)
    assert {w for w in ("leftmost", "largest", "smallest", "tallest") if w in found} == words


def test_an_object_that_was_filtered_out_is_still_in_the_picture():
    full = two(center=[1.0, 0.8, 3.0])
    alone = full.subset(np.array([True, False]))
    assert texts(alone)[0] == {"the chair"}
    first, second = texts(alone, full)
    assert "the leftmost chair" in first
    assert "the chair" not in first
    assert second == set()


def test_a_twin_whose_place_is_unknown_leaves_no_name():
    full = two(center=[np.nan, np.nan, np.nan])
    assert texts(full.subset(np.array([True, False])), full) == [set(), set()]


def test_two_objects_of_one_caption_are_an_error():
    scene = two(center=[1.0, 0.8, 3.0])
    same = dict.fromkeys(scene.ids, "red chair")
    with pytest.raises(AmbiguousReferenceError, match=rf"'the red chair' fits .* {scene.ids[0]} and"):
        References(scene, captions=same).check()
    References(scene, captions={scene.ids[0]: "red chair"}).check()


def test_walls_are_not_named():
    scene = replace(two(center=[1.0, 0.8, 3.0]), categories=("wall", "floor"))
    assert texts(scene) == [set(), set()]
