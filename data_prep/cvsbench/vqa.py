"""Choice questions from the street view about the satellite view (g2s) and the other way round (s2g).

A record is one flat question, or holds several under `questions`, whose keys override the record's.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from data_prep.cvsbench import categories, fields
from data_prep.cvsbench.fields import FieldError
from data_prep.cvsbench.layout import SourceFile
from data_prep.cvsbench.pictures import PictureFinder, scene_id
from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef, Row

Indexed = tuple[int | str, dict[str, Any]]


class PictureFieldError(FieldError):
    """A question whose picture is not there."""


@dataclass
class VqaReader:
    """Reads the records of one file; remembers how many flat questions each image and view has had."""

    source: SourceFile
    finder: PictureFinder
    _flat: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self, record: dict[str, Any], line: int) -> Iterator[Row | Quarantined]:
        """The questions of one record, each a row or the reason why not.

        Row ids are `cvsbench/{subset}/{task}/{image id}.{view}.q{i}`, with `i` the position under
        `questions`, `q_index`, or the how-manieth flat question on that image and view it is.
        """
        stem = f"cvsbench/{self.source.subset}/{self.source.task}"
        try:
            image_id = self._image_id(record)
            view = fields.identifier(record, fields.VIEW_KEYS) or "NA"
            indexed = list(self._questions(record, image_id, view))
        except FieldError as error:
            yield Quarantined(f"{stem}/?", self.source.path, line, str(error))
            return
        group = f"{self.source.subset}/{scene_id(image_id, self.source.subset)}"
        for index, question in indexed:
            row_id = f"{stem}/{image_id}.{view}.q{index}"
            category = ""
            try:
                text = fields.question_text(question)
                choices = fields.options(question.get("options"))
                category = categories.of_row(question, self.source.subset, choices)
                letter = fields.answer(question.get("answer"), choices)
                images, hidden = self._pictures(question, view)
            except FieldError as error:
                kind = "picture" if isinstance(error, PictureFieldError) else "row"
                yield Quarantined(row_id, self.source.path, line, str(error), kind, group, category)
                continue
            yield Row(
                id=row_id, benchmark="cvsbench", subset=self.source.subset, task=self.source.task,
                category=category, group=group, images=images, question=text, options=choices, answer=letter,
                meta={"file": self.source.path, "line": line, "view": view, "hidden_images": hidden},
            )  # fmt: skip

    def _image_id(self, record: dict[str, Any]) -> str:
        """The record's image id; without one, the name of its picture, so that its scene is still known."""
        image_id = fields.identifier(record, fields.IMAGE_ID_KEYS) or self.finder.id_from_paths(record)
        if not image_id:
            raise FieldError(f"no image id (one of {', '.join(fields.IMAGE_ID_KEYS)})")
        return image_id

    def _questions(self, record: dict[str, Any], image_id: str, view: str) -> Iterator[Indexed]:
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
        for index, question in enumerate(nested):
            yield index, {**record, **{key: value for key, value in question.items() if value is not None}}

    def _pictures(self, record: dict[str, Any], view: str) -> tuple[tuple[ImageRef, ...], list[dict]]:
        """What is shown, and what is hidden as far as the release tells."""
        street_role = "panorama" if self.source.subset == "cvusa" else "street"
        try:
            if self.source.task == "g2s":
                shown, role = self.finder.street(record, view), street_role
                hidden, hidden_role = self.finder.hidden_satellite(record), "satellite"
            else:
                shown, role = [self.finder.satellite(record, view)], "satellite"
                hidden, hidden_role = self.finder.hidden_street(record, view), street_role
        except FieldError as error:
            raise PictureFieldError(str(error)) from error
        images = tuple(ImageRef(path, role) for path in shown)
        return images, [{"path": path, "role": hidden_role} for path in hidden]
