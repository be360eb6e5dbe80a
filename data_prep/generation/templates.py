"""What a generated question must be: stems, options, bans, anchors and counts of the four prompts.

The rules and figures are the paper's (CVSBench 0.A.2), told in our words; what is ours says so. The options
are those that the reader knows (`data_prep.cvsbench.categories`).

Ours: `margin`, which makes the paper's extreme-only rules something that can be checked, the length of a
description, and the stems of the categories for which the paper gives none (distance_to_camera, roof_form,
building_footprint_area, building_connection, facade), which are worded as in its figures.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from data_prep.cvsbench.categories import known_options
from data_prep.generation import words
from data_prep.generation.words import Words

# Words that a description may have: fewer single out nothing, more are a story. Ours.
SLOT_WORDS = (3, 40)


@dataclass(frozen=True)
class Slot:
    """A gap in a stem: what goes in, or the only texts that may."""

    name: str
    meaning: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Category:
    """One kind of question.

    - `stem`: the question with its gaps, as `{slot}`; the rest is fixed.
    - `options`: texts in the order of the letters from A on.
    - `bans`: what a filled gap may not hold, beside the variant's bans.
    - `answers`: letters that can be right under the rules; empty: all.
    - `margin`: how many times one building must exceed the other (extreme-only), or None.
    - `rules`: further sentences for the generator.
    """

    name: str
    stem: str
    options: tuple[str, ...]
    slots: tuple[Slot, ...] = ()
    bans: tuple[Words, ...] = ()
    answers: str = ""
    margin: float | None = None
    rules: tuple[str, ...] = ()

    @property
    def letters(self) -> str:
        return "ABCD"[: len(self.options)]

    @property
    def labelled(self) -> list[str]:
        """The options as a release writes them: "A) text"."""
        return [f"{letter}) {text}" for letter, text in zip(self.letters, self.options, strict=True)]

    @property
    def free_slots(self) -> tuple[Slot, ...]:
        """Gaps filled with words of the generator's own: what could give an answer away without pictures."""
        return tuple(slot for slot in self.slots if not slot.choices)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.stem)
        pieces = [re.escape(part) if i % 2 == 0 else f"(?P<{part}>.+?)" for i, part in enumerate(parts)]
        return re.compile("".join(pieces).removesuffix(r"\.") + r"\.?", re.IGNORECASE)

    def filled(self, question: str) -> dict[str, str] | None:
        """The texts in the gaps of `question`; None where it does not keep to the stem."""
        match = self._pattern.fullmatch(" ".join(question.split()))
        return {name: text.strip(" .") for name, text in match.groupdict().items()} if match else None


@dataclass(frozen=True)
class Variant:
    """One of the four prompts.

    - `shown`: the view that the solver will see; the answer is taken from the other one.
    - `camera`: how the two pictures lie to each other.
    - `lead`: a sentence put before every question when it is written.
    - `least`, `most`: questions a pair; `distinct`: no category twice.
    - `anchors`, `anchors_needed`: how many kinds of these a building's description must use.
    """

    name: str
    subset: str
    task: str
    shown: str
    camera: tuple[str, ...]
    rules: tuple[str, ...]
    bans: tuple[Words, ...]
    categories: tuple[Category, ...]
    least: int
    most: int
    distinct: bool
    lead: str = ""
    anchors: tuple[Words, ...] = ()
    anchors_needed: int = 0

    def category(self, name: str) -> Category | None:
        return next((category for category in self.categories if category.name == name), None)


_EVERYWHERE = (
    words.VEHICLES,
    words.LIVING,
    words.COMPASS,
    words.IDENTIFIERS,
    words.UNDECIDABLE,
    words.PURPOSES,
)
_PANORAMA = (
    "The panorama was taken at the center of the satellite image.",
    "The middle of the panorama looks to the top of the satellite image, its left quarter to the left"
    " side, its right quarter to the right side, and both of its edges to the bottom.",
)
_ARROW = (
    "The photo was taken at the tail of the red arrow in the satellite image, looking along the arrow.",
    "Forward is along the arrow; left and right are the viewer's, looking forward; behind is the other way.",
)


def _options(name: str, variant: int = 0) -> tuple[str, ...]:
    return known_options(name)[variant]


