"""Questions, answers and an oracle's reasoning for a scene, in CVSBench's categories and option strings.

Stems and options follow the release (its fixed option order, so a letter means a class). The oracle
sees the scene, but writes only what the visible picture shows.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from data_prep.synthetic.draw import footprint, panorama_box, photo_box
from data_prep.synthetic.scene import QUARTERS, SIDES, Scene
from rewards import RESPONSE_FORMATS

VEGETATION_OPTIONS = {"trees": "A", "shrubs": "B", "grass": "C", "none": "D"}
CORNERS = ("right-forward", "right-rear", "left-rear", "left-forward")
PANORAMA_PARTS = ("middle", "right quarter", "rim", "left quarter")
HEIGHTS = {True: "tall", False: "low"}
INTENTION = {
    "s2g": "From above to the ground.",
    "g2s": "From the ground to above.",
}


@dataclass(frozen=True)
class Question:
    """`view` is 1 to 4 (the camera faces side view - 1); CVUSA has one view, and its camera faces the top."""

    task: str
    category: str
    view: int
    question: str
    options: tuple[str, ...]
    answer: str
    observations: str
    projection: str
    conclusion: str
    objects: tuple[str, ...]

    def reasoning(self, response_format: str) -> str:
        """The oracle's text in one response format, ending in the answer tag."""
        parts = {
            "imagination_cot": (self.observations, INTENTION[self.task], self.projection, self.conclusion),
            "structured_cot": (
                self.observations,
                "\n".join(self.objects),
                f"{self.projection} {self.conclusion}",
            ),
        }[response_format]
        headings = RESPONSE_FORMATS[response_format].headings
        body = "\n".join(f"{heading}\n{text}" for heading, text in zip(headings, parts, strict=True))
        return f"{body}\n<answer> {self.answer} </answer>"


def location(scene: Scene, rng: random.Random, view: int) -> Question:
    """CVUSA S2G: in which part of the panorama would the red building stand?"""
    target = scene.coloured("red")
    return Question(
        task="s2g",
        category="location",
        view=view,
        question=(
            "I am standing at the satellite center and facing the top of the satellite image. Assume the"
            " fixed mapping: panorama center corresponds to the top. Which region of the panorama shows the"
            " red building?"
        ),
        options=(
            "The center region",
            "The left-quarter region",
            "The right-quarter region",
            "The far edge region",
        ),
        answer="ACDB"[target.side],
        observations=_seen_from_above(scene),
        projection=f"The red building is {SIDES[target.side]}.",
        conclusion=f"Facing top, {SIDES[target.side]} is the {PANORAMA_PARTS[target.side]}.",
        objects=_boxes(scene, from_above=True),
    )


def relative_position(scene: Scene, rng: random.Random, view: int) -> Question:
    """FOV S2G: where does the blue building lie for a camera at the arrow's tail?"""
    return _relative_position(scene, "blue", view)


def relative_position_red(scene: Scene, rng: random.Random, view: int) -> Question:
    """The same of the red building: the category that asks for most is asked twice."""
    return _relative_position(scene, "red", view)


def _relative_position(scene: Scene, colour: str, view: int) -> Question:
    heading, target = view - 1, scene.coloured(colour)
    quarter = target.quarter(heading)
    return Question(
        task="s2g",
        category="relative_position",
        view=view,
        question=(
            "The photo is taken from the tail of the arrow, facing the direction of the arrow."
            f" Where is the {colour} building in the photo?"
        ),
        options=(
            "Left side",
            "Right side",
            "Near the center (mostly straight ahead)",
            "Not visible in the forward view",
        ),
        answer="CBDA"[quarter],
        observations=_seen_along_arrow(scene, heading),
        projection=f"Along the arrow, the {colour} building is {QUARTERS[quarter]}.",
        conclusion=f"The camera has it {QUARTERS[quarter]}.",
        objects=_boxes(scene, from_above=True),
    )


def vegetation(scene: Scene, rng: random.Random, view: int) -> Question:
    """CVUSA S2G: what grows in one sector around the camera?"""
    return _vegetation(scene, rng.randrange(4), 0, "vegetation", view)


def vegetation_sector(scene: Scene, rng: random.Random, view: int) -> Question:
    """FOV S2G: the same for a camera at the arrow's tail, in one of the two forward sectors."""
    return _vegetation(scene, rng.choice((0, 3)), view - 1, "vegetation_sector", view)


def _vegetation(scene: Scene, sector: int, heading: int, category: str, view: int) -> Question:
    corner = (sector + heading) % 4
    kind = scene.vegetation[corner]
    where = f"{SIDES[corner]} to {SIDES[(corner + 1) % 4]}"
    fov = category == "vegetation_sector"
    stem = (
        "The photo is taken from the tail of the arrow, facing the direction of the arrow."
        if fov
        else "I am standing at the satellite center and facing the top of the satellite image."
    )
    pointing = f" The arrow points {SIDES[heading]}." if fov else ""
    last = "No obvious vegetation" if fov else "No visible vegetation"
    names = ("Trees", "Shrubs / bushes", "Grass / lawn") if fov else ("Trees", "Shrubs", "Grass")
    plants = ", ".join(f"{SIDES[k]} to {SIDES[(k + 1) % 4]} {v}" for k, v in enumerate(scene.vegetation))
    return Question(
        task="s2g",
        category=category,
        view=view,
        question=f"{stem} What is the dominant vegetation type in the {CORNERS[sector]} sector?",
        options=(*names, last),
        answer=VEGETATION_OPTIONS[kind],
        observations=f"Seen: {plants}.{pointing}",
        projection=f"The {CORNERS[sector]} sector is the corner from {where}.",
        conclusion=f"From the ground one would see {kind} there.",
        objects=_boxes(scene, from_above=True),
    )


