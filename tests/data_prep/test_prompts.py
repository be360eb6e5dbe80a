"""The prompt: one text for every stage, the paper's rules, a file of the user's own."""

import pytest
from omegaconf import OmegaConf

from data_prep.atomic import digest
from data_prep.errors import UserError
from data_prep.prompts import (
    INSTRUCTIONS,
    build_messages,
    describe_images,
    fixed_sentences,
    load_prompt,
    placeholder_prompt,
    prompt_text,
)
from data_prep.rows import ImageRef, Row
from rewards import RESPONSE_FORMATS

ROW = Row(
    id="cvsbench/fov/g2s/0001.0.q0", benchmark="cvsbench", subset="fov", task="g2s", category="symmetry",
    group="fov/0001", images=(ImageRef("a.png", "street"), ImageRef("b.png", "street")),
    question="Is it symmetric?",
    options={"A": "Symmetric", "B": "Not symmetric"}, answer="A",
)  # fmt: skip


def spec(response_format: str, file: str | None = None):
    return load_prompt(OmegaConf.create({"format": response_format, "file": file}))


@pytest.mark.parametrize("response_format", sorted(INSTRUCTIONS))
def test_every_response_format_asks_for_its_headings_in_order(response_format):
    lines = spec(response_format).instruction.split("\n")
    headings = list(RESPONSE_FORMATS[response_format].headings)
    assert lines[len(lines) - len(headings) :] == headings


@pytest.mark.parametrize("response_format", ["imagination_cot", "structured_cot"])
@pytest.mark.parametrize("rule", ["200 words", "withheld", "brands", "option letter", "cannot be made out"])
def test_the_papers_rules_are_stated(response_format, rule):
    assert rule in spec(response_format).instruction


def test_pictures_stand_before_the_text_in_both_forms():
    prompt = spec("imagination_cot")
    (message,) = build_messages(ROW, prompt)
    assert [part["type"] for part in message["content"]] == ["image", "image", "text"]
    (placeholder,) = placeholder_prompt(ROW, prompt)
    assert placeholder["content"] == "<image><image>" + message["content"][-1]["text"]


def test_options_keep_the_order_of_the_source():
    text = prompt_text(ROW, spec("answer_only"))
    assert text.endswith("Is it symmetric?\nA) Symmetric\nB) Not symmetric")


def test_the_answer_never_stands_in_the_prompt():
    row = Row(**{**vars(ROW), "answer": "B", "reasoning": "a secret", "images": ROW.images})
    assert prompt_text(row, spec("imagination_cot")) == prompt_text(ROW, spec("imagination_cot"))


@pytest.mark.parametrize(
    ("roles", "sentence"),
    [
        (["satellite"], "You see a satellite image."),
        (["street", "street"], "You see 2 pictures of one place, each a street-level photo."),
        (["street", "depth"], "You see, in this order, a street-level photo, then a depth image."),
    ],
)
def test_the_kind_of_view_is_named(roles, sentence):
    assert describe_images([ImageRef("x", role) for role in roles]) == sentence


def box_row(count=2, width=512):
    images = tuple(
        ImageRef("x.png", role, "", width, 300) for role in ("marked", "satellite", "street")[:count]
    )
    asked = {"task": "gs_grounding", "options": None, "answer": [1, 2, 3, 4], "answer_type": "box"}
    return Row(**{**vars(ROW), "images": images, **asked})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            box_row(),
            "pixels of the second picture, which is 512 wide and 300 high, counted from its top left",
        ),
        (box_row(width=0), "pixels of the second picture, counted from its top left"),
        (box_row(1), "pixels of the picture, which is 512 wide and 300 high"),
        (box_row(3), "pixels of the third picture, which"),
    ],
)
def test_a_box_is_asked_for_in_the_pixels_of_the_last_picture(row, words):
    asked = prompt_text(row, spec("imagination_cot"))
    assert "<answer> [x_min, y_min, x_max, y_max] </answer>" in asked
    assert words in asked


def test_two_pictures_of_a_box_question_are_described_and_nothing_is_withheld():
    lines = prompt_text(box_row(), spec("imagination_cot")).split("\n")
    assert lines[-2:] == [
        "You see, in this order, the same place with one thing in a red box, then a satellite image."
        " Nothing is withheld here: both views are shown.",
        "Is it symmetric?",
    ]


def test_only_rows_that_show_both_views_say_so():
    composite = Row(**{**vars(ROW), "task": "gs_view", "images": (ImageRef("x.png", "composite"),)})
    assert "both views are shown" in prompt_text(composite, spec("imagination_cot"))
    assert "both views are shown" not in prompt_text(box_row(1), spec("imagination_cot"))
    assert "both views are shown" not in prompt_text(ROW, spec("imagination_cot"))


def test_the_words_of_choice_rows_and_the_fixed_sentences_stay_what_they_are():
    """Results of other runs, and the tokenizer of the tiny base model, hang on them."""
    assert digest(prompt_text(ROW, spec("imagination_cot")))[:12] == "85c49480eea5"
    assert digest(fixed_sentences())[:12] == "842bc9abd8d7"


def test_a_prompt_file_replaces_the_instruction_and_changes_the_hash(tmp_path):
    own = tmp_path / "own.txt"
    own.write_text("Look, then answer.\n")
    assert spec("imagination_cot", str(own)).instruction == "Look, then answer."
    assert spec("imagination_cot", str(own)).hash != spec("imagination_cot").hash


@pytest.mark.parametrize(("content", "word"), [(None, "cannot be read"), (b"\xff\xfe\xff", "cannot be read")])
def test_an_unreadable_prompt_file_is_named(tmp_path, content, word):
    path = tmp_path / "prompt.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=word):
        spec("imagination_cot", str(path))


def test_an_unknown_format_lists_the_known_ones():
    with pytest.raises(UserError, match="structured_cot"):
        spec("imagination")
