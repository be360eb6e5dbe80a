"""Each written set through the loader that training or evaluation uses: every row, picture and prompt.

The sets hold questions with one picture and with four (symmetry).
"""

import numpy as np
import pytest
from datasets import Image as ImageFeature
from omegaconf import OmegaConf
from PIL import Image

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.prompts import build_messages, load_prompt
from data_prep.rows import Row
from recipes import length_budget
from recipes.stages import plan


@pytest.fixture(scope="module")
def prep(tiny):
    from recipes import prep

    run = plan(tiny("data.categories=[symmetry,location]", "data.max_train_groups=40"), "prep").open()
    prep.run(run)
    return run


@pytest.fixture(scope="module")
def processor(tiny):
    from recipes.backbone import load_processor

    config = tiny()
    return load_processor(str(plan(config, "base").path / "checkpoint"), config.model)


@pytest.fixture(scope="module")
def prompt(prep):
    return load_prompt(prep.config.prompt)


def rows_of(prep, name: str) -> list[Row]:
    rows = [Row.from_json(record) for record in read_jsonl(prep.path / f"rows/{name}.jsonl")]
    assert {len(row.images) for row in rows} == {1, 4}
    assert len(rows) == prep.manifest["sets"][name]["rows"]
    return rows


def stored(prep, row: Row) -> list[np.ndarray]:
    return [np.asarray(Image.open(prep.path / "images" / image.path)) for image in row.images]


def same(pictures: list, expected: list[np.ndarray]) -> bool:
    return len(pictures) == len(expected) and all(
        np.array_equal(np.asarray(picture), wanted)
        for picture, wanted in zip(pictures, expected, strict=True)
    )


def chat(processor, row: Row, prompt) -> str:
    return processor.apply_chat_template(
        build_messages(row, prompt), add_generation_prompt=True, tokenize=False
    )


def test_trls_loader_yields_the_sft_set(prep, tiny, processor, prompt, tmp_path):
    from trl import SFTTrainer

    from recipes import sft
    from recipes.backbone import load_model
    from recipes.sft_trainer import training_set

    rows = rows_of(prep, "sft")
    config = tiny("sft.batch_size=8", "model.sft_micro_batch_size=8")
    trainer = SFTTrainer(
        model=load_model(processor.tokenizer.name_or_path, config.model),
        args=sft.training_arguments(config, tmp_path, len(rows)),
        train_dataset=training_set([sft.example(row, prompt, prep.path / "images") for row in rows]),
        processing_class=processor,
    )
    data = trainer.train_dataset
    assert len(data) == len(rows)
    assert isinstance(data.features["images"].feature, ImageFeature)
    for record, row in zip(data, rows, strict=True):
        assert same(record["images"], stored(prep, row)), row.id
        batch = trainer.data_collator([record])
        ours = processor(
            text=[chat(processor, row, prompt)],
            images=[Image.fromarray(picture) for picture in stored(prep, row)],
            return_tensors="pt",
        )
        asked = ours["input_ids"].shape[1]
        assert batch["input_ids"][0, :asked].tolist() == ours["input_ids"][0].tolist(), row.id
        assert batch["image_grid_thw"].tolist() == ours["image_grid_thw"].tolist()
        assert batch["pixel_values"].equal(ours["pixel_values"])


def test_verls_loader_yields_the_rl_set(prep, processor, prompt, tmp_path):
    from recipes.verl_dataset import StrictDataset

    rows = rows_of(prep, "rl")
    config = OmegaConf.create(
        {"expected_rows": len(rows), "max_prompt_length": 4096, "filter_overlong_prompts": False,
         "image_key": "images", "return_raw_chat": True, "cache_dir": str(tmp_path)}
    )  # fmt: skip
    data = StrictDataset(str(prep.path / "rl.parquet"), processor.tokenizer, config, processor)
    assert len(data) == len(rows)
    for index, row in enumerate(rows):
        item = data[index]
        assert item["extra_info"]["id"] == row.id
        assert item["reward_model"]["ground_truth"] == row.answer
        parts = item["raw_prompt"][0]["content"]
        opened = [Image.open(part["image"]) for part in parts if part["type"] == "image"]
        assert same(opened, stored(prep, row)), row.id
        theirs = processor.apply_chat_template(item["raw_prompt"], add_generation_prompt=True, tokenize=False)
        assert theirs == chat(processor, row, prompt)


