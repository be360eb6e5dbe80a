"""Words that a generated text may not hold, and those by which a building is found (CVSBench 0.A.2).

The paper names the kinds and some of the words; the lists are completed by us. Words are looked for whole,
in any case, with or without a plural ending.
"""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Words:
    """A named list of words. `name` reads in a sentence: "it holds 'van', a vehicle"."""

    name: str
    words: tuple[str, ...]
    pattern: str = ""  # a regular expression beside the words
    allowed: str = ""  # a regular expression of phrases in which the words may stand
    note: str = ""  # those phrases, told to the generator

    @property
    def told(self) -> str:
        """The list as an instruction gives it."""
        return f"{self.name} ({', '.join(self.words)}{f'; but {self.note} is fine' if self.note else ''})"

    @cached_property
    def _search(self) -> re.Pattern[str]:
        whole = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in self.words)
        listed = rf"(?<!\w)(?:{whole})(?:e?s)?(?!\w)"
        return re.compile("|".join(filter(None, (listed, self.pattern))), re.IGNORECASE)

    def found_in(self, text: str) -> str | None:
        """The first of the words in `text`, as it is written there."""
        if self.allowed:
            text = re.sub(self.allowed, " ", text, flags=re.IGNORECASE)
        hit = self._search.search(text)
        return hit[0] if hit else None


def _listed(name: str, words: str, pattern: str = "", allowed: str = "", note: str = "") -> Words:
    return Words(name, tuple(words.split(", ")), pattern, allowed, note)


VEHICLES = _listed(
    "a vehicle",
    "vehicle, car, truck, lorry, bus, van, minivan, suv, taxi, trailer, bicycle, bike, motorcycle, motorbike,"
    " scooter, tractor, boat, train, tram, aeroplane, airplane",
)
LIVING = _listed(
    "a person or an animal",
    "person, people, pedestrian, man, men, woman, women, child, children, crowd, cyclist, driver, walker,"
    " animal, dog, cat, bird, horse, cow",
)
TEMPORARY = _listed(
    "something temporary",
    "temporary, traffic cone, scaffold, scaffolding, tent, market stall, banner, garbage bag, dumpster,"
    " construction fence",
)
COMPASS = _listed(
    "a compass direction",
    "compass, north, south, east, west, northern, southern, eastern, western, northward, southward,"
    " eastward, westward",
    r"(?<!\w)(?:north|south)[ -]?(?:east|west)(?:ern)?(?!\w)|(?<!\w)(?-i:NE|NW|SE|SW)(?!\w)",
)
IDENTIFIERS = _listed(
    "an id or coordinates",
    "coordinate, pixel, latitude, longitude, map corner",
    r"#\d+|(?<!\w)(?:building|house|block|id|number|no\.)\s+\d+|[\[(]\s*-?\d+(?:\.\d+)?\s*,\s*-?\d[^\])]*[\])]",
)
UNDECIDABLE = _listed(
    "an undecided word",
    "unclear, unknown, undecidable, undetermined, uncertain, ambiguous, cannot be determined, not sure,"
    " maybe, perhaps, possibly",
)
PURPOSES = _listed(
    "what a building is used for",
    "church, chapel, mosque, temple, school, kindergarten, university, college, hospital, clinic, library,"
    " museum, theater, theatre, cinema, mall, supermarket, store, shop, restaurant, cafe, hotel, motel, bank,"
    " post office, fire station, police station, gas station, train station, stadium, town hall, city hall,"
    " factory, warehouse, dormitory",
)
SATELLITE = _listed("the satellite image", "satellite, aerial, top-down, overhead, bird's-eye")
STREET_ONLY = _listed(
    "what only the street shows",
    "street-view, street view, panorama, photo, photograph, facade, façade, window, door, doorway, porch,"
    " balcony, sign, storefront, signage, awning, wall",
)
UNSTABLE = _listed(
    "an anchor that does not stay",
    "tree, bush, shadow, pole, pillar box, lamp post, street lamp, small sign, sign, signpost",
    r"(?<!\w)(?:entrance|door|gate)\s+(?:\d+|one|two|three)(?!\w)",
)
COLOURS = _listed(
    "a colour",
    "color, colour, colored, coloured, white, cream, gray, grey, tan, beige, brown, black, red, orange,"
    " yellow, green, blue, purple, pink, reddish, whitish, grayish, bluish, light, dark, bright, pale",
)
MATERIALS = _listed(
    "a material or a look",
    "brick, glass, wooden, wood, stone, concrete, metal, metallic, steel, stucco, tiled, shingled, painted,"
    " modern, old, new, ornate, shiny, textured, striped",
)
DIRECTIONS = _listed(
    "a direction",
    "left, right, center, centre, central, middle, front, back, behind, ahead, straight ahead, forward,"
    " rear, top, bottom, upper, lower",
    allowed=r"(?:closest|nearest|farthest|furthest|distance|distant)\s+(?:to|from)\s+"
    r"the\s+(?:satellite\s+)?cent(?:er|re)",
    note="closest to the center",
)
AHEAD = _listed("a viewing direction", "forward, ahead, directly in front, in front of")
SIZES = _listed(
    "a size",
    "large, larger, largest, small, smaller, smallest, big, bigger, biggest, huge, tiny, massive, vast, wide,"
    " wider, long, longer, compact, sprawling, extensive, little, narrow, bulky, main, minor",
)
SIZE_LEAKS = _listed("a size", "large, small, larger, smaller, main, minor, big, tiny, huge")
HEIGHTS = _listed(
    "a height",
    "tall, taller, tallest, short, shorter, shortest, high, higher, highest, low, lower, lowest, high-rise,"
    " low-rise, tower, towering, skyscraper, storey, story, stories, floor",
    r"(?<!\w)(?:\w+-|multi)stor(?:e?y|ied|eyed)(?!\w)",
)
DISTANCES = _listed(
    "a distance",
    "near, nearer, nearest, nearby, close, closer, closest, far, farther, farthest, further, distant, remote,"
    " adjacent, foreground, background, distance",
    allowed="far edge",
    note="far edge",
)
OCCLUSIONS = _listed(
    "the answer", "occluded, occlude, occluding, blocked, blocking, hidden, obstructed, covered, unobstructed"
)
CONNECTIONS = _listed(
    "the answer",
    "connected, connecting, connection, separate, separated, attached, detached, joined, adjoining, linked,"
    " link, bridge, skywalk, walkway, corridor, freestanding, free-standing",
)
ROOFS = _listed(
    "a roof form",
    "flat, pitched, sloped, sloping, gabled, gable, arched, curved, hipped, domed, dome, mixed, barrel,"
    " a-frame",
)
FACADE_LEAKS = _listed(
    "the answer",
    "flat roof, pitched roof, mixed roof, sloped roof, indentation, protrusion, l-shaped, rectangular,"
    " compact, attached, merged, extension, visible, invisible, identifiable",
)