def _building(letter: str) -> Slot:
    return Slot(f"building_{letter.lower()}", f"what singles out building {letter}")


_PAIR = "Building A: {building_a}. Building B: {building_b}."
_BUILDINGS = (_building("A"), _building("B"))

G2S_FOV = Variant(
    name="g2s_fov",
    subset="fov",
    task="g2s",
    shown="street",
    camera=_ARROW,
    rules=(
        "Speak of what can be seen in the photo, in the viewer's own directions.",
        "Anchor on lasting parts of a building that the photo shows once: a recessed bay, a block-like"
        " part of a wall, a band of windows, a box or an edge on the roof, clearly visible service"
        " equipment.",
        "The photo gives the clues, the satellite image settles the answer: a question that the photo alone"
        " answers is worthless.",
    ),
    bans=(*_EVERYWHERE, words.SATELLITE, words.UNSTABLE),
    categories=(
        Category(
            "facade",
            "Is {feature} visible or identifiable in the Satellite top-down view?",
            _options("facade"),
            (Slot("feature", "one clearly visible part of a facade, with where it is"),),
            (words.FACADE_LEAKS,),
        ),
        Category(
            "roof",
            "For the main building directly in front of the observation point, which overall roof form"
            " does it have in the Satellite top-down view?",
            _options("roof"),
            rules=("Leave the pair out when the photo already shows the form of the roof.",),
        ),
        Category(
            "symmetry",
            "Does the main building directly in front appear left-right symmetric in the Satellite top-down"
            " view?",
            _options("symmetry"),
            rules=("The further photos of the place serve this question alone.",),
        ),
    ),
    least=3,
    most=3,
    distinct=True,
)

G2S_CVUSA = Variant(
    name="g2s_cvusa",
    subset="cvusa",
    task="g2s",
    shown="panorama",
    camera=_PANORAMA,
    rules=(
        "Begin with the satellite image: take buildings near its center for which the property is beyond"
        " doubt. Then find the same buildings in the panorama; give up those that cannot be told apart"
        " there.",
        "Describe a building by neutral things the panorama shows and by its place in the panorama.",
        "Do not say forward, ahead or in front.",
        "Distances and areas are optional: where no pair is extreme, ask about roofs and connections.",
    ),
    bans=(*_EVERYWHERE, words.SATELLITE, words.AHEAD),
    categories=(
        Category(
            "distance_to_camera",
            f"Which building is closer to the camera? {_PAIR}",
            _options("distance_to_camera"),
            _BUILDINGS,
            (words.DISTANCES,),
            answers="AB",
            margin=2.0,
            rules=("Extreme only: one building stands very close to the center, the other far from it.",),
        ),
        Category(
            "building_footprint_area",
            f"Which building has a larger footprint area? {_PAIR}",
            _options("building_footprint_area"),
            _BUILDINGS,
            (words.SIZES,),
            answers="AB",
            margin=2.0,
            rules=("Extreme only: one footprint is about twice the other, or more.",),
        ),
        Category(
            "building_connection",
            f"Are Building A and Building B connected? {_PAIR}",
            _options("building_connection", 1),
            _BUILDINGS,
            (words.CONNECTIONS,),
            answers="ABC",
            rules=(
                "Only for buildings that touch or nearly touch from above, with no road or open gap between.",
            ),
        ),
        Category(
            "roof_form",
            "What roof form does {building} have?",
            _options("roof_form"),
            (Slot("building", "what singles out one building"),),
            (words.ROOFS,),
            rules=("Ask about one building; never which of several has a given roof.",),
        ),
    ),
    least=3,
    most=3,
    distinct=False,
    anchors=(words.PANORAMA_PLACE,),
    anchors_needed=1,
)

_TARGET = Slot("target", "what singles out one building or area from above")
_FORWARD = Slot(
    "sector",
    "a sector before the camera",
    ("forward sector", "left-forward sector", "right-forward sector"),
)

