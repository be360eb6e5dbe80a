"""What a run would ask, shown before anything is drawn or paid for."""

from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig

from data_prep.data_root import DataRoot
from data_prep.generation.asks import Ask, asks_of
from data_prep.generation.pairs import read_pairs
from data_prep.generation.prompts import load_instructions
from data_prep.generation.viewpoints import arrow_name
from data_prep.teacher.preview import render


def preview(settings: DictConfig) -> Iterator[str]:
    """The numbers of scenes and requests, then the first request of every variant as it would be sent.

    Raises:
        UserError: as `read_pairs` and `load_instructions` do.
    """
    root = Path(settings.pairs)
    scenes, aside = read_pairs(DataRoot(root), settings.subsets)
    instructions = load_instructions(settings.prompts)
    asks = [
        ask
        for scene in scenes
        for ask in asks_of(
            scene,
            {view.name: arrow_name(scene, view) for view in scene.views if view.arrow},
            settings.tasks,
            Path(),
            instructions,
            settings.spread_letters,
        )
    ]
    boxes = sum(len(view.boxes) for scene in scenes for view in scene.views)
    described = 2 * boxes if "gs_grounding" in settings.tasks else 0
    yield (
        f"{len(scenes)} scenes ({len(aside)} entries set aside): {len(asks)} requests for questions and"
        f" {described} for descriptions, before retries and the blind filter."
    )
    first: dict[str, Ask] = {}
    for ask in asks:
        first.setdefault(ask.variant.name, ask)
    for name, ask in first.items():
        yield "\n" + render(f"{name}, {ask.id}", ask.request, Path())
