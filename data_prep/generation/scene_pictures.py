"""The pictures of one scene in the release: those of the user's, and those that are drawn on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.generation.arrows import NoRoomError, Rules
from data_prep.generation.grounding import Thing, mark_things
from data_prep.generation.pairs import Aside, Scene
from data_prep.generation.release_folder import ReleaseFolder
from data_prep.generation.viewpoints import draw_arrow, viewpoint_rows
from data_prep.images import PictureError


@dataclass
class Prepared:
    """A scene whose pictures are in the release.

    - `arrows`: FOV view to its satellite picture with the arrow.
    - `view_rows`: kind of viewpoint question to its rows; `things`: what grounding asks for.
    """

    scene: Scene
    arrows: dict[str, str] = field(default_factory=dict)
    view_rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    things: list[Thing] = field(default_factory=list)


def prepare(
    scene: Scene,
    pairs: Path,
    tasks: Sequence[str],
    rules: Rules,
    seed: int,
    folder: ReleaseFolder,
    aside: list[Aside],
) -> Prepared | None:
    """Copy and draw what `tasks` need; None, with an entry in `aside`, where a picture is unusable."""
    try:
        pictures = {name: folder.copy(pairs / name, name) for name in scene.pictures}
    except (PictureError, OSError) as error:
        aside.append(Aside(scene.group, "picture", str(error)))
        return None
    found = Prepared(scene)
    if scene.subset == "fov":
        for view in scene.views:
            try:
                found.arrows[view.name] = draw_arrow(scene, view, pictures[scene.satellite], rules, folder)
            except NoRoomError as error:
                aside.append(Aside(f"{scene.group}.{view.name}", "arrow", str(error)))
        if "gs_view" in tasks:
            found.view_rows = viewpoint_rows(scene, found.arrows, pictures, rules, seed, folder, aside)
    if "gs_grounding" in tasks:
        found.things = mark_things(scene, pictures, folder)
    return found
