"""The rules of question generation: the paper's categories; for every rule a text that keeps or breaks it."""

import json

import pytest

from data_prep.cvsbench import categories
from data_prep.errors import UserError
from data_prep.generation.grounding import judge_description
from data_prep.generation.prompts import (
    instruction,
    load_instructions,
    reply_schema,
    request_text,
    retry_text,
)
from data_prep.generation.templates import G2S_CVUSA, G2S_FOV, S2G_CVUSA, S2G_FOV, VARIANTS
from data_prep.generation.validate import judge

# CVSBench 0.A.2: categories, options and numbers of questions of the four prompts.
PAPER = {
    "g2s_fov": (
        3, 3, {
            "facade": "Visible in Satellite|Not visible in Satellite",
            "roof": "Flat roof|Pitched / sloped roof|Mixed roof (flat + pitched sections)"
            "|Multiple separate roof blocks with different forms",
            "symmetry": "Symmetric|Not symmetric",
        },
    ),
    "g2s_cvusa": (
        3, 3, {
            "distance_to_camera": "Building A|Building B|They are about the same distance"
            "|Both are not visible in Satellite",
            "building_footprint_area": "Building A|Building B|They are about the same area"
            "|Neither is clearly identifiable in Satellite",
            "building_connection": "Yes, they are connected|No, they are separate"
            "|Connected by a narrow covered link only|Not visible in Satellite",
            "roof_form": "Flat roof|Gabled roof|Arched/curved roof|Mixed/unclear roof form",
        },
    ),
    "s2g_fov": (
        0, 3, {
            "vegetation_sector": "Trees|Shrubs / bushes|Grass / lawn|No obvious vegetation",
            "occlusion_binary": "Occluded (blocked)|Not occluded (clear view)",
            "relative_position": "Left side|Right side|Near the center (mostly straight ahead)"
            "|Not visible in the forward view",
            "height_comparison": "The first building is taller|The second building is taller"
            "|They are about the same height|Only one of them is visible",
            "facade_color": "Light (white/cream/light gray)|Medium (tan/brown)|Dark (dark gray/black)"
            "|Red / brick-like",
            "ground_material": "Asphalt|Concrete|Grass|Bare soil / dirt",
        },
    ),
    "s2g_cvusa": (
        0, 4, {
            "visibility": "Occluded|Not occluded",
            "vegetation": "Trees|Shrubs|Grass|No visible vegetation",
            "height": "Building A is taller|Building B is taller|They are approximately the same height"
            "|Only one building is clearly visible",
            "location": "The center region|The left-quarter region|The right-quarter region"
            "|The far edge region",
        },
    ),
}  # fmt: skip

CVUSA_A = "the house with a porch in the left quarter"
CVUSA_B = "the barn with two doors in the right quarter"
ABOVE_A = "the largest footprint next to the intersection"
ABOVE_B = "the smallest footprint beside the driveway"
# Category -> what fills its gaps, in a question that is accepted.
GOOD = {
    "facade": {"feature": "the recessed bay beside the upper band of windows"},
    "roof": {},
    "symmetry": {},
    "distance_to_camera": {"building_a": CVUSA_A, "building_b": CVUSA_B},
    "building_footprint_area": {"building_a": CVUSA_A, "building_b": CVUSA_B},
    "building_connection": {"building_a": CVUSA_A, "building_b": CVUSA_B},
    "roof_form": {"building": CVUSA_A},
    "vegetation_sector": {"sector": "right-forward sector"},
    "occlusion_binary": {"target": ABOVE_A},
    "relative_position": {"target": "the building closest to the camera along the arrow ray"},
    "height_comparison": {"building_a": ABOVE_A, "building_b": ABOVE_B},
    "facade_color": {"target": ABOVE_A},
    "ground_material": {},
    "visibility": {"region": "the far edge region", "target": ABOVE_A},
    "vegetation": {"region": "the center region"},
    "height": {"building_a": ABOVE_A, "building_b": ABOVE_B},
    "location": {"target": "the largest footprint closest to the satellite center"},
}
CATEGORIES = [(variant, category) for variant in VARIANTS.values() for category in variant.categories]


def question(variant, category, answer="A", **changes):
    """A question as a generator gives it; `changes` replace the gaps' texts or whole fields."""
    filled = {**GOOD[category.name], **{k: v for k, v in changes.items() if k in GOOD[category.name]}}
    record = {
        "question": category.stem.format(**filled),
        "options": category.labelled,
        "answer": answer,
        "category": category.name,
        "margin": category.margin and 3,
    }
    return record | {k: v for k, v in changes.items() if k in record}


