"""Where is the same thing in the other view? Grounding questions, whose answer is a box.

Two pictures are shown, the source and the target. On level 3 the source has the thing in a red box, on the
other levels the question describes it (the files are called 5level; the paper scores levels 3 and 4).
"""

from collections.abc import Iterator
from typing import Any

from data_prep.cvsbench import fields
from data_prep.cvsbench.fields import FieldError, PictureFieldError
from data_prep.cvsbench.records import RecordReader
from data_prep.cvsbench.toolkit import MARKED_LEVEL, grounding_differences, noted, resume_differences
from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef, Row
from rewards.box import box_text

SIDES = {"g2s": ("street", "satellite"), "s2g": ("satellite", "street")}  # source and target by direction
# Sentences that a row's hints become, each on a line of its own under the release's question.
REGION_HINT = "Region of the second picture to look in: {}."
SOURCE_BOX = "In the first picture the thing is inside {} (x_min, y_min, x_max, y_max in its pixels)."


class GroundingReader(RecordReader):
    """Reads gs_grounding of one subset and one file."""

    def read(self, record: dict[str, Any], line: int) -> Iterator[Row | Quarantined]:
        """The questions of one record, each a row or the reason why not.

        Row ids are `cvsbench/{subset}/gs_grounding/{file's direction}/{image id}.{view}.L{level}.q{i}`. The
        direction, the pictures and the view come from the record, all else from the question first.
        """
        try:
            image_id = self.image_id(record)
            view = fields.identifier(record, fields.VIEW_KEYS) or "NA"
            direction = self._direction(record)
            indexed = list(self.questions(record, image_id, view))
        except FieldError as error:
            yield self.set_aside(f"{self.stem}/?", line, error)
            return
        group = self.group(image_id)
        resumed = resume_differences(self.repeats(record, image_id, view))
        for index, question in indexed:
            row_id, category = f"{self.stem}/{image_id}.{view}.L?.q{index}", ""
            try:
                level = fields.level(question)
                row_id, category = f"{self.stem}/{image_id}.{view}.L{level}.q{index}", f"level{level}"
                answer = fields.target_box(question, record)
                text = question_with_hints(
                    fields.question_text(question),
                    fields.text_of(question, "region_hint"),
                    fields.source_box(question, record),
                )
                images = self._pictures(record, image_id, view, direction, level)
                shown = [image.path for image in images]
                toolkit = grounding_differences(self.finder, record, question, direction, shown)
            except FieldError as error:
                yield self.set_aside(row_id, line, error, group, category)
                continue
            meta = {"file": self.source.path, "line": line, "view": view, "hidden_images": []}
            yield Row(
                id=row_id, benchmark="cvsbench", subset=self.source.subset, task=self.source.task,
                category=category, group=group, images=images, question=text, options=None, answer=answer,
                answer_type="box", meta={**meta, "level": level, "direction": direction}
                | noted([*toolkit, *resumed]),
            )  # fmt: skip

    def _direction(self, record: dict[str, Any]) -> str:
        """s2g (satellite to street) or g2s, by the record's task, or by its file where that names neither."""
        named = (fields.text_of(record, "task") or fields.text_of(record, "type")).lower()
        if "sat2ground" in named or "s2g" in named:
            return "s2g"
        return "g2s" if "ground2sat" in named or "g2s" in named else self.source.part

    def _pictures(
        self, record: dict[str, Any], image_id: str, view: str, direction: str, level: int
    ) -> tuple[ImageRef, ...]:
        source, target = SIDES[direction]
        try:
            if level == MARKED_LEVEL:
                first = ImageRef(self.finder.marked(self.folder, image_id, direction), "marked")
            else:
                first = self.finder.side(record, view, source, "source_image")
            return first, self.finder.side(record, view, target, "target_image")
        except FieldError as error:
            raise PictureFieldError(str(error)) from error


def question_with_hints(question: str, region_hint: str = "", source_box: list[float] | None = None) -> str:
    """The release's question, then a sentence for each hint that the row gives."""
    hints = [REGION_HINT.format(region_hint.rstrip("."))] if region_hint else []
    if source_box is not None:
        hints.append(SOURCE_BOX.format(box_text(source_box)))
    return "\n".join([question, *hints])
