"""What is asked of the generator: the pairs of every variant, and the questions that become of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from data_prep.generation.pairs import Scene, View, view_id
from data_prep.generation.prompts import reply_schema, request_text
from data_prep.generation.templates import G2S_CVUSA, G2S_FOV, S2G_CVUSA, S2G_FOV, Variant
from data_prep.generation.validate import Question
from data_prep.teacher.messages import Request

FILES = {"g2s": "g2s/Ground2Sat_VQA", "s2g": "s2g/Sat2Ground_VQA"}
SYMMETRY_PHOTOS = 4  # the paper's limit
SYMMETRY_VIEW = "0"
# A scene has one answer to symmetry, so its further views are asked for the rest.
_G2S_FOV_FURTHER = replace(G2S_FOV, categories=G2S_FOV.categories[:2], least=2, most=2)


@dataclass(frozen=True)
class Ask:
    """A request for the questions of one pair: `id` is {subset}/{task}/{scene}.{view}."""

    variant: Variant
    scene: Scene
    view: View
    request: Request

    @property
    def id(self) -> str:
        return f"{self.variant.subset}/{self.variant.task}/{self.scene.name}.{self.view.name}"


@dataclass(frozen=True)
class Made:
    """A question with the pair that it is about; `id` is unique in a release."""

    id: str
    ask: Ask
    question: Question

    @property
    def view(self) -> str:
        """The view that its row names: symmetry is about all photos of the scene."""
        return SYMMETRY_VIEW if self.question.category.name == "symmetry" else self.ask.view.name

    @property
    def where(self) -> tuple[str, str, str]:
        return self.ask.variant.subset, self.ask.variant.task, self.question.category.name


def asks_of(
    scene: Scene,
    arrows: Mapping[str, str],
    tasks: Sequence[str],
    release: Path,
    instructions: Mapping[str, str],
    spread_letters: bool,
) -> Iterator[Ask]:
    """The requests of a scene.

    Args:
        arrows: view to its satellite picture with the arrow, relative to `release`; FOV views without one
            are not asked about.
    """
    first = True
    for view in scene.views:
        if scene.subset == "fov" and view.name not in arrows:
            continue
        variants = [G2S_CVUSA, S2G_CVUSA]
        if scene.subset == "fov":
            variants = [G2S_FOV if first else _G2S_FOV_FURTHER, S2G_FOV]
        first = False
        for variant in variants:
            if variant.task in tasks:
                paths, names = _pictures(scene, view, variant, arrows)
                yield Ask(
                    variant,
                    scene,
                    view,
                    Request(
                        instructions[variant.name],
                        request_text(variant, names, spread_letters),
                        tuple(release / path for path in paths),
                        reply_schema(variant),
                    ),
                )


def _pictures(
    scene: Scene, view: View, variant: Variant, arrows: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """What is attached, and what each picture is called in the request."""
    if scene.subset == "cvusa":
        return [scene.satellite, view.path], ["the satellite image", "the panorama"]
    paths, names = [arrows[view.name], view.path], ["the satellite image with the arrow", "the photo"]
    if variant.category("symmetry"):
        further = [other.path for other in scene.views if other is not view][: SYMMETRY_PHOTOS - 1]
        paths += further
        names += ["a further photo of the place"] * len(further)
    return paths, names


def made_of(ask: Ask, questions: Sequence[Question]) -> list[Made]:
    """The questions of an ask with their ids, {ask}.{category}, numbered where a category comes again."""
    made: list[Made] = []
    for question in questions:
        name = question.category.name
        before = sum(other.question.category.name == name for other in made)
        made.append(Made(f"{ask.id}.{name}{before + 1 if before else ''}", ask, question))
    return made


def vqa_rows(made: Sequence[Made], arrows: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, Any]]:
    """The release's rows of one subset and task: a line for every pair, with its questions.

    Args:
        arrows: FOV scene to what `asks_of` takes.
    """
    by_pair: dict[tuple[str, str], list[Made]] = {}
    for one in made:
        by_pair.setdefault((one.ask.scene.name, one.view), []).append(one)
    for (name, view), together in by_pair.items():
        scene, variant = together[0].ask.scene, together[0].ask.variant
        street = together[0].ask.view.path
        if scene.subset == "cvusa":
            record: dict[str, Any] = {"img_id": name}
            top = scene.satellite
        else:
            record = {"sample_id": name, "view_id": view_id(view)}
            top = scene.satellite if view == SYMMETRY_VIEW else arrows[name][view]
        yield {
            **record,
            "dataset": scene.subset,
            "task": variant.task,
            "source_image": street,
            "target_image": top,
            "questions": [_fields(one.question, variant) for one in together],
        }


def _fields(question: Question, variant: Variant) -> dict[str, Any]:
    return {
        "question": f"{variant.lead} {question.text}".strip(),
        "options": question.category.labelled,
        "answer": question.answer,
        "category": question.category.name,
    }
