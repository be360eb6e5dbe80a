"""The tiny base model: the real classes, loadable like any checkpoint, cheap prompts, captions."""

from collections import Counter

import pytest
from omegaconf import OmegaConf

from data_prep.atomic import read_jsonl
from data_prep.prompts import build_messages, load_prompt, prompt_text
from data_prep.rows import Row
from data_prep.synthetic.captions import BLOCK, REQUEST, SHORT, caption_examples
from recipes.stages import plan

PROMPT = load_prompt(OmegaConf.create({"format": "imagination_cot", "file": None}))


@pytest.fixture(scope="module")
def base(tiny):
    return plan(tiny(), "base").open()


def test_the_automatic_classes_load_what_was_saved(base):
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLProcessor

    from recipes.backbone import load_model, load_processor

    folder = str(base.path / "checkpoint")
    model, processor = load_model(folder, base.config.model), load_processor(folder, base.config.model)
    assert isinstance(model, Qwen3VLForConditionalGeneration)
    assert isinstance(processor, Qwen3VLProcessor)
    assert model.get_input_embeddings().num_embeddings == len(processor.tokenizer)
    assert base.manifest["parameters"] == model.num_parameters() < 1_000_000


def test_a_repeated_sentence_costs_one_token_and_decodes_to_itself(base):
    from recipes.backbone import load_processor

    tokenizer = load_processor(str(base.path / "checkpoint"), base.config.model).tokenizer
    lines = PROMPT.instruction.split("\n")
    tokens = tokenizer(PROMPT.instruction)["input_ids"]
    assert len(tokens) == 2 * len(lines) - 1  # a token a sentence and a line break between two
    assert tokenizer.decode(tokens) == PROMPT.instruction


def test_a_line_that_many_prompts_share_costs_one_token(base):
    from recipes.backbone import load_processor

    tokenizer = load_processor(str(base.path / "checkpoint"), base.config.model).tokenizer
    rows = [Row.from_json(r) for r in read_jsonl(base.inputs["prep"].path / "rows" / "sft.jsonl")]
    lines = Counter(line for row in rows for line in prompt_text(row, PROMPT).split("\n") if line)
    options = [line for line, count in lines.items() if ") " in line[:3] and count > 1]
    assert options
    for line in options:
        (token,) = tokenizer(line)["input_ids"]
        assert tokenizer.decode([token]) == line


def test_the_picture_budget_is_kept(base):
    from PIL import Image

    from recipes.backbone import load_processor

    processor = load_processor(str(base.path / "checkpoint"), base.config.model)
    grid = processor.image_processor(images=[Image.new("RGB", (4000, 3000))], return_tensors="pt")[
        "image_grid_thw"
    ]
    assert grid.prod().item() // 4 <= base.config.model.max_image_tokens


def test_the_same_seed_builds_the_same_weights(base, tmp_path):
    from safetensors.torch import load_file

    from recipes.base_model import build

    prep = base.inputs["prep"]
    texts = [str(record["reasoning"]) for record in read_jsonl(prep.path / "rows" / "sft.jsonl")]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build(tmp_path / name, base.config.model.build, [], texts, seed)
    a, b, c = (load_file(tmp_path / name / "model.safetensors") for name in "abc")
    assert all(a[key].equal(b[key]) for key in a)
    assert any(not a[key].equal(c[key]) for key in a)


def test_captions_come_first_and_short_then_in_blocks_with_guesses(tmp_path):
    count = 100 * BLOCK
    examples = list(caption_examples(tmp_path, 3, count, 50, PROMPT))
    texts = [example.messages[0]["content"][1]["text"] for example in examples]
    asks = [text.endswith(REQUEST) for text in texts]
    first = int(SHORT * count) // BLOCK * BLOCK
    assert all(asks[:first])
    lines = [text.count("\n") for text in texts]  # a sentence a line, a token a sentence
    assert max(lines[:first]) < min(lines[first:])
    assert all(len(set(asks[start : start + BLOCK])) == 1 for start in range(0, count, BLOCK))
    guesses = [example.completion for example, ask in zip(examples, asks, strict=True) if not ask]
    assert len(set(guesses)) == 4
    assert len(list(tmp_path.iterdir())) == 50
    assert examples == list(caption_examples(tmp_path, 3, count, 50, PROMPT))


def test_the_prompt_of_a_row_fits_the_budget(base):
    from recipes.backbone import load_processor

    processor = load_processor(str(base.path / "checkpoint"), base.config.model)
    rows = map(Row.from_json, read_jsonl(base.inputs["prep"].path / "rows" / "test.jsonl"))
    for row in rows:
        text = processor.apply_chat_template(
            build_messages(row, PROMPT), tokenize=False, add_generation_prompt=True
        )
        pictures = sum(-(-i.width // 32) * -(-i.height // 32) for i in row.images)
        assert len(processor.tokenizer(text)["input_ids"]) + pictures <= base.config.model.max_prompt_tokens
