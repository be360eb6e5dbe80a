"""Keys and values of a CVSBench question (formats: flat texts, one-key dicts, dicts, bare letters)."""

import pytest

from data_prep.cvsbench import categories, fields
from data_prep.cvsbench.fields import FieldError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["A) Flat roof", "B) Gabled roof"], {"A": "Flat roof", "B": "Gabled roof"}),
        (["A. Flat roof", "B. Gabled roof"], {"A": "Flat roof", "B": "Gabled roof"}),
        (["A: Arrow A", "B: Arrow B"], {"A": "Arrow A", "B": "Arrow B"}),
        (["(A) one", "(b) two"], {"A": "one", "B": "two"}),
        (["A)one", "B)two"], {"A": "one", "B": "two"}),
        ([{"A": "one"}, {"B": "two"}], {"A": "one", "B": "two"}),
        ({"A": "one", "B": "two"}, {"A": "one", "B": "two"}),
        ({"A)": "A) one", "B)": "B) two"}, {"A": "one", "B": "two"}),
        ({"B": "first", "A": "second"}, {"B": "first", "A": "second"}),
        ({"A": 2, "B": 3.5}, {"A": "2", "B": "3.5"}),
        (["A", "B", "C", "D"], {"A": "A", "B": "B", "C": "C", "D": "D"}),
        (["Trees", "Grass"], {"A": "Trees", "B": "Grass"}),
        (["A) D) odd", "B) fine"], {"A": "D) odd", "B": "fine"}),
        (["A) Überführung", "B) 步道"], {"A": "Überführung", "B": "步道"}),
    ],
)
def test_options_in_every_accepted_form(value, expected):
    options = fields.options(value)
    assert options == expected
    assert list(options) == list(expected)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "neither"),
        ("A) one B) two", "neither"),
        ([], "neither"),
        ({}, "two options or more"),
        ([1, 2], "neither"),
        (["A) only"], "two options or more"),
        (["A) one", "A) two"], "used twice"),
        (["A) one", "B) one"], "read the same"),
        (["A) one", "B) ONE"], "read the same"),
        (["A) one", "two"], "some do not"),
        ([{"A": "one"}, {"long": "two"}], "is a letter"),
        ({"A": "one", "B": ["x"]}, "is a text"),
        ({"A": "one", "B": ""}, "no text"),
        (["A) one", "B) half \ud83d"], "half a character"),
    ],
)
def test_options_that_are_no_options(value, message):
    with pytest.raises(FieldError, match=message):
        fields.options(value)


@pytest.mark.parametrize(
    ("value", "letter"),
    [
        ("B", "B"),
        (" b ", "B"),
        ("B)", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("B) Building A", "B"),
        ("Building A", "B"),
        ("building a", "B"),
        ("A", "A"),
    ],
)
def test_answers_become_a_bare_letter(value, letter):
    assert fields.answer(value, {"A": "Building B", "B": "Building A"}) == letter


@pytest.mark.parametrize(
    "value", [None, "", "E", "1", "AB", "A) Building A", "Building C", "A or B", 1, ["A"], True]
)
def test_answers_that_are_no_option(value):
    with pytest.raises(FieldError, match="answer"):
        fields.answer(value, {"A": "Building B", "B": "Building A"})


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"img_id": "0000973", "id": "x"}, "0000973"),
        ({"sample_id": "1", "sample": "2", "id": "3"}, "1"),
        ({"sample": "2", "id": "3"}, "2"),
        ({"id": 3}, "3"),
        ({"img_id": None, "sample_id": "", "id": " 7 "}, "7"),
        ({}, None),
    ],
)
def test_first_present_image_id_wins(record, expected):
    assert fields.identifier(record, fields.IMAGE_ID_KEYS) == expected


@pytest.mark.parametrize("value", [True, 1.5, ["1"], {"a": 1}])
def test_an_id_is_text_or_whole_number(value):
    with pytest.raises(FieldError, match="whole number"):
        fields.identifier({"img_id": value}, fields.IMAGE_ID_KEYS)


@pytest.mark.parametrize("value", [None, "", "  ", 5, ["Where?"], "half \udc00 pair"])
def test_a_question_is_text(value):
    with pytest.raises(FieldError):
        fields.question_text({"question": value})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Visible in Satellite", "Not visible in Satellite"], "facade"),
        (["symmetric", "NOT symmetric"], "symmetry"),
        (["Flat roof", "Gabled roof", "Arched/curved roof", "Mixed/unclear roof form"], "roof_form"),
        (["Trees", "Shrubs", "Grass", "No visible vegetation"], "vegetation"),
        (["Trees", "Shrubs / bushes", "Grass / lawn", "No obvious vegetation"], "vegetation_sector"),
        (["Occluded", "Not occluded"], "visibility"),
        (["Occluded (blocked)", "Not occluded (clear view)"], "occlusion_binary"),
        (["Building A", "Building B", "They are about the same distance",
          "Both are not visible in Satellite"], "distance_to_camera"),
        (["Connected", "Not connected", "Partially connected", "Cannot determine from satellite"],
         "building_connection"),
        (["Yes, they are connected", "No, they are separate", "Connected by a narrow link only",
          "Not visible in Satellite"], "building_connection"),
        (["Yes, they are connected", "No, they are separate", "Connected by a narrow covered link only",
          "Not visible in Satellite"], "building_connection"),
        (["Not symmetric", "Symmetric"], categories.UNKNOWN),
        (["Yes", "No"], categories.UNKNOWN),
    ],
)  # fmt: skip
def test_category_from_the_option_signature(texts, expected):
    options = dict(zip("ABCD", texts, strict=False))
    assert categories.of_row({}, "fov", options) == expected


@pytest.mark.parametrize(
    ("subset", "record", "expected"),
    [
        ("fov", {"category": "roof", "category_l1": "x"}, "roof"),
        ("fov", {"category_l1": "height_comp", "category_l2": "x"}, "height_comparison"),
        ("fov", {"category": "", "category_l2": "Relative-Pos"}, "relative_position"),
        ("fov", {"category": "occulusion_binary"}, "occlusion_binary"),
        ("fov", {"category": "ground-material"}, "ground_material"),
        ("fov", {"category": "height-comparison"}, "height_comparison"),
        ("fov", {"category": "vegetation"}, "vegetation_sector"),
        ("cvusa", {"category": "vegetation"}, "vegetation"),
        ("cvusa", {"category": "height"}, "height"),
        ("cvusa", {"category": "footprint"}, "building_footprint_area"),
    ],
)
def test_category_from_the_fields_and_their_aliases(subset, record, expected):
    assert categories.of_row(record, subset, {"A": "Symmetric", "B": "Not symmetric"}) == expected
