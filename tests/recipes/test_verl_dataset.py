"""verl's data set keeps every row of the RL set or says which it cannot train on."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from PIL import Image
from verl.utils.tokenizer import hf_processor

import recipes.torch_setup  # noqa: F401  before transformers
from data_prep.errors import UserError
from recipes.stages import plan
from recipes.verl_dataset import StrictDataset

SIZES = [(96, 96), (256, 64), (33, 47), (31, 200), (1232, 224), (370, 370), (64, 4000)]


@pytest.fixture(scope="module")
def processor(tiny):
    return hf_processor(str(plan(tiny(), "base").path / "checkpoint"))


@pytest.fixture(scope="module")
def parquet(tiny) -> Path:
    return plan(tiny(), "prep").path / "rl.parquet"


def load(
    path: Path, processor, rows: int, max_prompt_length: int = 4096, max_samples: int = -1
) -> StrictDataset:
    config = OmegaConf.create(
        {"expected_rows": rows, "max_prompt_length": max_prompt_length, "filter_overlong_prompts": False,
         "image_key": "images", "return_raw_chat": True, "cache_dir": str(path.parent)}
    )  # fmt: skip
    return StrictDataset(str(path), processor.tokenizer, config, processor, max_samples)


def with_pictures(folder: Path, sizes: list[tuple[int, int]], per_row: int = 1) -> Path:
    """An RL set of one row a size, each with `per_row` pictures."""
    rows = []
    for index, size in enumerate(sizes):
        picture = folder / f"{index}.png"
        Image.new("RGB", size, (index, 90, 90)).save(picture)
        rows.append(
            {
                "data_source": "x",
                "prompt": [{"role": "user", "content": "<image>" * per_row + f"What is {index}?"}],
                "images": [str(picture)] * per_row, "reward_model": {"style": "rule", "ground_truth": "A"},
                "extra_info": {"id": f"row{index}", "index": index},
            }
        )  # fmt: skip
    path = folder / "rl.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_every_row_of_prep_is_kept(parquet, processor, capsys):
    rows = pq.read_metadata(parquet).num_rows
    data = load(parquet, processor, rows)
    assert len(data) == rows
    assert f"every one of {rows} RL rows kept" in capsys.readouterr().out
    ids = [record["extra_info"]["id"] for record in data]
    assert len(set(ids)) == rows


@pytest.mark.parametrize("per_row", [1, 2])
def test_the_arithmetic_is_the_processors(tmp_path, processor, per_row):
    """Token counts from the pictures' sizes equal those of the rollout's own path, which decodes them."""
    from verl.workers.config import HFModelConfig

    from recipes.verl_cpu.prompts import PromptEncoder

    data = load(with_pictures(tmp_path, SIZES, per_row), processor, len(SIZES), max_prompt_length=100_000)
    folder = processor.tokenizer.name_or_path
    model = HFModelConfig(path=folder, override_config={"attn_implementation": "sdpa"})
    encoder = PromptEncoder(model, OmegaConf.create({}), max_length=100_000)
    for index in range(len(SIZES)):
        counted = data.prompt_tokens(data.dataframe[index])
        assert counted == len(encoder.encode(data[index]["raw_prompt"]).token_ids), SIZES[index]


def test_a_prompt_that_is_too_long_stops_the_run(tmp_path, processor):
    path = with_pictures(tmp_path, [(96, 96), (1600, 1600), (96, 96)])
    with pytest.raises(UserError) as caught:
        load(path, processor, 3, max_prompt_length=50)
    message = str(caught.value)
    assert "1 of 3 RL rows" in message
    assert "row1 (" in message
    assert "row0" not in message
    assert "model.max_prompt_tokens" in message


def test_a_missing_picture_stops_the_run(tmp_path, processor):
    path = with_pictures(tmp_path, [(96, 96), (96, 96)])
    (tmp_path / "1.png").unlink()
    with pytest.raises(UserError, match=r"1 of 2 RL rows .*row1 \(FileNotFoundError"):
        load(path, processor, 2)


def test_a_placeholder_without_a_picture_stops_the_run(tmp_path, processor):
    table = pq.read_table(with_pictures(tmp_path, [(96, 96)])).to_pylist()
    table[0]["prompt"][0]["content"] = "<image><image>What?"
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "rl.parquet")
    with pytest.raises(UserError, match=r"row0 \(AssertionError"):
        load(tmp_path / "rl.parquet", processor, 1)


def test_a_file_with_other_rows_than_it_was_written_with_stops_the_run(tmp_path, processor):
    path = with_pictures(tmp_path, [(96, 96), (96, 96)])
    with pytest.raises(UserError, match="yields 2 rows, not the 5 it holds"):
        load(path, processor, 5)


def test_a_sample_for_validation_is_not_counted(tmp_path, processor):
    assert len(load(with_pictures(tmp_path, [(96, 96), (96, 96)]), processor, 5, max_samples=1)) == 1
