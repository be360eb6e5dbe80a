"""The sets that trainers load, written from rows: GRPO's parquet file in the form of verl 0.9.1.

Pictures go in by path, never as bytes (verl's workers would copy them for every sample).
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from data_prep.atomic import replacing
from data_prep.prompts import PromptSpec, placeholder_prompt
from data_prep.rows import Row
from data_prep.scoring import frame

_ROW_GROUP = 2048
# verl cuts the prompt at the first three; tokenizers read the last form as control tokens.
_PLACEHOLDER = re.compile(r"<image>|<video>|<audio>|<\|[^<>|\s]+\|>")


def placeholder_fault(row: Row) -> str | None:
    """Why a row's own words would break the prompt; None where they hold no placeholder or control token."""
    told = row.meta.get("aux", {}).get("text", "")
    for text in (row.question, told, *(row.options or {}).values(), row.reasoning or ""):
        if found := _PLACEHOLDER.search(text):
            return f"the text holds {found[0]!r}, which stands for a picture or a control token"
    return None


def rl_schema(letters: Iterable[str]) -> pa.Schema:
    """Columns of the parquet file; `letters` are all option letters of the set."""
    # A set of boxes alone has no letters, and parquet no empty struct.
    options = pa.struct([(letter, pa.string()) for letter in sorted(letters) or ["A"]])
    texts = ("id", "group", "subset", "task", "category", "answer_type")
    return pa.schema(
        {
            "data_source": pa.string(),
            "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
            "images": pa.list_(pa.string()),
            "ability": pa.string(),
            "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
            "extra_info": pa.struct(
                [
                    *((name, pa.string()) for name in texts),
                    ("options", options),
                    ("coordinates", pa.string()),
                    ("image_size", pa.list_(pa.int64())),
                    ("response_format", pa.string()),
                    ("index", pa.int64()),
                ]
            ),
        }
    )


def rl_record(row: Row, images: Path, prompt: PromptSpec, index: int) -> dict[str, Any]:
    """One line of the parquet file; `images` is the absolute folder of the row's picture paths."""
    return {
        "data_source": f"{row.benchmark}/{row.subset}/{row.task}",
        "prompt": placeholder_prompt(row, prompt),
        "images": [str(images / image.path) for image in row.images],
        "ability": row.category,
        "reward_model": {
            "style": "rule",
            "ground_truth": row.answer if isinstance(row.answer, str) else json.dumps(row.answer),
        },
        "extra_info": {
            "id": row.id,
            "group": row.group,
            "subset": row.subset,
            "task": row.task,
            "category": row.category,
            "answer_type": row.answer_type,
            "options": row.options,
            **frame(row),
            "response_format": prompt.format,
            "index": index,
        },
    }


def write_rl_parquet(
    path: Path, rows: Iterable[Row], letters: Iterable[str], images: Path, prompt: PromptSpec
) -> int:
    """Write verl's set and return its number of rows; memory stays flat in their number."""
    schema = rl_schema(letters)
    count = 0
    with replacing(path) as temporary, parquet.ParquetWriter(temporary, schema) as out:
        for batch in _batches(rl_record(row, images, prompt, index) for index, row in enumerate(rows)):
            out.write_table(pa.Table.from_pylist(batch, schema))
            count += len(batch)
    return count


def _batches(records: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for record in records:
        batch.append(record)
        if len(batch) == _ROW_GROUP:
            yield batch
            batch = []
    if batch:
        yield batch
