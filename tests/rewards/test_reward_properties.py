"""What holds for every text, gold and row, checked on generated ones.

Texts are arbitrary unicode, or near-misses: random sequences of the pieces that completions are made of.
"""

import json
import math

import pytest
from hypothesis import given, is_hypothesis_test, settings
from hypothesis import strategies as st

from rewards import (
    RESPONSE_FORMATS,
    combine,
    compute_score,
    iou,
    mean_relative_accuracy,
    parse_answer,
    render_answer,
    shuffle_options,
)
from rewards.answer import END_OF_TURN
from rewards.units import UNITS

LAMBDA = 0.1
KEYS = {"score": float, "accuracy": float, "format": float, "parsed": str, "reason": str, "out_of_range": int}
OPTIONS = {"A": "red chair", "B": "left table", "C": "lamp", "D": "sofa"}
GOLDS = {"choice": "B", "yes_no": "yes", "number": 2.5, "box": [10, 20, 110, 220]}
ROWS = {name: {"answer_type": name, "options": OPTIONS, "unit": "m"} for name in GOLDS}

TAGS = ["<answer>", "</answer>", "<ANSWER>", "<think>", "</think>", "<answer>B</answer>", "<answer></answer>"]
MARKS = [
    " ",
    "\n",
    ".",
    ",",
    "?",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "**",
    "$",
    "\\boxed{",
    "\\text{",
    "【",
    "】",
    '"',
    "`",
]
WORDS = [
    "Answer",
    "the answer is",
    "Option",
    "not",
    "or",
    "maybe",
    "so",
    "is",
    "about",
    "and",
    "a",
    "I",
    "null",
]
CHOICES = ["A", "B", "C", "D", "E", "b", "left table", "lamp", "B) left table", "Ｂ", "В", "B or C"]
VERDICTS = ["yes", "no", "true", "Yes.", "yes or no", "notice"]
NUMBERS = [
    "2",
    "2.5",
    "-",
    "0",
    "1e",
    "e5",
    "1e999",
    "NaN",
    "inf",
    "∞",
    "1,200",
    "1/2",
    "½",
    "10^3",
    "×",
    "²",
    "٣",
]
QUANTITIES = [
    "three",
    "twenty",
    "hundred",
    "half",
    "point",
    "m",
    "cm",
    "m2",
    "°",
    "ft",
    "5'3\"",
    "2.5 m",
    "250 cm",
    "2 to 3",
]
BOXES = ["[10, 20, 110, 220]", "[nan, 1, 2, 3]", "bbox_2d", "10px", "{", "}", "1e400"]
PIECES = [
    *TAGS,
    *MARKS,
    *WORDS,
    *CHOICES,
    *VERDICTS,
    *NUMBERS,
    *QUANTITIES,
    *BOXES,
    *END_OF_TURN,
    "<|image_pad|>",
]
HEADINGS = [heading for layout in RESPONSE_FORMATS.values() for heading in layout.headings]

any_text = st.text(st.characters(exclude_categories=()))
near_misses = st.lists(st.sampled_from(PIECES + HEADINGS), max_size=14).map("".join)
spans = st.lists(st.sampled_from([p for p in PIECES if p not in TAGS]), max_size=8).map("".join)
blocks = st.builds(
    "{}<answer>{}</answer>{}".format, st.text(max_size=8), spans | any_text, st.sampled_from(["", " ", "!"])
)
texts = any_text | near_misses | blocks
types = st.sampled_from(sorted(GOLDS))
ODD = [
    None,
    True,
    0,
    -1,
    10**400,
    1e308,
    math.nan,
    -math.inf,
    "",
    "B",
    "yes",
    "2.5 m",
    [],
    {},
    [1, 2],
    [0, 0],
    [1] * 4,
    {"A": 1},
]
json_values = (
    st.sampled_from([*ODD, *GOLDS.values()]) | st.floats() | any_text | st.lists(st.integers(), max_size=5)
)
extra_infos = json_values | st.fixed_dictionaries(
    {},
    optional={
        "answer_type": types | json_values,
        "options": st.just(OPTIONS) | json_values,
        "unit": st.sampled_from(sorted(UNITS)) | json_values,
        "coordinates": st.sampled_from(["pixel", "resized_pixel", "norm1000", "norm1"]) | json_values,
        "image_size": st.just([640, 480]) | json_values,
        "resized_size": st.just([320, 240]) | json_values,
        "response_format": st.sampled_from(sorted(RESPONSE_FORMATS)) | json_values,
    },
)
reward_kwargs = st.fixed_dictionaries(
    {},
    optional={
        "format_weight": st.floats(0, 1) | json_values,
        "format_mode": st.sampled_from(["answer", "full"]) | json_values,
        "gate_format": st.booleans() | json_values,
        "tolerance": st.floats(0, 1) | json_values,
        "iou_threshold": st.floats(0, 1) | json_values,
        "reward_router_address": json_values,
    },
)
lengths = st.floats(-1e6, 1e6, allow_nan=False)
boxes = st.builds(
    lambda x, y, w, h: (x, y, x + w, y + h), lengths, lengths, st.floats(0.5, 1e6), st.floats(0.5, 1e6)
)
white_space = st.text(" \n\t\r\u00a0\u2003", max_size=4)


