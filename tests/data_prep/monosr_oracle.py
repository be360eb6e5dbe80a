"""An independent judge of MonoSR's answers, written from the definitions and not from the generator.

Nothing here adds up box parameters in closed form. A box is a cloud of points; its middle and its extents
are read off the cloud; a viewer is a 4 x 4 matrix that carries the cloud into its own frame; what a viewer
sees of a box is the share of random rays that meet it before anything else. Which relation or quantity is
asked is read from the words of the question, not from `meta` alone.

Definitions (x right, y down, z forward; metres): left and right by x, in front (nearer) and behind by z,
above and below by y, of the clouds' middles; a viewer at A that faces B looks along the horizontal part of
the way from A to B. Length, height, width are the sides of a box along its own axes; footprint is length
times width.
"""

import itertools
import re
from dataclasses import dataclass

import numpy as np

from data_prep.monosr.references import noun
from data_prep.monosr.scene import Scene
from data_prep.rows import Row

PIXELS, RATIO = 15.0, 1.1  # two things differ to the eye from here on; the generator keeps a little more
NAME = (
    r"\bthe (?:(?P<most>leftmost|rightmost|largest|smallest|tallest) )?(?:(?P<nth>second|third) )?"
    r"(?P<noun>{nouns})\b(?: (?P<how>nearest to the camera|farthest from the camera|from the left\b"
    r"|nearest to the (?P<anchor>{nouns})\b))?"
)
OF_YOU = re.compile(r" (?:on your (?:left|right)|in front of you|behind you)")
CORNERS = ("---", "+--", "++-", "-+-", "--+", "+-+", "+++", "-++")  # Omni3D's order: length, height, width
STEPS = 5  # points along each side of a cloud
RAYS = 4000
METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": 0.3048}
SQUARE_METRES = {"m2": 1.0, "cm2": 1e-4, "ft2": 0.3048**2}
FORMATS = {
    "sr": {"mc4", "yes_no"}, "dist": {"numeric", "mc4"}, "size": {"numeric", "mc4"}, "dim": {"yes_no"},
    "oj": {"mc3", "yes_no"}, "pr": {"mc4", "yes_no"}, "og": {"mc4"},
}  # fmt: skip
# A relation in words -> axis of the viewer's frame, and on which side of the second thing the first one lies.
RELATIONS = {
    "left": (0, -1),
    "right": (0, 1),
    "above": (1, -1),
    "below": (1, 1),
    "front": (2, -1),
    "behind": (2, 1),
}
# The same against the viewer itself: in front of one is ahead.
OF_ONESELF = {"left": (0, -1), "right": (0, 1), "front": (2, 1), "behind": (2, -1)}
RELATION_WORDS = re.compile(r"\b(left|right|above|below|front|behind)\b", re.IGNORECASE)
COMPARISONS = {
    "taller": r"taller|greater height", "longer": r"longer|greater length", "wider": r"wider|greater width",
    "larger": r"larger in volume|take up more space",
}  # fmt: skip
QUANTITIES = {
    "footprint": r"footprint", "depth": r"\bdepth\b|\bdeep\b", "length": r"How long|the length of",
    "height": r"How tall|the height of", "width": r"How wide|the width of",
}  # fmt: skip


@dataclass(frozen=True)
class Margins:
    """From where on an answer is certain; the tests give the generator the same margins."""

    metres: float = 0.10
    share: float = 0.5
    depth: float = 0.1
    angle: float = 40.0
    pixels: float = 20.0
    ratio: float = 1.15
    field_of_view: float = 90.0
    visible: float = 0.8
    hidden: float = 0.2
    share_margin: float = 0.05


