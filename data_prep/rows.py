"""The row: one question with its pictures and its answer, the same for every benchmark and stage."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

AnswerType = Literal["choice", "yes_no", "number", "box"]


@dataclass(frozen=True)
class ImageRef:
    """A picture of a row.

    `path` is relative to the image folder of the prepared set; `width` and `height` are pixels of the
    stored (upright, RGB) picture; `role` is one of street, panorama, satellite, composite, marked, frame,
    numbered (a frame with marks), strip (street photos side by side), and of the auxiliary views depth,
    miniature, map.
    """

    path: str
    role: str
    sha256: str = ""
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class Row:
    """One question. Field by field:

    - `id`: unique and stable, derived from the source (never a running number of the whole set).
    - `group`: scene, tile or video; the unit of every split, so that no scene stands on two sides.
    - `images`: what the model is shown, in this order. The view it must infer is never among them.
    - `options`: letter to text in the order of the source, or None for open answers.
    - `answer`: an option letter, "yes"/"no", a number in `unit`, or [x_min, y_min, x_max, y_max] in
      pixels of the row's last picture (not resized), by `answer_type`.
    - `reasoning`: a teacher's reasoning that ends in the answer tag; training rows only.
    - `meta`: source file and line, and what else a table may want (domain, level, view). `aux` holds
      auxiliary information (`data_prep.monosr.auxiliary`); its text stands in the prompt.
    """

    id: str
    benchmark: str
    subset: str
    task: str
    category: str
    group: str
    images: tuple[ImageRef, ...]
    question: str
    options: dict[str, str] | None
    answer: Any
    answer_type: AnswerType = "choice"
    unit: str | None = None
    reasoning: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "images": [vars(image) for image in self.images]}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Row":
        images = tuple(ImageRef(**image) for image in record["images"])
        return cls(**{**record, "images": images})


class Example(NamedTuple):
    """What a model is trained on: chat messages, the completion, and the files of the pictures in order."""

    messages: list[dict[str, Any]]
    completion: str
    images: tuple[str, ...]