def accuracy(text, answer_type, gold, **kwargs):
    return compute_score("x", text, gold, ROWS[answer_type], **kwargs)["accuracy"]


@given(texts | st.binary() | json_values, json_values, extra_infos, reward_kwargs)
def test_the_reward_is_total(text, gold, extra_info, kwargs):
    result = compute_score("x", text, gold, extra_info, **kwargs)
    assert {key: type(value) for key, value in result.items()} == KEYS
    assert all(0.0 <= result[key] <= 1.0 for key in ("score", "accuracy", "format"))
    assert 0 <= result["out_of_range"] <= 4
    assert (result["parsed"] == "") == (result["reason"] != "")
    assert json.loads(json.dumps(result, allow_nan=False)) == result


@given(texts, types, reward_kwargs)
def test_the_reward_is_total_for_well_formed_rows(text, answer_type, kwargs):
    result = compute_score("x", text, GOLDS[answer_type], ROWS[answer_type], **kwargs)
    assert 0.0 <= result["score"] <= 1.0
    assert result["reason"] != "malformed_row"
    assert result["parsed"].isascii()


@given(
    st.text(st.sampled_from(" \n\t\u00a0\u3000"), max_size=9),
    types,
    json_values,
    st.sampled_from(["", *END_OF_TURN]),
)
def test_nothing_earns_nothing(blank, answer_type, gold, token):
    for text in (blank + token, f"<answer>{blank}</answer>{token}", f"<think>{blank}</think>{blank}"):
        assert compute_score("x", text, gold, {"answer_type": answer_type})["score"] == 0.0


@given(texts)
def test_without_the_gold_letter_at_most_lambda(text):
    for letter, words in OPTIONS.items():
        text = text.replace(letter, "").replace(words, "")
    options = {**OPTIONS, "Z": "zebra"}
    if "z" not in text.casefold():
        result = compute_score("x", text, "Z", {"options": options})
        assert result["score"] <= LAMBDA


@given(st.lists(st.sampled_from([p for p in PIECES if "-" not in p]), max_size=10).map("".join))
def test_without_a_minus_sign_a_negative_gold_earns_at_most_lambda(span):
    assert compute_score("x", f"<answer>{span}</answer>", -2.5, ROWS["number"])["score"] <= LAMBDA


@given(
    st.lists(
        st.sampled_from([p for p in PIECES if p.casefold() not in ("yes", "yes.", "true")]), max_size=10
    ).map("".join)
)
def test_without_the_gold_word_at_most_lambda(span):
    assert compute_score("x", f"<answer>{span}</answer>", "yes", ROWS["yes_no"])["score"] <= LAMBDA


@given(texts)
def test_without_four_digits_a_box_earns_at_most_lambda(text):
    if sum(character.isdigit() or character.isnumeric() for character in text) < 4:
        assert compute_score("x", text, GOLDS["box"], ROWS["box"])["score"] <= LAMBDA


@given(
    texts, types, white_space, white_space, st.lists(st.sampled_from(END_OF_TURN), max_size=3), st.booleans()
)
def test_white_space_and_end_tokens_change_nothing(text, answer_type, before, after, tokens, full):
    mode = "full" if full else "answer"
    padded = before + text + after + after.join(tokens) + after
    for format_name in RESPONSE_FORMATS:
        row = {**ROWS[answer_type], "response_format": format_name}
        plain, changed = (
            compute_score("x", t, GOLDS[answer_type], row, format_mode=mode) for t in (text, padded)
        )
        assert plain == changed
    readings = [parse_answer(t, answer_type, mode="flexible", options=OPTIONS) for t in (text, padded)]
    assert readings[0] == readings[1]


@given(spans | any_text, types, white_space, white_space)
def test_white_space_in_the_block_changes_nothing(span, answer_type, before, after):
    texts = (f"<answer>{span}</answer>", f"<answer>{before}{span}{after}</answer>")
    plain, changed = (compute_score("x", text, GOLDS[answer_type], ROWS[answer_type]) for text in texts)
    assert plain == changed


@given(texts, types)
def test_what_is_read_strictly_is_read_flexibly(text, answer_type):
    strict = parse_answer(text, answer_type, options=OPTIONS, unit="m")
    flexible = parse_answer(text, answer_type, options=OPTIONS, unit="m", mode="flexible")
    assert strict.value is None or strict == flexible


@given(near_misses, spans, near_misses, spans, types)
def test_two_blocks_earn_nothing(before, first, between, second, answer_type):
    text = f"{before}<answer>{first}</answer>{between}<answer>{second}</answer>"
    if "</think>" not in between:
        assert compute_score("x", text, GOLDS[answer_type], ROWS[answer_type])["score"] == 0.0


DRESSES = [
    "({})",
    "[{}]",
    "**{}**",
    "`{}`",
    "{}.",
    "\\boxed{{{}}}",
    "${}$",
    "【{}】",
    "（{}）",
    '"{}"',
    " {} ",
    "\\text{{{}}}",
]


