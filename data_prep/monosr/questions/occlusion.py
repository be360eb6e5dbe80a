"""OJ: how much one would see of an object from another one (paper, section 3.1).

The eye is at the centre of the object at which one stands. What is visible is the share of the object's
outline (the solid angle of its box) that lies within the horizontal field of view and that no other box
hides. The box around the eye hides nothing.
"""

import math
import random
from collections.abc import Iterator

import numpy as np

from data_prep.monosr.questions.drafts import Draft, dealt
from data_prep.monosr.questions.facts import ACROSS, AHEAD, Facts, Frame
from data_prep.monosr.questions.perspective import STANDS
from data_prep.monosr.questions.relations import capital
from data_prep.monosr.scene import Scene

CHOICES = {"clear": "Clearly visible", "partial": "Partially visible", "hidden": "Not visible"}
YES_NO = ("Would you see {one}?", "Is {one} visible to you?", "Can {one} be seen from there?")
CHOICE = (
    "How well would you see {one}?",
    "How much of {one} is visible from there?",
    "Which option says how visible {one} is to you?",
)
FIELD = "Your field of view is {angle:g} degrees wide."
GRID, FINE = 6, 20  # points along each side of a face: to choose what is asked, and to be sure of the answer
RESOLVED = 0.03  # by which the solid angles of both may differ
TRIES = 3  # viewers and objects that are looked at for each question of a format
_FIRST = {"clear": 45, "partial": 40, "hidden": 15}


def _cells(grid: int) -> tuple[np.ndarray, np.ndarray]:
    """Two coordinates (grid * grid,) in -1 to 1 of the middles of a face's cells."""
    middles = (np.arange(grid) + 0.5) / grid * 2 - 1
    first, second = np.meshgrid(middles, middles)
    return first.ravel(), second.ravel()


_CELLS = {grid: _cells(grid) for grid in (GRID, FINE)}


def face_points(scene: Scene, place: int, eye: np.ndarray, grid: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (p, 3) on the faces of a box that are turned to `eye`, in the camera frame, and the solid angles
    (p,) that they stand for; none where the eye is inside the box."""
    half, R = scene.size[place] / 2, scene.R[place]
    local = R.T @ (eye - scene.center[place])
    a, b = _CELLS[grid]
    points, weights = [], []
    for axis in range(3):
        above = abs(local[axis]) - half[axis]
        if above <= 0:
            continue
        first, second = (axis + 1) % 3, (axis + 2) % 3
        face = np.empty((grid * grid, 3))
        face[:, axis] = math.copysign(half[axis], local[axis])
        face[:, first], face[:, second] = a * half[first], b * half[second]
        squared = ((face - local) ** 2).sum(1)
        points.append(face)
        weights.append(above * half[first] * half[second] * 4 / grid**2 / (squared * np.sqrt(squared)))
    if not points:
        return np.empty((0, 3)), np.empty(0)
    return np.concatenate(points) @ R.T + scene.center[place], np.concatenate(weights)


def hits(scene: Scene, boxes: np.ndarray, eye: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether the way from `eye` to each point (p, 3) leads through each of the `boxes` (b,): (b, p)."""
    R, half = scene.R[boxes], scene.size[boxes, None, :] / 2
    start = np.einsum("bij,bi->bj", R, eye - scene.center[boxes])[:, None, :]
    way = (points - eye) @ R
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-half - start) / way, (half - start) / way
    enter = np.fmin(one, other).max(axis=2)
    leave = np.fmax(one, other).min(axis=2)
    return (enter < leave) & (leave > 0) & (enter < 1 - 1e-9)


def near(facts: Facts, eye: np.ndarray, place: int) -> np.ndarray:
    """Places of the boxes that may come between an eye and an object, or hold the eye: the ball around each
    meets the way that the ball around the object has to the eye."""
    scene, boxes, radius = facts.scene, facts.solid, facts.radius
    way = scene.center[place] - eye
    far = np.sqrt(way @ way)
    from_eye = scene.center[boxes] - eye
    along = from_eye @ (way / far)
    aside = np.sqrt(np.maximum((from_eye**2).sum(1) - along**2, 0.0))
    reach = radius[boxes]
    return boxes[
        (aside <= reach + radius[place]) & (along >= -reach) & (along <= far + radius[place] + reach)
    ]