def test_evaluations_loader_yields_the_test_set(prep, processor, prompt):
    from recipes.decoding import Pictures
    from recipes.engines.answers import batches
    from recipes.evaluate import choose_rows

    rows = rows_of(prep, "test")
    source = prep.path / "rows" / "test.jsonl"
    chosen = choose_rows(map(Row.from_json, read_jsonl(source)), None, prep.config.seed)
    model = OmegaConf.create({"family": "qwen3_vl", "max_image_tokens": 64})
    batched = [row for batch in batches(chosen, 5, model) for row in batch]
    assert sorted(row.id for row in batched) == sorted(row.id for row in rows)
    pictures = Pictures(prep.path / "images", blank=False)
    written = {row.id: row for row in rows}
    for row in batched:
        assert same(pictures.of(row), stored(prep, written[row.id])), row.id
        assert chat(processor, row, prompt) == chat(processor, written[row.id], prompt)
        assert written[row.id].question in chat(processor, row, prompt)


@pytest.mark.parametrize("name", ["sft", "rl", "test"])
def test_lengths_by_arithmetic_are_the_processors(prep, processor, prompt, name):
    for row, tokens in length_budget.lengths(rows_of(prep, name), prompt, processor):
        pictures = [Image.fromarray(picture) for picture in stored(prep, row)]
        inputs = processor(text=[chat(processor, row, prompt)], images=pictures, return_tensors="pt")
        assert tokens == inputs["input_ids"].shape[1], row.id


def test_sft_refuses_prompts_over_the_budget_and_lists_them(prep, processor, prompt, tiny, tmp_path):
    rows = rows_of(prep, "sft")
    known = {row.id: tokens for row, tokens in length_budget.lengths(rows, prompt, processor)}
    limit = sorted(known.values())[len(known) // 2]
    longer = {row_id: tokens for row_id, tokens in known.items() if tokens > limit}
    assert longer
    model = tiny(f"model.max_prompt_tokens={limit}").model
    with pytest.raises(UserError) as caught:
        length_budget.check("SFT", rows, prompt, processor, model, tmp_path)
    message = str(caught.value)
    assert f"{len(longer)} of {len(rows)} SFT rows" in message
    assert f"model.max_prompt_tokens={limit}" in message
    first = next(iter(longer))
    assert f"{first} ({longer[first]} tokens)" in message
    assert "Raise model.max_prompt_tokens or lower model.max_image_tokens." in message
    listed = list(read_jsonl(tmp_path / "too_long.jsonl"))
    assert {record["id"]: record["tokens"] for record in listed} == longer
    enough = tiny(f"model.max_prompt_tokens={max(known.values())}").model
    length_budget.check("SFT", rows, prompt, processor, enough, tmp_path)
    assert not (tmp_path / "too_long.jsonl").exists()


def test_the_sft_stage_refuses_before_it_trains(tiny):
    from recipes import base_model, sft

    config = tiny("model.max_prompt_tokens=20", "sft.max_steps=1")
    base_model.run(plan(config, "base").open())
    run = plan(config, "sft").open()
    with pytest.raises(UserError, match=r"SFT rows cannot be trained on with model\.max_prompt_tokens=20"):
        sft.run(run)
    assert not (run.path / "checkpoints").exists()
    assert (run.path / "too_long.jsonl").exists()


def test_sft_names_the_rl_rows_that_grpo_will_refuse(prep, processor, prompt, tiny, capsys):
    rows = rows_of(prep, "rl")
    known = {row.id: tokens for row, tokens in length_budget.lengths(rows, prompt, processor)}
    longest = max(known.values())
    length_budget.forewarn(rows, prompt, processor, tiny(f"model.max_prompt_tokens={longest}").model)
    assert capsys.readouterr().out == ""
    length_budget.forewarn(rows, prompt, processor, tiny(f"model.max_prompt_tokens={longest - 1}").model)
    told = capsys.readouterr().out
    first = next(row_id for row_id, tokens in known.items() if tokens == longest)
    assert f"RL: {list(known.values()).count(longest)} rows are longer" in told
    assert f"{first} ({longest} tokens)" in told


def test_pictures_over_the_image_budget_are_told(prep, prompt, tiny, tmp_path, capsys):
    from recipes.backbone import load_processor

    config = tiny("model.max_image_tokens=4", "model.max_prompt_tokens=4096")
    processor = load_processor(str(plan(tiny(), "base").path / "checkpoint"), config.model)
    rows = rows_of(prep, "sft")
    shown = {image.path for row in rows for image in row.images}
    length_budget.check("SFT", rows, prompt, processor, config.model, tmp_path)
    out = capsys.readouterr().out
    assert f"SFT: {len(shown)} of {len(shown)} pictures are scaled down to model.max_image_tokens=4" in out