S2G_FOV = Variant(
    name="s2g_fov",
    subset="fov",
    task="s2g",
    shown="satellite",
    camera=_ARROW,
    lead="The photo is taken from the tail of the arrow, facing the direction of the arrow.",
    rules=(
        "Write the question from the satellite image, then read its answer off the photo; give it up when the"
        " photo does not settle it.",
        "Single a target out by what holds from above: its distance to the camera, how it lies to the arrow's"
        " ray, what it touches or encloses, its rank among its neighbours.",
        "Neither looks nor directions may define a target.",
        "Fewer questions are better than weak ones.",
    ),
    bans=(
        *_EVERYWHERE,
        words.TEMPORARY,
        words.STREET_ONLY,
        words.COLOURS,
        words.MATERIALS,
        words.DIRECTIONS,
        words.SIZE_LEAKS,
        words.HEIGHTS,
        words.OCCLUSIONS,
    ),
    categories=(
        Category(
            "vegetation_sector",
            "What is the dominant vegetation type in the {sector} along the arrow direction?",
            _options("vegetation_sector"),
            (_FORWARD,),
        ),
        Category(
            "occlusion_binary",
            "Is {target} occluded in Street-View?",
            _options("occlusion_binary"),
            (_TARGET,),
        ),
        Category(
            "relative_position",
            "Facing forward (the arrow direction), where does {target} appear in Street-View?",
            _options("relative_position"),
            (_TARGET,),
        ),
        Category(
            "height_comparison",
            "Compare the heights of (1) {building_a} and (2) {building_b}. Which is taller in Street-View?",
            _options("height_comparison"),
            _BUILDINGS,
        ),
        Category(
            "facade_color",
            "What is the dominant facade color of {target} in Street-View?",
            _options("facade_color"),
            (_TARGET,),
            rules=("Only where the photo shows the facade plainly.",),
        ),
        Category(
            "ground_material",
            "What is the dominant ground material in the forward sector along the arrow direction?",
            _options("ground_material"),
        ),
    ),
    least=0,
    most=3,
    distinct=True,
    anchors=words.ARROW_ANCHORS,
    anchors_needed=1,
)

_REGION = Slot(
    "region",
    "a part of the panorama",
    ("the center region", "the left-quarter region", "the right-quarter region", "the far edge region"),
)
_STAND = "I am standing at the satellite center and facing the top of the satellite image."
_MAPPING = "Assume the fixed mapping: panorama center corresponds to the top of the satellite map"

S2G_CVUSA = Variant(
    name="s2g_cvusa",
    subset="cvusa",
    task="s2g",
    shown="satellite",
    camera=_PANORAMA,
    rules=(
        "The satellite image and the mapping must suffice to answer; the panorama proves the answer.",
        "Nothing in a satellite image carries a name: define a building by two to four kinds of evidence,"
        " three where many stand close: the shape of its footprint, its rank in size within a named group,"
        " its rank in distance to the center, the road it stands on, what encloses it, how it is joined to"
        " others.",
        "Leave a kind of question out when its target stays ambiguous.",
    ),
    bans=(*_EVERYWHERE, words.STREET_ONLY, words.COLOURS),
    categories=(
        Category(
            "visibility",
            f"{_STAND} {_MAPPING}. In the panorama, focusing on {{region}}, is {{target}} occluded?",
            _options("visibility"),
            (_REGION, _TARGET),
            (words.OCCLUSIONS,),
        ),
        Category(
            "vegetation",
            f"{_STAND} {_MAPPING}. In the panorama, focusing on {{region}}, what is the dominant vegetation"
            " type?",
            _options("vegetation"),
            (_REGION,),
        ),
        Category(
            "height",
            f"{_STAND} In the panorama, what is the relative height relationship between the following two"
            f" buildings? {_PAIR}",
            _options("height"),
            _BUILDINGS,
            (words.HEIGHTS,),
        ),
        Category(
            "location",
            f"{_MAPPING}; panorama left-quarter corresponds to the left of the satellite map. In which"
            " panorama region does the target building appear? Target building: {target}.",
            _options("location"),
            (_TARGET,),
            (words.DIRECTIONS,),
        ),
    ),
    least=0,
    most=4,
    distinct=True,
    anchors=words.SATELLITE_ANCHORS,
    anchors_needed=2,
)

VARIANTS = {variant.name: variant for variant in (G2S_CVUSA, G2S_FOV, S2G_CVUSA, S2G_FOV)}