def kinds(variant, record):
    """The kinds of faults of one question, alone."""
    verdict = judge(json.dumps({"questions": [record]}), variant)
    return {fault.kind for fault in verdict.faults if fault.index is not None}


def reply(variant, *names, answers="AAAA"):
    return json.dumps(
        [question(variant, variant.category(n), letter) for n, letter in zip(names, answers, strict=False)]
    )


@pytest.mark.parametrize("name", PAPER)
def test_a_variant_has_the_papers_categories_options_and_counts(name):
    variant = VARIANTS[name]
    least, most, options = PAPER[name]
    assert (variant.least, variant.most) == (least, most)
    assert {c.name: "|".join(c.options) for c in variant.categories} == options
    assert sum(len(options) for *_, options in PAPER.values()) == 17 == len(CATEGORIES)


@pytest.mark.parametrize(("variant", "category"), CATEGORIES, ids=lambda x: x.name)
def test_the_reader_knows_the_category_by_its_options(variant, category):
    options = dict(zip(category.letters, category.options, strict=True))
    assert categories.of_row({}, variant.subset, options) == category.name
    assert categories.normalise(category.name, variant.subset) == category.name


@pytest.mark.parametrize(("variant", "category"), CATEGORIES, ids=lambda x: x.name)
def test_a_good_question_of_every_category_is_kept(variant, category):
    assert kinds(variant, question(variant, category)) == set()


@pytest.mark.parametrize(("variant", "category"), CATEGORIES, ids=lambda x: x.name)
def test_options_stem_and_answer_are_the_categorys_own(variant, category):
    options = category.labelled
    assert kinds(variant, question(variant, category, options=options[::-1])) == {"options"}
    assert kinds(variant, question(variant, category, options=options[:-1])) == {"options"}
    assert kinds(variant, question(variant, category, options=[*options[:-1], "Z) Other"])) == {"options"}
    assert kinds(variant, question(variant, category, question="Which roof is it?")) == {"stem"}
    assert kinds(variant, question(variant, category, question=category.stem + " Choose.")) != set()
    if len(options) == 2:
        assert kinds(variant, question(variant, category, "C")) == {"answer"}
    assert kinds(variant, question(variant, category, "E")) == {"schema"}


