"""Read a CVSBench release: a stream of rows, and of questions set aside with the reason."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from data_prep.cvsbench.annotations import read_json
from data_prep.cvsbench.boxes import BoxPairReader
from data_prep.cvsbench.grounding import GroundingReader
from data_prep.cvsbench.layout import SourceFile, Split, find_files
from data_prep.cvsbench.pictures import PictureFinder
from data_prep.cvsbench.vqa import ViewReader, VqaReader
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.quarantine import Quarantined
from data_prep.rows import Row

# Task and form of a file -> what reads its records. Every reader has
# `read(record, line) -> Iterator[Row | Quarantined]`.
READERS = {
    ("g2s", "rows"): VqaReader,
    ("s2g", "rows"): VqaReader,
    ("gs_grounding", "rows"): GroundingReader,
    ("gs_grounding", "boxes"): BoxPairReader,
    ("gs_view", "rows"): ViewReader,
}


def read_release(
    root: Path | DataRoot, subsets: Sequence[str], tasks: Sequence[str], split: Split
) -> Iterator[Row | Quarantined]:
    """Every question of the release's `split`, in the order of its files.

    The rows' image paths are relative to the data root and exist there; no picture is opened, save for its
    size where boxes are shares of it. Memory grows with the ids alone.

    Raises:
        UserError: a file is missing, or a line is not a JSON object (the message names file and line).
    """
    root = root if isinstance(root, DataRoot) else DataRoot(root)
    for source in find_files(root, subsets, tasks, split):
        seen: set[str] = set()
        reader = READERS[source.task, source.form](source, PictureFinder(root, source.subset))
        for line, record in read_records(root, source):
            for item in reader.read(record, line):
                if item.id in seen and not item.id.endswith("?"):
                    yield _repeated(item, source, line)
                    continue
                seen.add(item.id)
                yield item


def read_records(root: DataRoot, source: SourceFile) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with their line numbers, from 1; empty lines hold nothing.

    A file of box pairs is one object; its entries count in place of lines and hold their key as `img_id`.

    Raises:
        UserError: a line is not a JSON object in UTF-8.
    """
    path = root.path / source.path
    if source.form == "boxes":
        yield from _entries(path)
        return
    with open(path, "rb") as lines:
        for number, content in enumerate(lines, start=1):
            if not content.strip():
                continue
            try:
                record = json.loads(content.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise UserError(f"{_place(path, number, content)} is not JSON ({error}). {_MEND}") from error
            if not isinstance(record, dict):
                raise UserError(f"{_place(path, number, content)} is not a JSON object. {_MEND}")
            yield number, record


def _entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f'{path} holds no box pairs ({{"0842_1": {{"rs": [...], "sv": [...]}}}}). {_MEND}')
    for number, (image_id, entry) in enumerate(found.items(), start=1):
        yield number, {**(entry if isinstance(entry, dict) else {}), "img_id": image_id}


REPEATED = "the id is used twice"  # by these words an audit tells this fault from others
_MEND = "Download the file again, or mend the line."


def _place(path: object, number: int, content: bytes) -> str:
    beginning = content.decode("utf-8", "replace").strip()[:60]
    return f"{path}, line {number}: {beginning!r}"


def _repeated(item: Row | Quarantined, source: SourceFile, line: int) -> Quarantined:
    reason = f"{REPEATED}: same image, view and question number as an earlier question"
    return Quarantined(item.id, source.path, line, reason, "row", item.group, item.category)