# By what a building is found.
PANORAMA_PLACE = _listed(
    "a place in the panorama",
    "left quarter, left-quarter, right quarter, right-quarter, left edge, right edge, far edge, center,"
    " centre, central, middle, left of the panorama, right of the panorama, left side, right side, left"
    " half, right half",
)
SATELLITE_ANCHORS = (
    _listed(
        "footprint shape",
        "footprint, l-shaped, u-shaped, t-shaped, h-shaped, cross-shaped, rectangular, square, elongated,"
        " circular, round, triangular, courtyard",
    ),
    _listed("size ranking", "largest, smallest, second-largest, second largest, longest, widest, biggest"),
    _listed(
        "distance to the center",
        "closest, nearest, farthest, furthest, second-closest, second-nearest, most distant",
    ),
    _listed(
        "road adjacency",
        "road, street, intersection, crossroad, junction, driveway, parking lot, cul-de-sac, lane, highway,"
        " roundabout",
    ),
    _listed(
        "enclosure",
        "enclosed, enclosing, surrounded, surrounding, fenced, walled, inside, within, bounded, clearing",
    ),
    _listed(
        "structural relation",
        "attached, detached, adjacent, adjoining, next to, aligned, parallel, perpendicular, row, cluster,"
        " between, connected, isolated, standalone, beside",
    ),
)
ARROW_ANCHORS = (
    *SATELLITE_ANCHORS,
    _listed(
        "the arrow",
        "arrow, arrow ray, observation point, camera, line of sight, tail of the arrow, arrowhead",
    ),
)
