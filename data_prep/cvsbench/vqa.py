"""Choice questions from the street view about the satellite view (g2s) and the other way round (s2g)."""

from collections.abc import Iterator
from typing import Any

from data_prep.cvsbench import categories, fields
from data_prep.cvsbench.fields import FieldError, PictureFieldError
from data_prep.cvsbench.records import RecordReader
from data_prep.cvsbench.toolkit import (
    Difference,
    composite_differences,
    noted,
    resume_differences,
    vqa_differences,
)
from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef, Row

# A nested question has these of its own; all else it may take from its record.
_OWN = {"question", "options", "answer"}


class VqaReader(RecordReader):
    """Reads g2s and s2g."""

    def read(self, record: dict[str, Any], line: int) -> Iterator[Row | Quarantined]:
        """The questions of one record, each a row or the reason why not.

        Row ids are `cvsbench/{subset}/{task}/{image id}.{view}.q{i}`; see `questions` for `i`.
        """
        try:
            image_id = self.image_id(record)
            view = fields.identifier(record, fields.VIEW_KEYS) or "NA"
            indexed = list(self.questions(record, image_id, view))
        except FieldError as error:
            yield self.set_aside(f"{self.stem}/?", line, error)
            return
        group = self.group(image_id)
        resumed = resume_differences(self.repeats(record, image_id, view))
        for index, own in indexed:
            question = own if own is record else _with_defaults(own, record)
            row_id = f"{self.stem}/{image_id}.{view}.q{index}"
            category = ""
            try:
                text = fields.question_text(question)
                choices = fields.options(question.get("options"))
                category = self.category(question, choices)
                letter = fields.answer(question.get("answer"), choices)
                images, hidden = self.pictures(question, view)
            except FieldError as error:
                yield self.set_aside(row_id, line, error, group, category)
                continue
            yield Row(
                id=row_id, benchmark="cvsbench", subset=self.source.subset, task=self.source.task,
                category=category, group=group, images=images, question=text, options=choices, answer=letter,
                meta={"file": self.source.path, "line": line, "view": view, "hidden_images": hidden}
                | noted([*self.differences(question, [image.path for image in images]), *resumed]),
            )  # fmt: skip

    def category(self, question: dict[str, Any], choices: dict[str, str]) -> str:
        return categories.of_row(question, self.source.subset, choices)

    def pictures(self, question: dict[str, Any], view: str) -> tuple[tuple[ImageRef, ...], list[dict]]:
        """What is shown, and what is hidden as far as the release tells."""
        street_role = "panorama" if self.source.subset == "cvusa" else "street"
        try:
            if self.source.task == "g2s":
                shown, role = self.finder.street(question, view), street_role
                hidden, hidden_role = self.finder.hidden_satellite(question), "satellite"
            else:
                shown, role = [self.finder.satellite(question, view)], "satellite"
                hidden, hidden_role = self.finder.hidden_street(question, view), street_role
        except FieldError as error:
            raise PictureFieldError(str(error)) from error
        images = tuple(ImageRef(path, role) for path in shown)
        return images, [{"path": path, "role": hidden_role} for path in hidden]

    def differences(self, question: dict[str, Any], shown: list[str]) -> list[Difference]:
        return vqa_differences(self.source, self.finder, question, shown)


class ViewReader(VqaReader):
    """Reads gs_view: View-Arrow (arrow_select) and View-Image (arrow_street), one composite picture each.

    Row ids are `cvsbench/fov/gs_view/{part}/{image id}.{view}.q{i}`.
    """

    def category(self, question: dict[str, Any], choices: dict[str, str]) -> str:
        return {"arrow_select": "view_arrow", "arrow_street": "view_image"}[self.source.part]

    def pictures(self, question: dict[str, Any], view: str) -> tuple[tuple[ImageRef, ...], list[dict]]:
        try:
            path = self.finder.composite(question, view, f"{self.folder}/{self.source.part}")
        except FieldError as error:
            raise PictureFieldError(str(error)) from error
        return (ImageRef(path, "composite"),), []

    def differences(self, question: dict[str, Any], shown: list[str]) -> list[Difference]:
        return composite_differences(self.finder, question, f"{self.folder}/{self.source.part}", shown)


def _with_defaults(question: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    inherited = {key: value for key, value in record.items() if key not in _OWN}
    return {**inherited, **{key: value for key, value in question.items() if value is not None}}
