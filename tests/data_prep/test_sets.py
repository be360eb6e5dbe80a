"""The RL set: written from rows, read back through verl's own dataset class."""

import json
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf
from PIL import Image
from prep_runs import compose_config
from pyarrow import parquet

from data_prep.prompts import build_messages, load_prompt
from data_prep.rows import ImageRef, Row
from data_prep.sets import placeholder_fault, write_rl_parquet

PROMPT = load_prompt(OmegaConf.create({"format": "imagination_cot", "file": None}))


def make_rows(images: Path, count: int) -> list[Row]:
    """Questions with one and with three pictures, two and four options, and text that is hard to quote."""
    images.mkdir()
    rows = []
    for number in range(count):
        shown = []
        for place in range(3 if number % 3 == 0 else 1):
            name = f"{number}-{place}.png"
            Image.new("RGB", (64, 32 + 32 * place), (number * 9 % 256, place * 90, 7)).save(images / name)
            shown.append(ImageRef(name, "street", "0" * 64, 64, 32 + 32 * place))
        letters = "ABCD" if number % 2 else "AB"
        rows.append(
            Row(
                id=f"cvsbench/fov/g2s/{number:04d}.1.q0", benchmark="cvsbench", subset="fov", task="g2s",
                category="roof", group=f"fov/{number:04d}", images=tuple(shown),
                question=f'Was ist das — "{number}"\n<b>这是什么?</b>',
                options={letter: f"text {letter}" for letter in letters}, answer=letters[-1],
            )
        )  # fmt: skip
    return rows


@pytest.fixture
def written(tmp_path):
    rows = make_rows(tmp_path / "images", 12)
    path = tmp_path / "rl.parquet"
    assert write_rl_parquet(path, rows, "ABCD", tmp_path / "images", PROMPT) == 12
    return rows, path


def test_columns(written, tmp_path):
    rows, path = written
    records = parquet.read_table(path).to_pylist()
    text = build_messages(rows[0], PROMPT)[0]["content"][-1]["text"]
    assert records[0] == {
        "data_source": "cvsbench/fov/g2s",
        "prompt": [{"role": "user", "content": "<image>" * 3 + text}],
        "images": [str(tmp_path / "images" / f"0-{place}.png") for place in range(3)],
        "ability": "roof",
        "reward_model": {"style": "rule", "ground_truth": "B"},
        "extra_info": {
            "id": "cvsbench/fov/g2s/0000.1.q0",
            "group": "fov/0000",
            "subset": "fov",
            "task": "g2s",
            "category": "roof",
            "answer_type": "choice",
            "options": {"A": "text A", "B": "text B", "C": None, "D": None},
            "coordinates": None,
            "image_size": None,
            "response_format": "imagination_cot",
            "index": 0,
        },
    }
    assert [record["extra_info"]["index"] for record in records] == list(range(12))


def test_many_rows_go_through_in_batches(tmp_path):
    row = make_rows(tmp_path / "images", 1)[0]
    path = tmp_path / "rl.parquet"
    assert write_rl_parquet(path, (row for _ in range(5000)), "AB", tmp_path / "images", PROMPT) == 5000
    assert parquet.read_metadata(path).num_rows == 5000
    assert parquet.read_metadata(path).num_row_groups == 3


def test_the_reward_reads_what_the_set_says(written):
    from rewards import compute_score

    for record in parquet.read_table(written[1]).to_pylist():
        gold = record["reward_model"]["ground_truth"]
        right = compute_score(record["data_source"], f"<answer>{gold}</answer>", gold, record["extra_info"])
        assert right["accuracy"] == 1.0
        absent = compute_score(record["data_source"], "<answer>D</answer>", gold, record["extra_info"])
        assert absent["accuracy"] == float(gold == "D")