@given(types, st.lists(st.sampled_from(DRESSES), max_size=4, unique=True))
def test_dress_does_not_matter(answer_type, dresses):
    span = render_answer(GOLDS[answer_type], answer_type)[len("<answer>") : -len("</answer>")]
    for dress in dresses:
        span = dress.format(span)
    assert accuracy(f"<answer>{span}</answer>", answer_type, GOLDS[answer_type]) == 1.0


@given(
    st.permutations("ABCD"),
    st.sampled_from(
        [" or ", ", ", "/", " and ", " ", " & ", "; ", "\n", ") ", " not ", ", not ", " vs ", "? "]
    ),
    st.sampled_from(["{}", "({})", "**{}**", "Option {}", "either {}", "maybe {}"]),
)
def test_two_letters_earn_nothing(letters, separator, dress):
    text = f"<answer>{dress.format(letters[0] + separator + letters[1])}</answer>"
    for gold in letters[:2]:
        assert compute_score("x", text, gold, {"options": OPTIONS})["score"] == 0.0


@given(st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15), st.sampled_from([None, *UNITS]))
def test_a_rendered_number_reads_back(value, unit):
    parsed = parse_answer(render_answer(value, "number", unit=unit), "number", unit=unit)
    assert parsed.value == value
    assert float(parsed.text) == value


@given(st.sampled_from("ABCDEFGHZ"), st.sampled_from(["yes", "no"]), boxes)
def test_a_rendered_answer_reads_back(letter, word, box):
    offered = dict.fromkeys("ABCDEFGHZ", "")
    assert parse_answer(render_answer(letter, options=offered), options=offered).value == letter
    assert parse_answer(render_answer(word, "yes_no"), "yes_no").value == word
    assert parse_answer(render_answer(box, "box"), "box").value == box


@given(
    st.tuples(*[st.integers(0, 1000)] * 2, *[st.integers(1, 1000)] * 2),
    st.sampled_from([("resized_pixel", 1.0), ("norm1000", 1.0), ("norm1", 0.2)]),
)
def test_a_box_survives_every_convention_within_a_pixel(corner, convention):
    x, y, width, height = corner
    name, error = convention
    about = {"coordinates": name, "image_size": [2000, 2000], "resized_size": [1008, 1008]}
    box = (float(x), float(y), float(x + width), float(y + height))
    parsed = parse_answer(render_answer(box, "box", **about), "box", **about)
    assert parsed.out_of_range == 0
    assert all(abs(read - true) <= error for read, true in zip(parsed.value, box, strict=True))


@given(st.floats(0.01, 1e4), st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)))
def test_units_of_one_dimension_convert_there_and_back(value, unit, other):
    parsed = parse_answer(render_answer(value, "number", unit=unit), "number", unit=other)
    if UNITS[unit][0] != UNITS[other][0]:
        assert parsed.reason == "wrong_dimension"
    else:
        back = parse_answer(render_answer(parsed.value, "number", unit=other), "number", unit=unit)
        assert math.isclose(back.value, value, rel_tol=1e-12)


@given(st.floats(), st.floats())
def test_mean_relative_accuracy_is_defined_everywhere(value, gold):
    score = mean_relative_accuracy(value, gold)
    assert 0.0 <= score <= 1.0
    assert score == mean_relative_accuracy(-value, -gold)
    assert mean_relative_accuracy(gold, gold) == float(math.isfinite(gold))


@given(boxes, boxes)
def test_iou_is_symmetric_and_one_for_itself(a, b):
    assert 0.0 <= iou(a, b) <= 1.0
    assert math.isclose(iou(a, b), iou(b, a), abs_tol=1e-12)
    assert math.isclose(iou(a, a), 1.0)


@given(st.floats(0, 1), st.booleans(), st.floats(0, 1))
def test_the_combination_stays_in_range(acc, kept, weight):
    plain, gated = (combine(acc, float(kept), weight, gate) for gate in (False, True))
    assert 0.0 <= gated <= plain <= 1.0
    assert combine(0.0, float(kept), weight, gate_format=True) == 0.0
    assert combine(1.0, 1.0, weight) == pytest.approx(1.0)


@given(
    st.lists(st.text("abc ", min_size=1), min_size=1, max_size=8),
    st.data(),
    st.text(max_size=5),
    st.integers(0, 9),
)
def test_shuffling_moves_texts_and_loses_none(texts, data, row_id, seed):
    options = dict(zip("ABCDEFGH", texts, strict=False))
    answer = data.draw(st.sampled_from(sorted(options)))
    shuffled, new_answer, permutation = shuffle_options(options, answer, row_id, seed)
    assert sorted(permutation.values()) == sorted(permutation) == sorted(options)
    assert shuffled == {new: options[old] for new, old in permutation.items()}
    assert permutation[new_answer] == answer
    assert (shuffled, new_answer, permutation) == shuffle_options(options, answer, row_id, seed)


def test_the_profile_generates_enough_cases():
    properties = [item for item in globals().values() if is_hypothesis_test(item)]
    assert len(properties) * settings().max_examples >= 20_000
