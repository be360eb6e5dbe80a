"""The scene model: a camera in the middle of a block with up to four buildings around it.

Coordinates: the satellite picture is the square [-1, 1] x [-1, 1] with x to the right and y downwards;
the camera stands at (0, 0). A `side` is 0 top, 1 right, 2 bottom, 3 left of the satellite picture. Seen
by a camera that faces side h, a thing on side s lies in `quarter` (s - h) mod 4: 0 ahead, 1 to the right,
2 behind, 3 to the left.
"""

import random
from dataclasses import dataclass

SIDES = ("top", "right", "bottom", "left")
QUARTERS = ("ahead", "rightward", "behind", "leftward")
SIDE_VECTORS = ((0, -1), (1, 0), (0, 1), (-1, 0))
COLOURS = {
    "red": (214, 44, 40),
    "blue": (52, 84, 226),
    "white": (240, 240, 240),
    "yellow": (234, 208, 60),
}
ROOFS = ("flat", "gabled", "arched", "mixed")
VEGETATION = ("trees", "shrubs", "grass", "none")


@dataclass(frozen=True)
class Building:
    """`distance` and `offset` place the centre along and across its side's axis; `half_width` is half
    the footprint's edge; all three in units of half the satellite picture."""

    colour: str
    side: int
    distance: float
    offset: float
    half_width: float
    roof: str

    @property
    def centre(self) -> tuple[float, float]:
        along, across = SIDE_VECTORS[self.side], SIDE_VECTORS[(self.side + 1) % 4]
        return (
            along[0] * self.distance + across[0] * self.offset,
            along[1] * self.distance + across[1] * self.offset,
        )

    def quarter(self, heading: int) -> int:
        return (self.side - heading) % 4

    @property
    def near(self) -> bool:
        return self.distance < 0.62


@dataclass(frozen=True)
class Scene:
    """`vegetation[k]` covers the corner clockwise after side k (0: between top and right)."""

    buildings: tuple[Building, ...]
    vegetation: tuple[str, str, str, str]

    def on_side(self, side: int) -> Building | None:
        return next((b for b in self.buildings if b.side == side), None)

    def coloured(self, colour: str) -> Building:
        """The one building of this colour; `draw_scene` makes red and blue unique."""
        return next(b for b in self.buildings if b.colour == colour)


def draw_scene(rng: random.Random) -> Scene:
    """A scene with one red and one blue building and perhaps a third, one near and one far.

    Distances of the red and the blue one differ clearly, as the paper's "extreme only" rule asks
    (0.A.2), so that which is closer is never in doubt.
    """
    sides = rng.sample(range(4), rng.choice((2, 3, 3)))
    near_first = rng.random() < 0.5
    buildings = []
    for index, side in enumerate(sides):
        near = near_first if index == 0 else not near_first if index == 1 else rng.random() < 0.5
        buildings.append(
            Building(
                colour=("red", "blue")[index] if index < 2 else rng.choice(("white", "yellow")),
                side=side,
                distance=rng.uniform(0.53, 0.57) if near else rng.uniform(0.70, 0.75),
                offset=rng.uniform(-0.18, 0.18),
                half_width=rng.uniform(0.19, 0.24),
                roof=rng.choice(ROOFS),
            )
        )
    vegetation = tuple(rng.choice(VEGETATION) for _ in range(4))
    return Scene(tuple(buildings), vegetation)  # type: ignore[arg-type]