def test_verl_loads_every_row_with_its_prompt_and_its_pictures(written, tmp_path):
    pytest.importorskip("verl", reason="verl is not installed")
    from recipes.backbone import load_processor  # isort: skip  it prepares torchvision for what follows
    from verl.utils.dataset.rl_dataset import RLHFDataset

    from recipes.base_model import build

    rows, path = written
    model = compose_config("scale=tiny").model
    build(tmp_path / "model", model.build, [row.question for row in rows], [], seed=0)
    processor = load_processor(str(tmp_path / "model"), model)
    config = OmegaConf.create(
        {"filter_overlong_prompts": True, "max_prompt_length": 4096, "filter_overlong_prompts_workers": 1,
         "cache_dir": str(tmp_path / "cache"), "image_patch_size": 16}
    )  # fmt: skip
    dataset = RLHFDataset([str(path)], processor.tokenizer, config, processor)
    assert len(dataset) == len(rows)
    for item, row in zip((dataset[index] for index in range(len(rows))), rows, strict=True):
        parts = item["raw_prompt"][0]["content"]
        assert [part for part in parts if part["type"] == "text"] == [
            build_messages(row, PROMPT)[0]["content"][-1]
        ]
        opened = [np.asarray(Image.open(part["image"])) for part in parts if part["type"] == "image"]
        expected = [np.asarray(Image.open(tmp_path / "images" / image.path)) for image in row.images]
        assert len(opened) == len(expected)
        assert all(np.array_equal(a, b) for a, b in zip(opened, expected, strict=True))
        chat = processor.apply_chat_template(item["raw_prompt"], add_generation_prompt=True, tokenize=False)
        ours = processor.apply_chat_template(
            build_messages(row, PROMPT), add_generation_prompt=True, tokenize=False
        )
        assert chat == ours
        assert item["extra_info"]["id"] == row.id


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Is <image> shown?", "<image>"),
        ("<video>", "<video>"),
        ("stop <|im_end|> here", "<|im_end|>"),
        ("<|vision_start|><|image_pad|>", "<|vision_start|>"),
        ("a < b | c > d", None),
        ("<b>bold</b> images", None),
    ],
)
@pytest.mark.parametrize("place", ["question", "option", "reasoning"])
def test_words_that_would_break_a_prompt(text, fault, place):
    row = Row(
        id="r", benchmark="b", subset="s", task="t", category="c", group="g", images=(), answer="A",
        question=text if place == "question" else "?",
        options={"A": text if place == "option" else "x", "B": "y"},
        reasoning=text if place == "reasoning" else None,
    )  # fmt: skip
    found = placeholder_fault(row)
    assert found is None if fault is None else found is not None and repr(fault) in found


def test_an_answer_that_is_no_text_is_written_as_json(tmp_path):
    row = make_rows(tmp_path / "images", 1)[0]
    box = Row(**{**vars(row), "answer": [1, 2, 30, 40], "answer_type": "box", "options": None})
    write_rl_parquet(tmp_path / "rl.parquet", [box, row], "AB", tmp_path / "images", PROMPT)
    first, second = parquet.read_table(tmp_path / "rl.parquet").to_pylist()
    shown = row.images[-1]
    assert first["extra_info"]["coordinates"] == "pixel"
    assert first["extra_info"]["image_size"] == [shown.width, shown.height]
    assert second["extra_info"]["image_size"] is None
    assert json.loads(first["reward_model"]["ground_truth"]) == [1, 2, 30, 40]
    assert first["extra_info"]["options"] is None
    assert second["extra_info"]["options"] == row.options


def test_a_set_of_boxes_alone_is_written_and_paid(tmp_path):
    from rewards import compute_score

    row = make_rows(tmp_path / "images", 1)[0]
    box = Row(**{**vars(row), "answer": [1, 2, 30, 40], "answer_type": "box", "options": None})
    write_rl_parquet(tmp_path / "rl.parquet", [box], (), tmp_path / "images", PROMPT)
    [record] = parquet.read_table(tmp_path / "rl.parquet").to_pylist()
    gold, info = record["reward_model"]["ground_truth"], record["extra_info"]
    right = compute_score("x", "<answer> [1, 2, 30, 40] </answer>", gold, info)
    assert (right["accuracy"], right["out_of_range"]) == (1.0, 0)
    half = compute_score("x", "<answer> [1, 2, 30, 21] </answer>", gold, info)
    assert half["accuracy"] == 0.5
    off = compute_score("x", "<answer> [1, 2, 3000, 4000] </answer>", gold, info)
    assert off["out_of_range"] == 2
