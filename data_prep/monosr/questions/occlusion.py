"""OJ: how much one would see of an object from another one (paper, section 3.1).

The eye is at the centre of the object at which one stands. What is visible is the share of the object's
outline (the solid angle of its box) that lies within the horizontal field of view and that no other box
hides. The box around the eye hides nothing.
"""

import math
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from data_prep.monosr.questions.drafts import Draft, dealt
from data_prep.monosr.questions.facts import Facts
from data_prep.monosr.questions.frames import ACROSS, AHEAD, Frame
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


def _faces(grid: int) -> np.ndarray:
    """(3, 3, grid * grid) the middles of a face's cells in halves of a box's extents, for each axis that a
    face lies across."""
    middles = (np.arange(grid) + 0.5) / grid * 2 - 1
    first, second = (found.ravel() for found in np.meshgrid(middles, middles))
    faces = np.ones((3, 3, grid * grid))
    for axis in range(3):
        faces[axis, (axis + 1) % 3], faces[axis, (axis + 2) % 3] = first, second
    return faces


_FACES = {grid: _faces(grid) for grid in (GRID, FINE)}


class View(NamedTuple):
    """What an eye has of an object: the visible share of its outline, with all annotated boxes in the way
    (`whole`) and with those alone that the filter kept (`kept`), and its solid angle in steradians. The
    shares are None where the eye is inside the object or inside a box in the way."""

    whole: float | None
    kept: float | None
    angle: float


class _Outlines(NamedTuple):
    """The `f` faces that objects turn to their eyes, each in p points.

    `owner`: (f,) which of the objects, ascending. `way`: (f, 3, p) from the eye to each point in the camera
    frame, in metres. `angle`: (f, p) the solid angle that it stands for.
    """

    owner: np.ndarray
    way: np.ndarray
    angle: np.ndarray


def _outlines(scene: Scene, eyes: np.ndarray, places: np.ndarray, grid: int) -> _Outlines:
    """The outlines of `places` (k,) for as many `eyes` (k, 3); none where the eye is inside the box."""
    half, R = scene.size[places] / 2, scene.R[places]
    eye = ((eyes - scene.center[places])[:, None] @ R)[:, 0]  # in the box's own frame
    owner, axes, areas, extents = [], [], [], []
    for k, (ways, halves) in enumerate(zip(eye.tolist(), half.tolist(), strict=True)):
        for axis in range(3):
            if (above := abs(ways[axis]) - halves[axis]) > 0:
                owner.append(k)
                axes.append(axis)
                areas.append(above * halves[axis - 2] * halves[axis - 1] * 4 / grid**2)
                extents.append([*halves[:axis], math.copysign(halves[axis], ways[axis]), *halves[axis + 1 :]])
    owners = np.array(owner, dtype=int)
    extent = np.array(extents).reshape(-1, 3, 1)
    way = _FACES[grid][axes] * extent - eye[owners][:, :, None]
    squared = (way**2).sum(1)
    angle = np.array(areas)[:, None] / (squared * np.sqrt(squared))
    return _Outlines(owners, R[owners] @ way, angle)