def distance_to_camera(scene: Scene, rng: random.Random, view: int) -> Question:
    """CVUSA G2S: which of two buildings is closer, told by their size in the panorama."""
    red, blue = scene.coloured("red"), scene.coloured("blue")
    nearer, farther = (red, blue) if red.near else (blue, red)
    return Question(
        task="g2s",
        category="distance_to_camera",
        view=view,
        question=(
            "Which building is closer to the satellite center? Building A: the red building."
            " Building B: the blue building."
        ),
        options=(
            "Building A",
            "Building B",
            "They are about the same distance",
            "Both are not visible in Satellite",
        ),
        answer="A" if nearer is red else "B",
        observations=_seen_from_ground(scene),
        projection=f"The {nearer.colour} building is tall and the {farther.colour} building is low.",
        conclusion=f"What looks taller is nearer: {nearer.colour}.",
        objects=_boxes(scene, from_above=False),
    )


def roof_form(scene: Scene, rng: random.Random, view: int) -> Question:
    """CVUSA G2S: the roof's form, told by its outline in the panorama."""
    target = scene.coloured("red")
    return Question(
        task="g2s",
        category="roof_form",
        view=view,
        question="What roof form does the red building have?",
        options=("Flat roof", "Gabled roof", "Arched/curved roof", "Mixed/unclear roof form"),
        answer="ABCD"[("flat", "gabled", "arched", "mixed").index(target.roof)],
        observations=_seen_from_ground(scene),
        projection=f"The red outline is {target.roof}.",
        conclusion="From above the roof has the same form.",
        objects=_boxes(scene, from_above=False),
    )


def facade(scene: Scene, rng: random.Random, view: int) -> Question:
    """FOV G2S: does a ridge straight ahead show in the top view? Only the photo tells."""
    building = scene.on_side(view - 1)
    ridge = building is not None and building.roof in ("gabled", "mixed")
    outline = "nothing" if building is None else f"{building.colour} {building.roof}"
    return Question(
        task="g2s",
        category="facade",
        view=view,
        question="Is a roof ridge straight ahead visible or identifiable in the Satellite top-down view?",
        options=("Visible in Satellite", "Not visible in Satellite"),
        answer="A" if ridge else "B",
        observations=f"Seen: ahead {outline}.",
        projection="A ridge faces the sky." if ridge else "No ridge faces the sky.",
        conclusion="What faces the sky shows from above.",
        objects=(f"{outline} bbox: {photo_box(building)} ahead",),
    )


def symmetry(scene: Scene, rng: random.Random, view: int) -> Question:
    """FOV G2S, all four photos (view 0): is the red building's roof the same left and right of its middle?"""
    target = scene.coloured("red")
    symmetric = target.roof != "mixed"
    return Question(
        task="g2s",
        category="symmetry",
        view=0,
        question="Does the red building appear left-right symmetric in the Satellite top-down view?",
        options=("Symmetric", "Not symmetric"),
        answer="A" if symmetric else "B",
        observations=f"The red outline is {target.roof}.",
        projection="From above both halves look alike." if symmetric else "From above the halves differ.",
        conclusion="The outline carries over to the top view.",
        objects=(f"red {target.roof} bbox: {photo_box(target)} in one photo",),
    )


Maker = Callable[[Scene, random.Random, int], Question]
CVUSA: tuple[Maker, ...] = (location, vegetation, distance_to_camera, roof_form)
FOV: tuple[Maker, ...] = (relative_position, relative_position_red, vegetation_sector, facade, symmetry)


def _seen_from_above(scene: Scene) -> str:
    """The place before the thing: the word that is about to be said then tells where to look."""
    places = (f"{SIDES[side]} {_standing(scene, side)}" for side in range(4))
    return f"Seen: {', '.join(places)}."


def _seen_along_arrow(scene: Scene, heading: int) -> str:
    """The sides in the order of a turn to the right that begins at the arrow: the turn is read off the
    picture before it is used."""
    turn = [(heading + k) % 4 for k in range(4)]
    words = (f"{QUARTERS[k]} {SIDES[side]} {_standing(scene, side)}" for k, side in enumerate(turn))
    return f"The arrow points {SIDES[heading]}. Seen: {', '.join(words)}."


def _standing(scene: Scene, side: int) -> str:
    return getattr(scene.on_side(side), "colour", "nothing")


def _seen_from_ground(scene: Scene) -> str:
    words = []
    for side in range(4):
        building = scene.on_side(side)
        what = "nothing" if building is None else f"{building.colour} {HEIGHTS[building.near]}"
        words.append(f"{QUARTERS[side]} {what}")
    return f"Seen: {', '.join(words)}."


def _boxes(scene: Scene, from_above: bool) -> tuple[str, ...]:
    place = SIDES if from_above else QUARTERS
    box = footprint if from_above else panorama_box
    return tuple(f"{b.colour} building bbox: {box(b)} {place[b.side]}" for b in scene.buildings)
