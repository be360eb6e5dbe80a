"""Rows with an auxiliary view through the loaders of SFT and GRPO: two pictures, counted right."""

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image

from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.errors import UserError
from data_prep.prompts import HINTS, build_messages, prompt_of_set, prompt_text
from data_prep.rows import Row
from recipes import length_budget, sft
from recipes.stages import plan

SETS = ("sft", "rl", "test")


def rows_of(prep, name: str) -> list[Row]:
    return [Row.from_json(record) for record in read_jsonl(prep.path / f"rows/{name}.jsonl")]


@pytest.fixture(scope="module")
def prep(tiny, tmp_path_factory):
    """A prepared set whose rows have miniatures, from files listed by row id."""
    from recipes import prep

    views = tmp_path_factory.mktemp("views")
    plain = plan(tiny(), "prep").open()
    prep.run(plain)
    lines = []
    for number, row in enumerate(row for name in SETS for row in rows_of(plain, name)):
        noise = np.random.default_rng(number).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(views / f"{number}.png")
        lines.append({"id": row.id, "image": f"{number}.png"})
    write_jsonl(views / "views.jsonl", lines)
    run = plan(tiny("data.views=miniature", f"data.views_root={views}"), "prep").open()
    prep.run(run)
    assert run.path != plain.path
    return run


@pytest.fixture(scope="module")
def processor(tiny):
    from recipes.backbone import load_processor

    config = tiny()
    return load_processor(str(plan(config, "base").path / "checkpoint"), config.model)


def test_every_set_has_two_pictures_a_row_and_the_hint(prep):
    prompt = prompt_of_set(prep.config)
    assert prompt.hash == prep.manifest["prompt"]["hash"]
    for name in SETS:
        for row in rows_of(prep, name):
            assert [image.role for image in row.images][1:] == ["miniature"]
            assert HINTS["miniature"] in prompt_text(row, prompt)


@pytest.mark.parametrize("name", SETS)
def test_lengths_by_arithmetic_are_the_processors(prep, processor, name):
    prompt = prompt_of_set(prep.config)
    for row, tokens in length_budget.lengths(rows_of(prep, name)[:12], prompt, processor):
        text = processor.apply_chat_template(
            build_messages(row, prompt), add_generation_prompt=True, tokenize=False
        )
        pictures = [Image.open(prep.path / "images" / image.path) for image in row.images]
        inputs = processor(text=[text], images=pictures, return_tensors="pt")
        assert tokens == inputs["input_ids"].shape[1], row.id
        assert len(inputs["image_grid_thw"]) == 2


def test_the_budget_counts_both_pictures(prep, processor, tiny, tmp_path):
    prompt, rows = prompt_of_set(prep.config), rows_of(prep, "sft")
    most = max(tokens for _, tokens in length_budget.lengths(rows, prompt, processor))
    length_budget.check(
        "SFT", rows, prompt, processor, tiny(f"model.max_prompt_tokens={most}").model, tmp_path
    )
    with pytest.raises(UserError, match=r"SFT rows cannot be trained on"):
        length_budget.check(
            "SFT", rows, prompt, processor, tiny(f"model.max_prompt_tokens={most - 1}").model, tmp_path
        )


def test_verls_loader_gives_both_pictures(prep, processor, tmp_path):
    from recipes.verl_dataset import StrictDataset

    rows = rows_of(prep, "rl")
    config = OmegaConf.create(
        {"expected_rows": len(rows), "max_prompt_length": 4096, "filter_overlong_prompts": False,
         "image_key": "images", "return_raw_chat": True, "cache_dir": str(tmp_path)}
    )  # fmt: skip
    data = StrictDataset(str(prep.path / "rl.parquet"), processor.tokenizer, config, processor)
    assert len(data) == len(rows)
    for index, row in enumerate(rows):
        parts = data[index]["raw_prompt"][0]["content"]
        shown = [part["image"] for part in parts if part["type"] == "image"]
        assert len(shown) == 2
        for path, image in zip(shown, row.images, strict=True):
            wanted = Image.open(prep.path / "images" / image.path)
            assert (np.asarray(Image.open(path)) == np.asarray(wanted)).all()


def test_sfts_examples_hold_both_pictures(prep):
    for row in rows_of(prep, "sft"):
        example = sft.example(row, prompt_of_set(prep.config), prep.path / "images")
        assert len(example.images) == 2
        assert example.completion.endswith(f"<answer> {row.answer} </answer>")