REFUSED = [
    (G2S_FOV, "facade", {"feature": "the van beside the recessed bay"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the bay behind two pedestrians"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the bay on the northeast wall"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the bay at the entrance 2"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the bay behind the trees"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the l-shaped extension of the wall"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the protrusion beside the windows"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the bay seen in the satellite image"}, "banned"),
    (G2S_FOV, "facade", {"feature": "the bay"}, "length"),
    (G2S_FOV, "facade", {"feature": "the recessed bay " + "and so on " * 20}, "length"),
    (G2S_CVUSA, "roof_form", {"building": "the gabled house in the left quarter"}, "banned"),
    (G2S_CVUSA, "roof_form", {"building": "the house straight ahead in the center"}, "banned"),
    (G2S_CVUSA, "roof_form", {"building": "the church in the left quarter"}, "banned"),
    (G2S_CVUSA, "roof_form", {"building": "building 12 in the left quarter"}, "banned"),
    (G2S_CVUSA, "roof_form", {"building": "the unclear house in the left quarter"}, "banned"),
    (G2S_CVUSA, "roof_form", {"building": "the house with a porch and two chimneys"}, "anchors"),
    (G2S_CVUSA, "distance_to_camera", {"building_a": "the nearby house in the left quarter"}, "banned"),
    (G2S_CVUSA, "distance_to_camera", {"building_b": CVUSA_A}, "repeated"),
    (G2S_CVUSA, "distance_to_camera", {"margin": 1.5}, "margin"),
    (G2S_CVUSA, "distance_to_camera", {"margin": None}, "margin"),
    (G2S_CVUSA, "distance_to_camera", {"answer": "C"}, "answer"),
    (G2S_CVUSA, "building_footprint_area", {"building_a": "the large house in the left quarter"}, "banned"),
    (G2S_CVUSA, "building_footprint_area", {"margin": 1.9}, "margin"),
    (G2S_CVUSA, "building_footprint_area", {"answer": "D"}, "answer"),
    (G2S_CVUSA, "building_connection", {"building_a": "the attached house in the left quarter"}, "banned"),
    (G2S_CVUSA, "building_connection", {"answer": "D"}, "answer"),
    (S2G_FOV, "occlusion_binary", {"target": "the hidden footprint next to the road"}, "banned"),
    (S2G_FOV, "occlusion_binary", {"target": "the footprint next to the road, left of it"}, "banned"),
    (S2G_FOV, "occlusion_binary", {"target": "the brick footprint next to the road"}, "banned"),
    (S2G_FOV, "occlusion_binary", {"target": "the footprint with a white facade at the road"}, "banned"),
    (S2G_FOV, "occlusion_binary", {"target": "the temporary building at the road"}, "banned"),
    (S2G_FOV, "occlusion_binary", {"target": "the building over there somewhere"}, "anchors"),
    (S2G_FOV, "height_comparison", {"building_a": "the taller footprint next to the road"}, "banned"),
    (S2G_FOV, "height_comparison", {"building_b": ABOVE_A}, "repeated"),
    (S2G_FOV, "vegetation_sector", {"sector": "rear sector"}, "gap"),
    (S2G_CVUSA, "visibility", {"target": "the blocked footprint next to the road"}, "banned"),
    (S2G_CVUSA, "visibility", {"region": "the north region"}, "gap"),
    (S2G_CVUSA, "visibility", {"target": "the building next to another one"}, "anchors"),
    (S2G_CVUSA, "vegetation", {"region": "the middle"}, "gap"),
    (S2G_CVUSA, "height", {"building_a": "the two-story footprint next to the road"}, "banned"),
    (S2G_CVUSA, "location", {"target": "the largest footprint at the left of the road"}, "banned"),
    (S2G_CVUSA, "location", {"target": "the largest footprint with a red door at the road"}, "banned"),
]


@pytest.mark.parametrize(("variant", "name", "changes", "kind"), REFUSED)
def test_a_broken_rule_is_refused_with_its_kind(variant, name, changes, kind):
    changes = dict(changes)
    answer = changes.pop("answer", "A")
    assert kind in kinds(variant, question(variant, variant.category(name), answer, **changes))


@pytest.mark.parametrize("place", ["left quarter", "right-quarter", "center", "far edge"])
def test_every_place_in_the_panorama_may_be_named_whatever_is_banned(place):
    for category in G2S_CVUSA.categories:
        first = {slot.name: f"the house with a porch in the {place}" for slot in category.slots[:1]}
        assert kinds(G2S_CVUSA, question(G2S_CVUSA, category, **first)) == set()


def test_words_inside_other_words_are_not_banned():
    feature = "the carport-like bay beside the scarred cattle-grid band"
    assert kinds(G2S_FOV, question(G2S_FOV, G2S_FOV.category("facade"), feature=feature)) == set()


def test_the_number_of_questions_is_the_variants():
    three = ("facade", "roof", "symmetry")
    assert judge(reply(G2S_FOV, *three), G2S_FOV).faults == ()
    assert [f.kind for f in judge(reply(G2S_FOV, *three[:2]), G2S_FOV).faults] == ["count"]
    assert judge("[]", S2G_FOV).faults == ()
    assert [f.kind for f in judge("[]", G2S_CVUSA).faults] == ["count"]
    four = ("visibility", "vegetation", "height", "location")
    assert judge(reply(S2G_CVUSA, *four), S2G_CVUSA).faults == ()


def test_s2g_has_no_category_twice_and_g2s_cvusa_no_question_twice():
    twice = judge(reply(S2G_FOV, "occlusion_binary", "occlusion_binary"), S2G_FOV)
    assert [(f.kind, f.index) for f in twice.faults] == [("repeated", 1)]
    assert len(twice.kept) == 1
    one, other = (
        question(G2S_CVUSA, G2S_CVUSA.category("roof_form"), building=b) for b in (CVUSA_A, CVUSA_B)
    )
    connected = question(G2S_CVUSA, G2S_CVUSA.category("building_connection"))
    assert judge(json.dumps([one, other, connected]), G2S_CVUSA).faults == ()
    assert [f.kind for f in judge(json.dumps([one, one, other]), G2S_CVUSA).faults] == ["repeated"]


def test_three_letters_are_wanted_only_where_asked_for():
    text = reply(G2S_FOV, "facade", "roof", "symmetry", answers="ABA")
    assert judge(text, G2S_FOV).faults == ()
    assert [f.kind for f in judge(text, G2S_FOV, spread_letters=True).faults] == ["letters"]
    spread = reply(G2S_FOV, "facade", "roof", "symmetry", answers="ACB")
    assert judge(spread, G2S_FOV, spread_letters=True).faults == ()


@pytest.mark.parametrize("text", ["", "No.", '{"questions": [', '[{"question": 1}', "{" * 5000])
def test_a_reply_that_is_no_json_is_one_fault(text):
    verdict = judge(text, G2S_FOV)
    assert (verdict.kept, [fault.kind for fault in verdict.faults]) == ((), ["json"])


def test_json_of_another_form_is_refused_by_the_schema():
    assert [f.kind for f in judge('{"answers": []}', G2S_FOV).faults] == ["schema", "schema"]
    record = question(G2S_FOV, G2S_FOV.category("roof"))
    for wrong in ({**record, "why": "so"}, {**record, "answer": 1}, {**record, "category": "height"}, "x"):
        assert kinds(G2S_FOV, wrong) == {"schema"}
    del record["margin"]
    assert kinds(G2S_FOV, record) == {"schema"}


def test_a_fence_and_words_around_the_json_are_forgiven():
    text = reply(G2S_FOV, "facade", "roof", "symmetry")
    for around in (f"```json\n{text}\n```", f"Here you are:\n{text}\nDone.", f'{{"questions": {text}}}'):
        assert judge(around, G2S_FOV).faults == ()


def test_one_fault_leaves_the_other_questions():
    records = json.loads(reply(G2S_FOV, "facade", "roof", "symmetry"))
    records[1]["options"] = ["A) Yes", "B) No"]
    verdict = judge(json.dumps(records), G2S_FOV)
    assert [q.category.name for q in verdict.kept] == ["facade", "symmetry"]
    assert verdict.sentences[0].startswith("Question 2: the options of roof must be exactly")


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=lambda v: v.name)
def test_the_instruction_tells_every_rule_that_is_checked(variant):
    text = instruction(variant)
    for category in variant.categories:
        assert category.stem in text
        assert all(option in text for option in category.labelled)
        assert all(choice in text for slot in category.slots for choice in slot.choices)
    for ban in (*variant.bans, *(ban for category in variant.categories for ban in category.bans)):
        assert all(word in text for word in ban.words)
    assert all(anchor.name in text for anchor in variant.anchors)
    names = reply_schema(variant)["properties"]["questions"]["items"]["properties"]["category"]["enum"]
    assert names == [category.name for category in variant.categories]


def test_the_request_says_how_many_and_of_which_kind():
    assert "exactly 3 questions, one of each kind: facade" in request_text(G2S_FOV, ["a", "b"], False)
    assert "exactly 3 questions of these kinds: distance" in request_text(G2S_CVUSA, ["a", "b"], False)
    assert "up to 4 questions" in request_text(S2G_CVUSA, ["a", "b"], False)
    assert "three different ones" in request_text(G2S_FOV, ["a", "b"], True)
    assert "three different ones" not in request_text(S2G_FOV, ["a", "b"], True)
    again = retry_text("ask", "the reply", ["one fault.", "another fault."])
    assert again.startswith("ask\n")
    assert "the reply" in again
    assert "- another fault." in again


def test_instructions_of_the_users_own_take_the_place_of_ours(tmp_path):
    (tmp_path / "g2s_fov.txt").write_text("Mine.\n")
    loaded = load_instructions(str(tmp_path))
    assert loaded["g2s_fov"] == "Mine."
    assert loaded["s2g_fov"] == instruction(S2G_FOV)
    (tmp_path / "g2s_fov.txt").unlink()
    with pytest.raises(UserError, match=r"holds none of g2s_cvusa\.txt"):
        load_instructions(str(tmp_path))
    (tmp_path / "s2g_fov.txt").write_bytes(b"\xff")
    with pytest.raises(UserError, match="cannot be read as text"):
        load_instructions(str(tmp_path))


STREET = (
    "A house with light beige walls and dark brown trim, four even windows, a covered entrance in the"
    " middle and a low stone step before it."
)
ROOF = (
    "A plain building with a grey shingled gable roof."
    " Its footprint is a long block with an annex at one end."
)


def test_a_description_has_the_length_and_the_words_that_are_asked_for():
    assert judge_description(f' "{STREET}"\n', "street").kept == (STREET,)
    assert judge_description(ROOF, "satellite").kept == (ROOF,)
    refused = [
        ("A house with light walls.", "street", "length"),
        (STREET + " It stands there and it has been there for long.", "street", "length"),
        (STREET.replace("house", "van"), "street", "banned"),
        (STREET.replace("house", "[12, 20, 40, 60]"), "street", "banned"),
        (STREET.replace("A house", "The red box"), "street", "banned"),
        (STREET.replace("middle", "north"), "street", "banned"),
        (ROOF.split(". ")[0] + ".", "satellite", "length"),
        (ROOF + " One more. And one more.", "satellite", "length"),
    ]
    for text, side, kind in refused:
        verdict = judge_description(text, side)
        assert verdict.kept == ()
        assert kind in {fault.kind for fault in verdict.faults}, text
