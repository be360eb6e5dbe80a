"""The questions of one scene."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from data_prep.monosr.options import Options
from data_prep.monosr.questions.drafts import Draft, row_of
from data_prep.monosr.questions.facts import Facts
from data_prep.monosr.questions.metric import dim, dist, size
from data_prep.monosr.questions.relations import sr
from data_prep.monosr.scene import Scene
from data_prep.rows import Row

MAKERS: dict[str, Callable[[Facts], Iterator[Draft]]] = {"sr": sr, "dist": dist, "size": size, "dim": dim}


def questions_of(
    scene: Scene,
    options: Options,
    seed: int,
    full: Scene | None = None,
    captions: Mapping[str, str] | None = None,
) -> list[Row]:
    """Every question that one scene gives, before balance picks among them.

    They depend on the arguments alone, so on no other scene.

    Args:
        full: all annotated objects of the picture, those too that the filter took out; None: the scene is
            whole.
        captions: phrases of a teacher by annotation id, in place of names from geometry.
    """
    facts = Facts(scene, full, options, seed, captions)
    count: Counter[str] = Counter()
    rows = []
    for task in options.tasks_of(scene.domain):
        for draft in MAKERS[task](facts) if task in MAKERS else ():
            rows.append(row_of(draft, scene, count[draft.task]))
            count[draft.task] += 1
    return rows