def shares(facts: Facts, frame: Frame, place: int, grid: int = GRID) -> tuple[float, float] | None:
    """The visible share of an object for a viewer, with all annotated boxes in the way and with those alone
    that the filter kept. None where the eye is inside the object or inside a box in the way."""
    scene = facts.scene
    eye = scene.center[frame.stand]
    points, weights = face_points(scene, place, eye, grid)
    if not len(points):
        return None
    seen = (points - eye) @ frame.axes.T
    reach = math.tan(math.radians(facts.options.field_of_view / 2))
    inside = (seen[:, AHEAD] > 0) & (np.abs(seen[:, ACROSS]) <= reach * seen[:, AHEAD])
    if not inside.any():
        return 0.0, 0.0
    boxes = near(facts, eye, place)
    boxes = boxes[(boxes != place) & (boxes != frame.stand)]
    if not len(boxes):
        share = float(weights[inside].sum() / weights.sum())
        return share, share
    local = np.einsum("bij,bi->bj", scene.R[boxes], eye - scene.center[boxes])
    if (np.abs(local) <= scene.size[boxes] / 2).all(1).any():
        return None
    blocked = hits(scene, boxes, eye, points)
    total, kept = weights.sum(), facts.kept[boxes]
    whole = weights[inside & ~blocked.any(0)].sum() / total
    return float(whole), float(weights[inside & ~blocked[kept].any(0)].sum() / total)


def visibility(facts: Facts, share: float) -> str | None:
    """clear, partial or hidden; None close to the limits."""
    options = facts.options
    if share > options.visible + options.visible_margin:
        return "clear"
    if share < options.hidden - options.visible_margin:
        return "hidden"
    middle = options.hidden + options.visible_margin < share < options.visible - options.visible_margin
    return "partial" if middle else None


def oj(facts: Facts) -> Iterator[Draft]:
    """Clearly, partially or not visible, or just visible or not, as both sets of boxes in the way agree."""
    rng = facts.rng("oj")
    found = _found(rng, facts)
    for form in facts.options.formats("oj"):
        open_ones = list(found)
        for _ in range(facts.options.per_format):
            for seen in _in_turn(rng, form):
                chosen = next((item for item in open_ones if item[2] == seen), None)
                if chosen is None:
                    continue
                open_ones.remove(chosen)
                draft = _draft(rng, facts, form, *chosen)
                if draft and _resolved(facts, *chosen[:2]) and _seen(facts, *chosen[:2], FINE) == seen:
                    yield draft
                    break


def _resolved(facts: Facts, frame: Frame, place: int) -> bool:
    """Whether the points are dense enough: close to a face, most of the outline lies between a few."""
    eye = facts.scene.center[frame.stand]
    coarse, fine = (face_points(facts.scene, place, eye, grid)[1].sum() for grid in (GRID, FINE))
    return bool(abs(coarse - fine) <= RESOLVED * fine)


def _in_turn(rng: random.Random, form: str) -> list[str]:
    """The answers in the order of trying; those that are found less often come first more often."""
    order = ["clear", "hidden"] if form == "yes_no" else ["clear", "partial", "hidden"]
    first = rng.choices(order, [_FIRST[seen] for seen in order])[0]
    return [first, *(seen for seen in order if seen != first)]


def _found(rng: random.Random, facts: Facts) -> list[tuple[Frame, int, str]]:
    """Viewers, objects and how visible they are."""
    found = []
    for _ in range(TRIES * facts.options.per_format if facts.viewpoints else 0):
        frame = rng.choice(facts.viewpoints)
        open_ones = facts.others(frame)
        if not open_ones:
            continue
        # Of three objects two are ahead: those behind are hidden without a box in the way.
        ahead = [place for place in open_ones if frame.center[place][AHEAD] > 0]
        place = rng.choice(ahead if ahead and rng.random() < 0.67 else open_ones)
        if seen := _seen(facts, frame, place, GRID):
            found.append((frame, place, seen))
    return found


def _seen(facts: Facts, frame: Frame, place: int, grid: int) -> str | None:
    """How visible an object is, where both sets of boxes in the way agree."""
    both = shares(facts, frame, place, grid)
    if both is None:
        return None
    seen = visibility(facts, both[0])
    return seen if seen == visibility(facts, both[1]) else None


def _draft(rng: random.Random, facts: Facts, form: str, frame: Frame, place: int, seen: str) -> Draft | None:
    places = (frame.stand, frame.face, place)
    names = facts.called(rng, places)
    if names is None:
        return None
    texts = YES_NO if form == "yes_no" else CHOICE
    before = rng.choice(STANDS).format(stand=names[0], face=names[1])
    field = FIELD.format(angle=facts.options.field_of_view)
    question = f"{before} {field} {capital(rng.choice(texts).format(one=names[2]))}"
    more = {"visibility": seen}
    if form == "yes_no":
        answer = "yes" if seen == "clear" else "no"
        return Draft(
            "oj", form, "visibility", places, names, question, answer, viewpoint=places[:2], more=more
        )
    options, letter = dealt(list(CHOICES.values()), list(CHOICES).index(seen), rng)
    return Draft("oj", form, "visibility", places, names, question, letter, options, None, places[:2], more)
