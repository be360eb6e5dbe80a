"""What the readers of all tasks share: a record's ids, its questions, and how a question is set aside.

A record is one flat question, or holds several under `questions`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from data_prep.cvsbench import fields
from data_prep.cvsbench.fields import FieldError, PictureFieldError
from data_prep.cvsbench.layout import SourceFile
from data_prep.cvsbench.pictures import PictureFinder, scene_id
from data_prep.quarantine import Quarantined

Indexed = tuple[int | str, dict[str, Any]]


@dataclass
class RecordReader:
    """Reads the records of one file; remembers how many flat questions each image and view has had."""

    source: SourceFile
    finder: PictureFinder
    _flat: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def stem(self) -> str:
        """Beginning of the row ids; with the part where the task has several files."""
        part = f"/{self.source.part}" if self.source.part else ""
        return f"cvsbench/{self.source.subset}/{self.source.task}{part}"

    @property
    def folder(self) -> str:
        """Where the file lies, relative to the data root."""
        return self.source.path.rpartition("/")[0]

    def image_id(self, record: dict[str, Any]) -> str:
        """The record's image id; without one, the name of its picture, so that its scene is still known."""
        image_id = fields.identifier(record, fields.IMAGE_ID_KEYS) or self.finder.id_from_paths(record)
        if not image_id:
            raise FieldError(f"no image id (one of {', '.join(fields.IMAGE_ID_KEYS)})")
        return image_id

    def group(self, image_id: str) -> str:
        return f"{self.source.subset}/{scene_id(image_id, self.source.subset)}"

    def questions(self, record: dict[str, Any], image_id: str, view: str) -> Iterator[Indexed]:
        """Each question with its number: its place under `questions`, `q_index`, or the how-manieth flat
        question on that image and view it is. A flat record is its own question."""
        nested = record.get("questions")
        if nested is None:
            index = fields.identifier(record, ("q_index",))
            if index is None:
                index = str(self._flat[image_id, view])
                self._flat[image_id, view] += 1
            yield index, record
            return
        if not isinstance(nested, list) or not nested or not all(isinstance(q, dict) for q in nested):
            raise FieldError(f"`questions` is not a list of questions: {nested!r:.80}")
        yield from enumerate(nested)

    def repeats(self, record: dict[str, Any], image_id: str, view: str) -> bool:
        """Whether the flat record that was read last is the second or a later one without a number of its own
        on that image and view."""
        unnumbered = record.get("questions") is None and fields.identifier(record, ("q_index",)) is None
        return unnumbered and self._flat[image_id, view] > 1

    def set_aside(
        self, row_id: str, line: int, error: FieldError, group: str = "", category: str = ""
    ) -> Quarantined:
        kind = "picture" if isinstance(error, PictureFieldError) else "row"
        return Quarantined(row_id, self.source.path, line, str(error), kind, group, category)
