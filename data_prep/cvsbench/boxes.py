"""Grounding rows from box pairs (`annotations`): the answer is computed from the target picture's size."""

from collections.abc import Iterator
from typing import Any

from data_prep.cvsbench import fields
from data_prep.cvsbench.annotations import BoxPair, box_pairs
from data_prep.cvsbench.fields import FieldError, PictureFieldError
from data_prep.cvsbench.grounding import MARKED_LEVEL, SIDES, question_with_hints
from data_prep.cvsbench.records import RecordReader
from data_prep.images import PictureError, upright_size
from data_prep.quarantine import Quarantined
from data_prep.rows import ImageRef, Row

KINDS = {"street": "street-level photo", "panorama": "street-level panorama", "satellite": "satellite image"}
QUESTION = (
    "One thing in the first picture, a {}, is given by its box. Which box has the same thing in the second?"
)
Size = tuple[int, int]


class BoxPairReader(RecordReader):
    """Reads one direction (the source's part) of a file of box pairs, as questions of level 3.

    Row ids are `cvsbench/{subset}/gs_grounding/{direction}/{image id}.{view}.L3.q{i}`, with `i` the place of
    the pair. The view is what stands after "_" in a FOV image id.
    """

    def read(self, record: dict[str, Any], line: int) -> Iterator[Row | Quarantined]:
        """The questions of one image id; `record` holds it as `img_id` beside `rs` and `sv`."""
        image_id = record["img_id"]
        view = (image_id.partition("_")[2] if self.source.subset == "fov" else "") or "NA"
        start = f"{self.stem}/{image_id}.{view}.L{MARKED_LEVEL}"
        group, category = self.group(image_id), f"level{MARKED_LEVEL}"
        try:
            pairs = box_pairs(image_id, record)
            images, sizes = self._pictures(record, view)
        except FieldError as error:
            yield self.set_aside(f"{start}.q?", line, error, group, category)
            return
        meta = {"file": self.source.path, "line": line, "view": view, "hidden_images": []}
        meta |= {"level": MARKED_LEVEL, "direction": self.source.part}
        for pair in pairs:
            question, answer = grounding_question(pair, self.source.part, images[0].role, *sizes)
            row_id = f"{start}.q{pair.number}"
            yield Row(
                id=row_id, benchmark="cvsbench", subset=self.source.subset, task=self.source.task,
                category=category, group=group, images=images, question=question, options=None, answer=answer,
                answer_type="box", meta=meta,
            )  # fmt: skip

    def _pictures(self, record: dict[str, Any], view: str) -> tuple[tuple[ImageRef, ImageRef], list[Size]]:
        """Source and target with their sizes. No box is drawn, so the source is the plain picture."""
        try:
            source, target = (
                self.finder.side(record, view, side, key)
                for side, key in zip(SIDES[self.source.part], ("source_image", "target_image"), strict=True)
            )
            return (source, target), [upright_size(self.finder.file(i.path)) for i in (source, target)]
        except (FieldError, PictureError) as error:
            raise PictureFieldError(str(error)) from error


def grounding_question(
    pair: BoxPair, direction: str, source_role: str, source_size: Size, target_size: Size
) -> tuple[str, list[float]]:
    """The question that gives the thing's box in the source picture, and its box in the target picture.

    Both boxes are in pixels; sizes are (width, height).
    """
    boxes = {"street": pair.street, "satellite": pair.satellite}
    source, target = (boxes[side] for side in SIDES[direction])
    given = fields.box(source.pixels(*source_size), "the source box")
    question = question_with_hints(QUESTION.format(KINDS[source_role]), source_box=given)
    return question, target.pixels(*target_size)
