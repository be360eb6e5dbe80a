"""Lengths that are counted without torch, held against the processor that the trainers use."""

import pytest

from data_prep.atomic import read_jsonl
from data_prep.prompts import prompt_of_set
from data_prep.rows import Row
from recipes import length_budget
from recipes.model_folder import ModelFolder
from recipes.row_lengths import CHARACTERS, Measure, summarise
from recipes.stages import plan


@pytest.fixture(scope="module")
def measured(tiny):
    """The processor, our count for the same folder, the prompt, and rows of every set."""
    from recipes.backbone import load_processor

    stage = plan(tiny(), "sft")
    folder = stage.inputs["base"].path / "checkpoint"
    prep = stage.inputs["prep"].open()
    rows = [
        Row.from_json(record)
        for name in ("sft", "rl", "test")
        for record in read_jsonl(prep.path / f"rows/{name}.jsonl")
    ]
    model = tiny().model
    return load_processor(str(folder), model), Measure(folder, model), prompt_of_set(prep.config), rows


def test_prompts_are_as_long_as_the_processor_makes_them(measured):
    processor, measure, prompt, rows = measured
    assert measure.exact
    wanted = {row.id: tokens for row, tokens in length_budget.lengths(rows, prompt, processor)}
    assert measure.prompts(rows, prompt) == wanted
    assert len(set(wanted.values())) > 1


def test_answers_are_as_long_as_the_tokenizer_makes_them(measured):
    processor, measure, _, rows = measured
    texts = [row.reasoning for row in rows if row.reasoning]
    assert texts
    for text in [*texts, "a\n\nb \n  c", "", "one line\n", "\n\n"]:
        ids = processor.tokenizer(text, add_special_tokens=False)["input_ids"]
        assert measure.answer(text) == len(ids) + 1, repr(text)


def test_the_template_of_a_folder_is_the_processors(measured, tiny):
    processor, *_ = measured
    folder = plan(tiny(), "sft").inputs["base"].path / "checkpoint"
    assert ModelFolder(folder).chat_template == processor.chat_template
    assert ModelFolder(folder).tied
    assert ModelFolder(folder).head_fault() is None
    assert set(ModelFolder(folder).dtypes) == {"float32"}


def test_without_a_tokenizer_a_token_is_taken_for_some_characters(tiny):
    measure = Measure(None, tiny().model)
    assert not measure.exact
    assert measure.text("x" * 400) == 400 / CHARACTERS


def test_quantiles_and_what_is_above_the_limit():
    found = summarise({f"row{number}": number for number in range(1, 101)}, 98)
    assert (found.count, found.p50, found.p95, found.longest) == (100, 51, 96, 100)
    assert found.above == {"row99": 99, "row100": 100}
    assert summarise({"only": 7}, 7).above == {}
