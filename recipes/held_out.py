"""A part of a stage's own training rows that is held out to measure checkpoints by (`validation_rows`).

Whole image groups are held out, for questions about one place answer each other. Test rows are never looked
at. Needs no torch, and pyarrow only where sets are written: a dry run reads this module.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig

from data_prep.atomic import replacing
from data_prep.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

FLAG = "held_out"  # in the `extra_info` of a held-out row


def held_out_groups(groups: Iterable[str], wanted: int, seed: int, key: str) -> set[str]:
    """Image groups with at least `wanted` rows together: the first in a seeded order of their names.

    Args:
        groups: the group of every row.
        key: the key that asks for it, as in `sft.validation_rows`, for the message.

    Raises:
        UserError: no more than half of the rows may be held out.
    """
    rows = Counter(groups)
    if wanted == 0:
        return set()
    chosen: set[str] = set()
    count = 0
    for group in sorted(rows, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest()):
        if count >= wanted:
            break
        chosen.add(group)
        count += rows[group]
    if 2 * count > rows.total() or count < wanted:
        raise UserError(
            f"{key}={wanted} would hold out {count} of {rows.total()} rows, more than half: lower it."
        )
    return chosen


def sets(config: DictConfig, prep: Path, out: Path) -> tuple[Path, Path]:
    """The files that GRPO trains on and is validated with; `out` is the folder that verl writes below."""
    whole = prep / "rl.parquet"
    if not config.grpo.validation_rows:
        return whole, whole
    folder = out.parent / "sets"
    return folder / "train.parquet", folder / "validation.parquet"


def write_sets(config: DictConfig, prep: Path, out: Path) -> tuple[int, int]:
    """Part the RL set as `grpo.validation_rows` says; the numbers of rows to train on and held out.

    A held-out row says so in its `extra_info`, so that whoever scores its answers can tell.

    Raises:
        UserError: as `held_out_groups`.
    """
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.parquet

    whole = prep / "rl.parquet"
    train, validation = sets(config, prep, out)
    if train == whole:
        return pyarrow.parquet.read_metadata(whole).num_rows, 0
    table = pyarrow.parquet.read_table(whole)
    groups = [info["group"] for info in table.column("extra_info").to_pylist()]
    chosen = held_out_groups(groups, config.grpo.validation_rows, config.seed, "grpo.validation_rows")
    aside = pa.array([group in chosen for group in groups])
    kept, held = table.filter(pa.compute.invert(aside)), table.filter(aside)
    for path, part in ((train, kept), (validation, _flagged(held))):
        with replacing(path) as temporary:
            pyarrow.parquet.write_table(part, temporary)
    return kept.num_rows, held.num_rows


def _flagged(table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    place = table.schema.get_field_index("extra_info")
    info = table.column(place).combine_chunks()
    names = [*(field.name for field in info.type), FLAG]
    values = [*info.flatten(), pa.array([True] * len(info))]
    return table.set_column(place, "extra_info", pa.StructArray.from_arrays(values, names=names))
