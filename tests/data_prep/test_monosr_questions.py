"""Rules that every question keeps, whatever the scene; the answers themselves have an oracle of their own."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from monosr_scenes import random_scene

from data_prep.errors import UserError
from data_prep.monosr.generate import questions_of
from data_prep.monosr.options import FORMATS, TASKS, Options
from data_prep.monosr.questions.facts import Facts
from data_prep.monosr.questions.frames import DOWN, LEVEL
from data_prep.monosr.questions.numbers import rounded, wrong_numbers
from data_prep.monosr.references import References
from data_prep.monosr.scene import project
from data_prep.scoring import gold_fault
from data_prep.sets import placeholder_fault
from rewards.units import UNITS

DOMAINS = ("indoor", "outdoor", "object_centric")
SCENES = {domain: [random_scene(number, domain) for number in range(40)] for domain in DOMAINS}
ROWS = {
    domain: [(scene, row) for scene in scenes for row in questions_of(scene, Options(numeric_choice=True), 0)]
    for domain, scenes in SCENES.items()
}
ALL = [pair for rows in ROWS.values() for pair in rows]


def test_every_task_and_format_of_a_domain_is_asked():
    for domain in DOMAINS:
        asked = {(row.task, row.category) for _, row in ROWS[domain] if row.task != "situational"}
        assert asked == {(t, f) for t in TASKS[domain] for f in Options(numeric_choice=True).formats(t)}
        bases = {row.meta["base"] for _, row in ROWS[domain] if row.task == "situational"}
        assert bases == set(TASKS[domain])


def test_rows_are_sound():
    assert len({row.id for _, row in ALL}) == len(ALL)
    for scene, row in ALL:
        assert gold_fault(row) is None
        assert placeholder_fault(row) is None
        assert row.group == scene.id
        assert row.id.startswith(f"monosr/{scene.id}/{row.task}.")
        assert set(row.meta["objects"]) <= set(scene.ids)
        assert "{" not in row.question
        assert row.question[0].isupper()
        if row.options:
            assert len(set(row.options.values())) == len(row.options) == int(row.category[2])


def test_questions_depend_on_scene_and_seed_alone():
    scene = SCENES["indoor"][0]
    first = questions_of(scene, Options(), 0)
    questions_of(SCENES["indoor"][1], Options(), 0)
    assert first == questions_of(random_scene(0, "indoor"), Options(), 0)
    assert first != questions_of(scene, Options(), 1)


def test_leaving_a_task_out_leaves_the_others_as_they_are():
    scene = SCENES["indoor"][0]
    every = [row for row in questions_of(scene, Options(situational=0), 0) if row.task in ("dist", "pr")]
    assert every == questions_of(scene, Options(situational=0, tasks=("dist", "pr")), 0)


def test_units_vary_and_the_question_names_its_own():
    units = {domain: Counter(r.unit for _, r in rows if r.unit) for domain, rows in ROWS.items()}
    assert set(units["indoor"]) == {"m", "cm", "ft", "m2", "ft2"}
    assert set(units["outdoor"]) == {"m", "ft"}
    assert set(units["object_centric"]) == {"cm", "mm", "cm2"}
    words = {"m": "m|metres", "cm": "cm|centimetres", "mm": "mm|millimetres", "ft": "ft|feet"}
    words |= {"m2": "m2|square metres", "cm2": "cm2|square centimetres", "ft2": "ft2|square feet"}
    for _, row in ALL:
        if row.unit:
            assert re.search(rf"\b({words[row.unit]})\b", row.question), row.question


def test_a_number_is_the_geometry_to_three_digits():
    for scene, row in ALL:
        if row.meta.get("quantity") == "camera_distance" and row.category == "numeric":
            place = scene.ids.index(row.meta["objects"][0])
            metres = np.linalg.norm(scene.center[place])
            assert row.answer * UNITS[row.unit][1] == pytest.approx(metres, rel=0.005)
            assert row.answer == rounded(row.answer)


@pytest.mark.parametrize("tolerance", [0.05, 0.10])
def test_options_of_a_number_are_further_apart_than_the_tolerance(tolerance):
    rng = Facts(SCENES["indoor"][0], None, Options(), 0).rng("test")
    positions = Counter()
    for value in np.geomspace(0.05, 500, 300):
        numbers = [rounded(value), *wrong_numbers(rounded(value), tolerance, rng)]
        for one in numbers:
            for other in numbers:
                assert one is other or abs(one - other) > tolerance * max(one, other)
        positions[sorted(numbers).index(numbers[0])] += 1
    assert min(positions[place] for place in range(4)) > 50  # the answer is no fixed one by size


def test_a_relation_is_asked_of_objects_that_the_picture_shows_apart():
    for scene, row in ALL:
        if row.meta.get("base", row.task) == "sr":
            one, other = (project(scene.center[scene.ids.index(k)], scene.K) for k in row.meta["objects"])
            assert np.linalg.norm(one - other) >= 20


@pytest.mark.parametrize("pitch", [0.0, 0.3])
def test_a_camera_that_looks_down_does_not_lift_what_is_far(pitch):
    """Two low things on one floor; in the frame of the pitched camera the far one is above."""
    c, s = np.cos(pitch), np.sin(pitch)
    tilt = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    floor = np.array([[-0.3, 1.3, 2.0], [0.3, 1.3, 5.0]])
    scene = replace(
        random_scene(0, "indoor", count=2), categories=("box", "bag"), center=floor @ tilt.T,
        size=np.full((2, 3), 0.3), R=np.stack([tilt, tilt]),
    )  # fmt: skip
    facts = Facts(scene, None, Options(), 0)
    height = scene.corners[:, :, 1]
    assert (height[1].max() < height[0].min()) == (pitch > 0)
    assert facts.side(facts.camera, 1, 0, DOWN) is (None if pitch else LEVEL)
    asked = [row.meta["relation"] for row in questions_of(scene, Options(), 0) if row.task == "sr"]
    assert not {"above", "below"} & set(asked)


def test_names_do_not_tell_the_answer():
    """ "Is the leftmost chair to the left of the lamp?" needs no picture."""
    telling = {
        "left": "leftmost|rightmost|from the left",
        "front": "nearest to the camera|farthest from the camera",
    }
    telling |= {"right": telling["left"], "behind": telling["front"]}
    sizes = "largest|smallest|tallest"
    seen = Counter()
    for _, row in ALL:
        if row.task == "sr" and row.meta["relation"] in telling:
            assert not re.search(telling[row.meta["relation"]], row.question), row.question
        if row.task == "dim":
            assert not re.search(sizes, row.question)
        seen.update(
            word for word in (*sizes.split("|"), "leftmost", "nearest to the camera") if word in row.question
        )
    assert len(seen) == 5


def test_a_name_by_another_object_of_the_question_is_not_taken():
    for scene, row in ALL:
        nouns = {
            name.anchor for names in References(scene).names for name in names if name.text in row.question
        }
        if row.task in ("dist", "sr", "dim") and row.category != "mc4":
            assert not nouns & set(row.meta["objects"]) or len(set(row.meta["objects"])) < 2


@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_small_scenes_give_what_they_can(domain, count):
    scene = random_scene(3, domain, count=max(count, 1)).subset(np.arange(count))
    rows = questions_of(scene, Options(), 0)
    assert bool(rows) == (count > 0)
    least = {"sr": 2, "dim": 2, "pr": 3, "oj": 3, "og": 4}
    assert all(len(scene) >= least.get(row.meta.get("base", row.task), 1) for row in rows)


def test_the_options_of_a_relation_do_not_tell_its_axis():
    axes = {"Above": 1, "Below": 1, "To the left": 0, "To the right": 0, "In front": 2, "Behind": 2}
    right = Counter()
    for _, row in ALL:
        if row.meta.get("base", row.task) in ("sr", "pr") and row.category == "mc4":
            assert Counter(axes[text] for text in row.options.values()) == {0: 1, 1: 2, 2: 1}
            right[axes[row.options[row.answer]]] += 1
    assert min(right.values()) > 10


def test_what_is_filtered_out_is_not_asked_about_and_hides_others():
    for full in SCENES["indoor"][:20]:
        kept = full.subset(np.arange(len(full)) % 2 == 0)
        for row in questions_of(kept, Options(), 0, full):
            assert set(row.meta["objects"]) <= set(kept.ids)
            assert set((row.meta.get("boxes") or {}).values()) <= set(kept.ids)


@pytest.mark.filterwarnings("error")
def test_a_box_that_is_not_known_reaches_no_question():
    for full in SCENES["indoor"][:20]:
        lost = np.arange(len(full)) % 3 == 0
        broken = replace(
            full,
            center=np.where(lost[:, None], np.nan, full.center),
            size=np.where(lost[:, None], np.nan, full.size),
            R=np.where(lost[:, None, None], np.nan, full.R),
        )
        kept = broken.subset(~lost)
        unknown = {name for name, gone in zip(full.categories, lost, strict=True) if gone}
        for row in questions_of(kept, Options(), 0, broken):
            assert set(row.meta["objects"]) <= set(kept.ids)
            assert "nan" not in row.question + str(row.options)
            named = {full.categories[full.ids.index(name)] for name in row.meta["objects"]}
            assert not named & unknown  # one of its kind is somewhere in the picture


def test_chance_of_yes_is_a_half():
    said = Counter(
        row.answer for _, row in ALL if row.category == "yes_no" and row.meta.get("base", row.task) != "oj"
    )
    assert 0.45 < said["yes"] / said.total() < 0.55


def test_a_situation_has_a_scenario_and_a_person():
    rows = [row for _, row in ALL if row.task == "situational"]
    assert {row.meta["scenario"] for row in rows} == {"compliance", "planning", "safety", "navigation"}
    assert all(row.meta["level"] == "high" for row in rows)
    assert all(row.category in Options(numeric_choice=True).formats(row.meta["base"]) for row in rows)
    assert len({re.split(r" who | and asks", row.question)[0] for row in rows}) > 10


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tasks": ["sr", "srr"]}, "srr is no task"),
        ({"ratio": 0.9}, "questions.ratio=0.9"),
        ({"angle": 45.0}, "questions.angle=45"),
        ({"visible": 0.3}, "no room"),
        ({"gap_share": -0.1}, "no share"),
        ({"per_format": -1}, "negative"),
        ({"field_of_view": 180.0}, "field_of_view"),
        ({"gaps": 1}, "no option"),
        ({"numeric_choice": True, "tolerance": 0.2}, "no room for four numbers"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(UserError, match=re.escape(said)):
        Options.of(wrong)


def test_options_come_from_a_section():
    assert Options.of({"tasks": ["sr", "og"], "pixels": 30}) == Options(tasks=("sr", "og"), pixels=30)
    assert replace(Options(), numeric_choice=True).formats("dist") == ("numeric", "mc4")
    assert Options().formats("sr") == FORMATS["sr"]
