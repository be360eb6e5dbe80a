"""The questions of one scene."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from data_prep.monosr.options import Options
from data_prep.monosr.questions.drafts import Draft, row_of
from data_prep.monosr.questions.facts import Facts
from data_prep.monosr.questions.grounding import og
from data_prep.monosr.questions.metric import dim, dist, size
from data_prep.monosr.questions.occlusion import oj
from data_prep.monosr.questions.perspective import pr
from data_prep.monosr.questions.relations import sr
from data_prep.monosr.questions.situational import situational
from data_prep.monosr.scene import Scene
from data_prep.rows import Row

MAKERS: dict[str, Callable[[Facts], Iterator[Draft]]] = {
    "sr": sr,
    "dist": dist,
    "size": size,
    "dim": dim,
    "oj": oj,
    "pr": pr,
    "og": og,
}


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
    makers = [MAKERS[task] for task in options.tasks_of(scene.domain)]
    count: Counter[str] = Counter()
    rows = []
    for draft in chain(*(make(facts) for make in makers), situational(facts, MAKERS)):
        rows.append(row_of(draft, facts.scene, count[draft.task]))
        count[draft.task] += 1
    return rows
