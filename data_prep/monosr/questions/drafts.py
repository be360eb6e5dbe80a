"""A question before it is a row, and how it becomes one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from data_prep.monosr.options import LEVELS
from data_prep.monosr.scene import Scene
from data_prep.rows import ImageRef, Row

LETTERS = "ABCD"
ANSWER_TYPES = {"yes_no": "yes_no", "numeric": "number", "mc3": "choice", "mc4": "choice"}


@dataclass(frozen=True)
class Draft:
    """A question of one scene.

    - `asked`: the relation or quantity, in one word; `places`: the objects in the order of their mention, and
      `names`: what the question calls each.
    - `answer`: "yes" or "no", a number in `unit`, or an option letter.
    - `viewpoint`: the object at which one stands, and the one that is faced.
    - `more`: further entries of the row's `meta`.
    """

    task: str
    format: str
    asked: str
    places: tuple[int, ...]
    names: tuple[str, ...]
    question: str
    answer: Any
    options: dict[str, str] | None = None
    unit: str | None = None
    viewpoint: tuple[int, int] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def dealt(texts: Sequence[str], right: int, rng: Any) -> tuple[dict[str, str], str]:
    """Options with their letters in a random order, and the letter of `texts[right]`."""
    order = list(range(len(texts)))
    rng.shuffle(order)
    return {LETTERS[n]: texts[place] for n, place in enumerate(order)}, LETTERS[order.index(right)]


QUANTITATIVE = ("dist", "size", "dim")


def row_of(draft: Draft, scene: Scene, number: int) -> Row:
    """The row of a draft; `number` is its place among the scene's questions of the same task.

    `meta`: level, source, `relation` (or, for sizes and distances, `quantity`), `objects` and `viewpoint` as
    annotation ids, `names` of the objects in the question, and `base`, the task that a situational question
    puts into a situation.
    """
    ids = scene.ids
    base = draft.more.get("base", draft.task)
    meta = {
        "level": LEVELS[draft.task],
        "source": scene.source,
        "quantity" if base in QUANTITATIVE else "relation": draft.asked,
        "objects": [ids[place] for place in draft.places],
        "names": list(draft.names),
        "viewpoint": draft.viewpoint and [ids[place] for place in draft.viewpoint],
        **draft.more,
    }
    return Row(
        id=f"monosr/{scene.id}/{draft.task}.{number}",
        benchmark="monosr",
        subset=scene.domain,
        task=draft.task,
        category=draft.format,
        group=scene.id,
        images=(ImageRef(scene.image, "frame", "", scene.width, scene.height),),
        question=draft.question,
        options=draft.options,
        answer=draft.answer,
        answer_type=ANSWER_TYPES[draft.format],  # type: ignore[arg-type]
        unit=draft.unit,
        meta=meta,
    )
