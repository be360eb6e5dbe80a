"""What stands in a synthetic scene: sources with their cameras, and things with their sizes and colours.

Sizes are metres: length, height, width, as in `data_prep.monosr.scene`; each thing varies about its own.
Frequencies fall like 1 / rank, so that a long tail of rare classes exists, as in Omni3D.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A camera: picture size and focal length in pixels of the real source, height above ground in metres,
    range of its pitch (degrees, downwards)."""

    width: int
    height: int
    focal: float
    lift: tuple[float, float]
    pitch: tuple[float, float]


SOURCES: dict[str, Source] = {
    "SUNRGBD": Source(730, 530, 529.5, (1.2, 1.7), (3, 14)),
    "Hypersim": Source(1024, 768, 886.8, (1.2, 1.7), (0, 8)),
    "ARKitScenes": Source(1920, 1440, 1600.0, (1.2, 1.6), (6, 16)),
    "nuScenes": Source(1600, 900, 1266.4, (1.4, 1.7), (-1, 1)),
    "KITTI": Source(1242, 375, 721.5, (1.6, 1.7), (-1, 1)),
    "Objectron": Source(1440, 1920, 1580.0, (0.4, 1.2), (10, 40)),
}
"""The names are those of the real sources, so that nothing behind the reader knows the difference."""


@dataclass(frozen=True)
class Thing:
    """A class: mean size, spread (share of it), colour, and where it goes.

    `place`: large (a cell of a room), medium (a quarter of one), top (on something), ceiling (hanging),
    lane (traffic), kerb, single.
    """

    name: str
    size: tuple[float, float, float]
    colour: tuple[int, int, int]
    place: str
    spread: float = 0.15
    carries: bool = False


INDOOR = (
    Thing("chair", (0.50, 0.90, 0.50), (205, 92, 52), "medium"),
    Thing("table", (1.30, 0.74, 0.80), (150, 100, 50), "large", carries=True),
    Thing("sofa", (1.90, 0.85, 0.90), (70, 110, 170), "large"),
    Thing("desk", (1.40, 0.75, 0.70), (185, 140, 80), "large", carries=True),
    Thing("bed", (2.00, 0.60, 1.60), (190, 170, 205), "large", carries=True),
    Thing("cabinet", (0.90, 0.90, 0.45), (120, 75, 45), "medium", carries=True),
    Thing("night stand", (0.45, 0.55, 0.40), (95, 60, 60), "medium", carries=True),
    Thing("bookcase", (0.90, 1.80, 0.35), (100, 120, 60), "medium"),
    Thing("bin", (0.30, 0.45, 0.30), (60, 150, 110), "medium"),
    Thing("floor lamp", (0.35, 1.50, 0.35), (240, 215, 90), "medium"),
    Thing("refrigerator", (0.70, 1.70, 0.70), (210, 225, 230), "medium"),
    Thing("books", (0.25, 0.18, 0.20), (170, 40, 60), "top"),
    Thing("laptop", (0.35, 0.22, 0.25), (60, 60, 70), "top"),
    Thing("lamp", (0.25, 0.45, 0.25), (245, 190, 60), "top"),
    Thing("box", (0.35, 0.28, 0.30), (200, 160, 100), "top"),
    Thing("ceiling lamp", (0.50, 0.25, 0.50), (250, 235, 200), "ceiling"),
    Thing("television", (0.70, 0.55, 0.15), (35, 40, 50), "top"),
)
OUTDOOR = (
    Thing("car", (4.4, 1.55, 1.85), (190, 50, 50), "lane"),
    Thing("truck", (8.0, 3.20, 2.50), (60, 90, 160), "lane"),
    Thing("van", (5.2, 2.10, 2.00), (90, 150, 170), "lane"),
    Thing("bus", (11.0, 3.20, 2.60), (235, 150, 40), "lane", 0.08),
    Thing("motorcycle", (2.1, 1.35, 0.80), (150, 60, 150), "lane"),
    Thing("trailer", (9.5, 3.60, 2.50), (140, 140, 90), "lane", 0.1),
    Thing("pedestrian", (0.70, 1.72, 0.65), (225, 170, 120), "kerb", 0.08),
    Thing("barrier", (0.60, 1.00, 2.00), (240, 240, 235), "kerb"),
    Thing("traffic cone", (0.40, 0.75, 0.40), (245, 110, 30), "kerb"),
    Thing("bicycle", (1.70, 1.25, 0.55), (50, 160, 80), "kerb"),
    Thing("cyclist", (1.75, 1.72, 0.60), (90, 70, 190), "kerb", 0.08),
)
OBJECT_CENTRIC = (
    Thing("shoes", (0.28, 0.12, 0.11), (180, 60, 80), "single"),
    Thing("chair", (0.55, 0.90, 0.55), (205, 92, 52), "single"),
    Thing("cup", (0.09, 0.11, 0.09), (80, 140, 200), "single"),
    Thing("bottle", (0.07, 0.25, 0.07), (50, 150, 90), "single"),
    Thing("laptop", (0.34, 0.22, 0.25), (60, 60, 70), "single"),
    Thing("books", (0.22, 0.05, 0.16), (170, 40, 60), "single"),
    Thing("cereal box", (0.19, 0.30, 0.07), (240, 180, 40), "single"),
    Thing("camera", (0.14, 0.10, 0.08), (40, 40, 45), "single"),
    Thing("bicycle", (1.70, 1.05, 0.55), (50, 160, 80), "single"),
)
THINGS = {"indoor": INDOOR, "outdoor": OUTDOOR, "object_centric": OBJECT_CENTRIC}
"""Domain -> its things, the frequent ones of every place first."""


def categories() -> dict[str, int]:
    """Every class with its id, the same in all files."""
    names = dict.fromkeys(thing.name for things in THINGS.values() for thing in things)
    return {name: number for number, name in enumerate(names)}