class Oracle:
    """Judges questions of one scene, which has every annotated object: any of them hides others."""

    def __init__(self, scene: Scene, margins: Margins) -> None:
        self.scene, self.margins = scene, margins
        self.place = {name: index for index, name in enumerate(scene.ids)}
        self.nouns = [noun(category) for category in scene.categories]
        words = "|".join(sorted(map(re.escape, set(self.nouns)), key=len, reverse=True))
        self.names = re.compile(NAME.format(nouns=words), re.IGNORECASE)
        self.local = np.array(list(itertools.product(np.linspace(-0.5, 0.5, STEPS), repeat=3)))
        self.ends = [(self.local[:, axis] == -0.5, self.local[:, axis] == 0.5) for axis in range(3)]
        ends = [[-0.5 if sign == "-" else 0.5 for sign in corner] for corner in CORNERS]
        self.order = [int((self.local == corner).all(axis=1).argmax()) for corner in ends]
        self.clouds = [self._cloud(index) for index in range(len(scene))]
        self.corners = [cloud[self.order] for cloud in self.clouds]

    def faults(self, row: Row) -> list[str]:
        """What is wrong with a question, a sentence each; none where it is right and certain."""
        base = row.meta.get("base", row.task)
        shape = list(self._shape(row, base))
        if shape:
            return shape
        objects = [self.place[name] for name in row.meta["objects"]]
        return [*self._names(row, base, objects), *getattr(self, f"_{base}")(row, objects)]

    # What a question must look like

    def _shape(self, row: Row, base: str):
        if unknown := [name for name in row.meta["objects"] if name not in self.place]:
            yield f"names unknown objects {unknown}"
        if row.category not in FORMATS[base]:
            yield f"{base} as {row.category}"
        if row.answer_type == "choice" and row.answer not in (row.options or {}):
            yield f"the answer {row.answer} is no option"
        if row.options and len(set(row.options.values())) != len(row.options):
            yield "two options are the same"
        if row.options and list(row.options) != list("ABCD")[: 3 if row.category == "mc3" else 4]:
            yield f"the options are {list(row.options)}"
        if row.answer_type == "yes_no" and row.answer not in ("yes", "no"):
            yield f"the answer {row.answer} is neither yes nor no"
        level = {"situational": "high"}.get(row.task, "mid" if base in ("oj", "pr", "og") else "low")
        if row.meta["level"] != level:
            yield f"{row.task} has level {row.meta['level']}"

    # Names

    def _names(self, row: Row, base: str, objects: list[int]):
        """Whether each name in the question fits one object of the picture, and that is the one of `meta`."""
        named = []
        for found in self.names.finditer(row.question):
            if base == "og" and OF_YOU.match(row.question, found.end()):
                continue  # what is to be found has no name of its own
            fitting = self._fitting(found)
            if len(fitting) != 1:
                yield f"{found[0]!r} fits {[self.scene.ids[i] for i in fitting]}"
            named += fitting[:1]
        expected = row.meta["objects"][:2] if base == "og" else row.meta["objects"]
        if expected != (ids := [self.scene.ids[i] for i in named]):
            yield f"names {ids}, and is about {expected}"

    def _fitting(self, found: re.Match) -> list[int]:
        """All objects that a name may mean: those of its noun that no other beats by what one can see."""
        group = [i for i, word in enumerate(self.nouns) if word == found["noun"].lower()]
        how = (found["most"] or found["how"] or "").lower()
        if not how:
            return group
        middles = {i: self.clouds[i].mean(axis=0) for i in group}
        columns = {i: (self.scene.K @ middles[i])[0] / middles[i][2] for i in group}
        if how == "from the left":
            row = sorted(group, key=lambda i: columns[i])
            number = {"second": 1, "third": 2}[found["nth"].lower()]
            return [i for i in group if abs(columns[i] - columns[row[number]]) < PIXELS]
        if how in ("leftmost", "rightmost"):
            best = min(columns.values()) if how == "leftmost" else max(columns.values())
            return [i for i in group if abs(columns[i] - best) < PIXELS]
        if how in ("largest", "smallest", "tallest"):
            sides = {i: self._sides(i) for i in group}
            values = {i: sides[i][1] if how == "tallest" else np.prod(sides[i]) for i in group}
        else:
            origin = np.zeros(3)
            if found["anchor"]:
                (anchor,) = [i for i, word in enumerate(self.nouns) if word == found["anchor"].lower()]
                origin = self.clouds[anchor].mean(axis=0)
            values = {i: float(np.linalg.norm(middles[i] - origin)) for i in group}
        if how in ("smallest", "nearest to the camera") or found["anchor"]:
            return [i for i in group if values[i] < min(values.values()) * RATIO]
        return [i for i in group if values[i] > max(values.values()) / RATIO]

    # SR and PR

    def _sr(self, row: Row, objects: list[int]):
        one, other = objects
        yield from self._apart(one, other)
        yield from self._relation(row, self.clouds[one], self.clouds[other], RELATIONS)
        asked = self._word(row.question) if row.category == "yes_no" else self._word(row.options[row.answer])
        yield from self._seen(asked, one, other)

    def _seen(self, asked: str, one: int, other: int):
        """Whether the picture shows what is asked: outlines side by side, or a difference of depth."""
        if asked in ("left", "right"):
            for first, second in ((one, other), (other, one)):
                seen = self.scene.K @ self.clouds[first].mean(axis=0)
                if self.scene.box2d[second, 0] < seen[0] / seen[2] < self.scene.box2d[second, 2]:
                    yield f"{self.scene.ids[first]} stands in the columns of {self.scene.ids[second]}"
        if asked in ("front", "behind"):
            near, far = sorted(self.clouds[index][:, 2].mean() for index in (one, other))
            if far - near < self.margins.depth * far - 1e-9:
                yield f"depths of {near:.2f} and {far:.2f} m look alike"

    def _pr(self, row: Row, objects: list[int]):
        stand, face, *asked = objects
        view = self._view(row, stand, face)
        yield from self._apart(asked[0], asked[1] if len(asked) > 1 else stand)
        first = moved(self.clouds[asked[0]], view)
        if len(asked) == 1:
            yield from self._relation(row, first, moved(self.clouds[stand], view), OF_ONESELF)
            yield from self._on_a_side(self._word(row.question), first)
            return
        second = moved(self.clouds[asked[1]], view)
        if first.mean(axis=0)[2] <= 0 or second.mean(axis=0)[2] <= 0:
            yield "one of the two is behind the viewer, where near and far are unclear"
        yield from self._relation(row, first, second, RELATIONS)

    def _on_a_side(self, asked: str, cloud: np.ndarray):
        """Whether a thing lies far enough off the bearings that are neither that side nor its opposite."""
        x, _, z = cloud.mean(axis=0)
        bearing = np.degrees(np.arctan2(x, z))  # 0 ahead, 90 right
        straight = (0, 180, -180) if asked in ("left", "right") else (90, -90)
        if (off := min(abs(bearing - one) for one in straight)) < self.margins.angle - 1e-6:
            yield f"a bearing of {bearing:.0f} degrees is only {off:.0f} off what is neither {asked} nor not"

    def _relation(self, row: Row, first: np.ndarray, second: np.ndarray, sides: dict[str, tuple[int, int]]):
        """Whether the answer agrees with how the cloud `first` lies to `second`, and no other option does."""
        if row.category == "yes_no":
            word = self._word(row.question)
            if word != row.meta["relation"]:
                yield f"asks {word}, and meta says {row.meta['relation']}"
                return
            truth = self._truth(first, second, *sides[word])
            if truth is None or truth != (row.answer == "yes"):
                yield f"{word} is {truth}, the answer {row.answer}"
            return
        truths = {
            letter: self._truth(first, second, *sides[self._word(text)])
            for letter, text in row.options.items()
        }
        if truths[row.answer] is not True:
            yield f"option {row.answer} ({row.options[row.answer]}) is {truths[row.answer]}"
        if self._word(row.options[row.answer]) != row.meta["relation"]:
            yield f"the answer is {row.options[row.answer]}, and meta says {row.meta['relation']}"
        for letter, truth in truths.items():
            if letter != row.answer and truth is not False:
                yield f"the wrong option {letter} ({row.options[letter]}) is {truth}"

    def _truth(self, first: np.ndarray, second: np.ndarray, axis: int, sign: int) -> bool | None:
        """Whether `first` lies on that side of `second`; None where one cannot be sure.

        By the share of pairs of points, one of each cloud, that lie so; by the gap of the middles against the
        margins; and upright by how much of the lower one's height the two have in common.
        """
        a, b = first[:, axis], second[:, axis]
        share = (np.sign(a[:, None] - b[None, :]) * sign > 0).mean() + (a[:, None] == b[None, :]).mean() / 2
        spans = (a.max() - a.min(), b.max() - b.min())
        clear = (
            abs(a.mean() - b.mean()) > max(self.margins.metres, self.margins.share * sum(spans) / 2) - 1e-9
        )
        if axis == 1:
            common = min(a.max(), b.max()) - max(a.min(), b.min())
            if common > 0:  # beside each other: surely neither above nor below if they share half of a height
                return False if common >= min(spans) / 2 - 1e-9 else None
        return bool(share > 0.5) if clear else None

    def _word(self, text: str) -> str:
        """The relation that a question asks for or an option names: the last phrase of that kind in it."""
        asked = ASKED.findall(text) or RELATION_WORDS.findall(text)
        return next(word for word in re.split(r"\W", asked[-1].lower()) if word in RELATIONS)

    # Dist, Size, Dim

    def _dist(self, row: Row, objects: list[int]):
        middles = [self.clouds[index].mean(axis=0) for index in objects]
        if (len(objects) == 1) != (row.meta["quantity"] == "camera_distance"):
            yield f"{row.meta['quantity']} of {len(objects)} objects"
        other = middles[1] if len(objects) == 2 else np.zeros(3)
        # Walk the straight way in small steps, and add them up.
        way = other + np.linspace(0, 1, 101)[:, None] * (middles[0] - other)
        yield from self._number(row, np.linalg.norm(np.diff(way, axis=0), axis=1).sum(), METRES)

    def _size(self, row: Row, objects: list[int]):
        (index,) = objects
        quantity = next(name for name, words in QUANTITIES.items() if re.search(words, row.question))
        if quantity != row.meta["quantity"]:
            yield f"asks {quantity}, and meta says {row.meta['quantity']}"
        length, height, width = self._sides(index)
        value = {"length": length, "height": height, "width": width, "depth": width}.get(
            quantity, length * width
        )
        yield from self._number(row, value, SQUARE_METRES if quantity == "footprint" else METRES)

    def _dim(self, row: Row, objects: list[int]):
        quantity = next(name for name, words in COMPARISONS.items() if re.search(words, row.question))
        if quantity != row.meta["quantity"]:
            yield f"asks {quantity}, and meta says {row.meta['quantity']}"
        values = []
        for index in objects:
            length, height, width = self._sides(index)
            values.append(
                {"longer": length, "taller": height, "wider": width}.get(quantity, length * height * width)
            )
        if max(values) / min(values) < self.margins.ratio - 1e-9:
            yield f"{quantity}: {values[0]:.3f} and {values[1]:.3f} are too close"
        if (values[0] > values[1]) != (row.answer == "yes"):
            yield f"{quantity}: {values[0]:.3f} and {values[1]:.3f}, the answer {row.answer}"

    def _sides(self, index: int) -> tuple[float, float, float]:
        """Length, height and width: how far apart the outermost layers of the cloud lie."""
        cloud = self.clouds[index]
        sides = []
        for axis in range(3):
            near, far = (cloud[end] for end in self.ends[axis])
            sides.append(float(np.linalg.norm(far - near, axis=1).mean()))
        return tuple(sides)  # type: ignore[return-value]

    def _number(self, row: Row, value: float, units: dict[str, float]):
        """The answer, or the right option and no other, must be the value within half a percent."""
        if row.category == "numeric":
            if row.unit not in units:
                yield f"the unit {row.unit} does not fit"
            elif abs(row.answer * units[row.unit] - value) > 0.0051 * value:
                yield f"the answer {row.answer} {row.unit}, and the value {value / units[row.unit]:.5g}"
            if not re.search(UNIT_WORDS[row.unit], row.question):
                yield f"the question does not name its unit {row.unit}"
            return
        for letter, text in row.options.items():
            number, unit = text.split()
            off = abs(float(number) * units[unit] - value) / value
            if (letter == row.answer) != (off <= 0.0051) or (letter != row.answer and off < 0.1):
                yield f"option {letter} ({text}) is off by {off:.1%}, the answer is {row.answer}"

    # OJ and OG

    def _oj(self, row: Row, objects: list[int]):
        stand, face, seen = objects
        share = self.visible_share(row, stand, face, seen)
        if f"{self.margins.field_of_view:g} degrees" not in row.question:
            yield "the question does not tell the field of view"
        # Random rays know the share within about two hundredths; the generator keeps off the limits by more.
        slack = self.margins.share_margin - 0.03
        if min(abs(share - self.margins.visible), abs(share - self.margins.hidden)) < slack:
            yield f"a share of {share:.3f} is too close to a limit"
        kind = (
            "clear"
            if share > self.margins.visible
            else "hidden"
            if share < self.margins.hidden
            else "partial"
        )
        if row.category == "yes_no":
            if (kind == "clear") != (row.answer == "yes") or kind == "partial":
                yield f"a share of {share:.3f} is {kind}, the answer {row.answer}"
            return
        said = row.options[row.answer].split()[0].lower()
        if said != {"clear": "clearly", "partial": "partially", "hidden": "not"}[kind]:
            yield f"a share of {share:.3f} is {kind}, the answer {row.options[row.answer]}"

    def visible_share(self, row: Row, stand: int, face: int, seen: int) -> float:
        """The share of a box's outline that one sees from the middle of another box, looking at a third.

        Rays leave the eye in random directions of the cone that holds the box. Of those that meet it, the
        share that lies in the horizontal field of view and meets no other box before.
        """
        eye = self.clouds[stand].mean(axis=0)
        rays = cone(np.random.default_rng(0), self.clouds[seen], eye)
        near, _ = self._entry(seen, eye, rays)
        rays, near = rays[np.isfinite(near)], near[np.isfinite(near)]
        if not len(rays):
            return 0.0
        turned = rays @ self._view(row, stand, face)[:3, :3].T
        free = np.abs(np.degrees(np.arctan2(turned[:, 0], turned[:, 2]))) <= self.margins.field_of_view / 2
        for index in range(len(self.scene)):
            if index in (stand, seen):
                continue
            before, behind = self._entry(index, eye, rays)
            inside = np.isfinite(before) & (before < 0) & (behind > 0)
            free &= ~(np.isfinite(before) & (before > 0) & (before < near)) | inside
        return float(free.mean())

    def _entry(self, index: int, eye: np.ndarray, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far along each ray (p, 3) a box is entered and left, by its pairs of planes; inf: never."""
        corners = self.clouds[index]
        near, far = np.full(len(rays), -np.inf), np.full(len(rays), np.inf)
        for axis in range(3):
            low, high = (corners[end].mean(axis=0) for end in self.ends[axis])
            normal = (high - low) / np.linalg.norm(high - low)
            speed = rays @ normal
            with np.errstate(divide="ignore", invalid="ignore"):
                first, second = (low - eye) @ normal / speed, (high - eye) @ normal / speed
            near, far = np.fmax(near, np.fmin(first, second)), np.fmin(far, np.fmax(first, second))
        met = (near <= far) & (far > 0)
        return np.where(met, near, np.inf), np.where(met, far, np.inf)

    def _og(self, row: Row, objects: list[int]):
        stand, face, sought = objects
        view = self._view(row, stand, face)
        asked = self._word(row.question.split("metres in the camera's frame")[0])
        side = OF_ONESELF[asked]
        category = self.scene.categories[sought]
        fitting = []
        for letter, text in row.options.items():
            corners = np.array([float(number) for number in text.strip("[]").split(",")]).reshape(8, 3)
            owner = [i for i in range(len(self.scene)) if np.abs(self.corners[i] - corners).max() < 0.0051]
            if not owner:
                yield f"option {letter} is no object's box"
                continue
            here = moved(self.clouds[stand], view)
            truth = self._truth(moved(self.clouds[owner[0]], view), here, *side)
            if letter == row.answer:
                yield from self._on_a_side(asked, moved(self.clouds[owner[0]], view))
            if letter == row.answer and (owner[0] != sought or truth is not True):
                yield f"the answer {letter} is the box of {self.scene.ids[owner[0]]}; it lies so: {truth}"
            if letter != row.answer and truth is not False and self.scene.categories[owner[0]] == category:
                yield f"the wrong option {letter} is a {category} too; it lies so: {truth}"
            fitting.append(owner[0])
        if len(set(fitting)) != 4:
            yield f"the four boxes are of {len(set(fitting))} objects"

    # Clouds and viewers

    def _cloud(self, index: int) -> np.ndarray:
        """Points (p, 3) all over a box, its corners among them; each by one 4 x 4 matrix."""
        pose = np.eye(4)
        pose[:3, :3] = self.scene.R[index] @ np.diag(self.scene.size[index])
        pose[:3, 3] = self.scene.center[index]
        return moved(self.local, pose)

    def _view(self, row: Row, stand: int, face: int) -> np.ndarray:
        """The 4 x 4 matrix from the camera's frame to that of a viewer at one object who faces another.

        The viewer's frame is a camera's: x right, y down, z ahead. It turns about the vertical until the
        other object is straight ahead.
        """
        if row.meta["viewpoint"] != [self.scene.ids[stand], self.scene.ids[face]]:
            raise AssertionError(f"{row.id}: viewpoint {row.meta['viewpoint']}")
        eye, there = self.clouds[stand].mean(axis=0), self.clouds[face].mean(axis=0)
        angle = np.arctan2(there[0] - eye[0], there[2] - eye[2])
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, 0, -s, 0], [0, 1, 0, 0], [s, 0, c, 0], [0, 0, 0, 1.0]])
        shift = np.eye(4)
        shift[:3, 3] = -eye
        return turn @ shift

    def _apart(self, one: int, other: int):
        pixels = []
        for index in (one, other):
            seen = self.scene.K @ self.clouds[index].mean(axis=0)
            pixels.append(seen[:2] / seen[2])
        if (gap := np.linalg.norm(pixels[0] - pixels[1])) < self.margins.pixels - 1e-6:
            yield f"the centres are {gap:.1f} px apart"


ASKED = re.compile(
    r"to the left of|to the right of|\babove\b|\bbelow\b|in front of|\bbehind\b|on your left|on your right"
)
UNIT_WORDS = {
    "m": r"\bm\b|metre", "cm": r"\bcm\b|centimetre", "mm": r"\bmm\b|millimetre", "ft": r"\bft\b|feet",
    "m2": r"\bm2\b|square metre", "cm2": r"\bcm2\b|square centimetre", "ft2": r"\bft2\b|square feet",
}  # fmt: skip


def moved(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Points (p, 3) through a 4 x 4 matrix."""
    return (np.c_[points, np.ones(len(points))] @ matrix.T)[:, :3]


def cone(rng: np.random.Generator, cloud: np.ndarray, eye: np.ndarray) -> np.ndarray:
    """Random directions (p, 3), even over the sphere, in the cone around all of a cloud."""
    to = cloud - eye
    to /= np.linalg.norm(to, axis=1)[:, None]
    axis = to.mean(axis=0)
    if np.linalg.norm(axis) < 1e-9:
        axis = np.array([0.0, 0.0, 1.0])
    axis /= np.linalg.norm(axis)
    least = max(-1.0, float((to @ axis).min()) - 1e-6)
    cosine = rng.uniform(least, 1, RAYS)
    around = rng.uniform(0, 2 * np.pi, RAYS)
    side = np.cross(axis, [1.0, 0, 0] if abs(axis[0]) < 0.9 else [0, 1.0, 0])
    side /= np.linalg.norm(side)
    third, sine = np.cross(axis, side), np.sqrt(1 - cosine**2)
    return (
        cosine[:, None] * axis
        + (sine * np.cos(around))[:, None] * side
        + (sine * np.sin(around))[:, None] * third
    )