def _near(facts: Facts, eyes: np.ndarray, stands: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(k, b) which boxes of `facts.solid` may come between eye and object, or hold the eye: the ball around
    each meets the way that the ball around the object has to the eye."""
    boxes, centers, reach = facts.solid
    way = facts.scene.center[places] - eyes
    own = np.sqrt((facts.scene.size[places] ** 2).sum(1))[:, None] / 2
    far = np.sqrt((way**2).sum(1))[:, None]
    from_eye = centers - eyes[:, None]
    along = (from_eye @ (way / far)[:, :, None])[:, :, 0]
    aside = np.sqrt(np.maximum((from_eye**2).sum(2) - along**2, 0.0))
    other = (boxes != places[:, None]) & (boxes != stands[:, None])
    return other & (aside <= reach + own) & (along >= -reach) & (along <= far + own + reach)


def _hits(start: np.ndarray, way: np.ndarray, half: np.ndarray) -> np.ndarray:
    """(m, p) whether ways lead through boxes, in whose frames they are: from `start` (m, 3), each to p points
    `way` (m, 3, p) further on. `half`: (m, 3) of the boxes' extents."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-half - start)[:, :, None] / way, (half - start)[:, :, None] / way
    enter, leave = np.fmin(one, other).max(1), np.fmax(one, other).min(1)
    return (enter < leave) & (leave > 0) & (enter < 1 - 1e-9)


def views(facts: Facts, seen: Sequence[tuple[Frame, int]], grid: int = GRID) -> list[View]:
    """What each viewer has of an object, with `grid` x `grid` points on every face."""
    scene, count = facts.scene, len(seen)
    frames, places = [frame for frame, _ in seen], np.array([place for _, place in seen])
    stands = np.array([frame.stand for frame in frames])
    eyes = scene.center[stands]
    owner, way, angle = _outlines(scene, eyes, places, grid)
    turned = np.array([frame.axes for frame in frames])[owner] @ way
    across, ahead = turned[:, ACROSS], turned[:, AHEAD]
    reach = math.tan(math.radians(facts.options.field_of_view / 2))
    inside = (ahead > 0) & (np.abs(across) <= reach * ahead)
    total, within = _sums(owner, angle, count), _sums(owner, inside, count)

    number, box = np.nonzero(_near(facts, eyes, stands, places))
    box = facts.solid.places[box]
    R, half = scene.R[box], scene.size[box] / 2
    start = ((eyes[number] - scene.center[box])[:, None] @ R)[:, 0]
    holding = number[(np.abs(start) <= half).all(1)]
    face, pair = np.nonzero((owner[:, None] == number) & inside.any(1)[:, None])
    hit = _hits(start[pair], R[pair].swapaxes(1, 2) @ way[face], half[pair])
    whole = kept = _sums(owner, angle * _open(inside, face, hit), count)
    if not (counts := facts.kept[box[pair]]).all():
        kept = _sums(owner, angle * _open(inside, face[counts], hit[counts]), count)
    unclear = {*np.flatnonzero(total == 0).tolist(), *holding[within[holding] > 0].tolist()}
    return [
        View(None, None, outline) if k in unclear else View(one / outline, other / outline, outline)
        for k, (one, other, outline) in enumerate(
            zip(whole.tolist(), kept.tolist(), total.tolist(), strict=True)
        )
    ]


def _open(inside: np.ndarray, face: np.ndarray, hit: np.ndarray) -> np.ndarray:
    """(f, p) which points inside the view no box hides, by the boxes (m, p) before the faces (m,)."""
    free = inside.copy()
    if len(face):
        first = np.flatnonzero(np.diff(face, prepend=-1))
        free[face[first]] &= ~np.logical_or.reduceat(hit, first)
    return free


def _sums(owner: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """(count,) sums of the values (f, p) of each owner's faces."""
    return np.bincount(owner, values.sum(1), count)


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
    sure: dict[int, bool] = {}
    for form in facts.options.formats("oj"):
        open_ones = dict(enumerate(found))
        for _ in range(facts.options.per_format):
            for seen in _in_turn(rng, form):
                chosen = next((n for n, item in open_ones.items() if item.seen == seen), None)
                if chosen is None:
                    continue
                item = open_ones.pop(chosen)
                draft = _draft(rng, facts, form, item.frame, item.place, seen)
                if draft and chosen not in sure:
                    sure[chosen] = _sure(facts, item)
                if draft and sure[chosen]:
                    yield draft
                    break


class _Found(NamedTuple):
    """A viewer, an object, how visible it is, and its solid angle by the coarse grid."""

    frame: Frame
    place: int
    seen: str
    angle: float


def _sure(facts: Facts, found: _Found) -> bool:
    """Whether the fine grid says the same, and the coarse one is dense enough: close to a face, most of the
    outline lies between a few points."""
    (fine,) = views(facts, [(found.frame, found.place)], FINE)
    return abs(found.angle - fine.angle) <= RESOLVED * fine.angle and _agreed(facts, fine) == found.seen


def _in_turn(rng: random.Random, form: str) -> list[str]:
    """The answers in the order of trying; those that are found less often come first more often."""
    order = ["clear", "hidden"] if form == "yes_no" else ["clear", "partial", "hidden"]
    first = rng.choices(order, [_FIRST[seen] for seen in order])[0]
    return [first, *(seen for seen in order if seen != first)]


def _found(rng: random.Random, facts: Facts) -> list[_Found]:
    """Viewers and objects of which it is certain how visible they are."""
    tried = []
    for _ in range(TRIES * facts.options.per_format if facts.viewpoints else 0):
        frame = rng.choice(facts.viewpoints)
        open_ones = facts.others(frame)
        if not open_ones:
            continue
        # Of three objects two are ahead: those behind are hidden without a box in the way.
        ahead = [place for place in open_ones if frame.center[AHEAD][place] > 0]
        place = rng.choice(ahead if ahead and rng.random() < 0.67 else open_ones)
        tried.append((frame, place))
    return [
        _Found(frame, place, seen, view.angle)
        for (frame, place), view in zip(tried, views(facts, tried) if tried else (), strict=True)
        if (seen := _agreed(facts, view))
    ]


def _agreed(facts: Facts, view: View) -> str | None:
    """How visible an object is, where both sets of boxes in the way agree."""
    if view.whole is None or view.kept is None:
        return None
    seen = visibility(facts, view.whole)
    return seen if seen == visibility(facts, view.kept) else None


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
