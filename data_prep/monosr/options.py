"""What is asked, how often, and from which margin on an answer counts as certain."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from data_prep.errors import UserError
from data_prep.monosr.questions.numbers import MOST_TOLERANCE

FORMATS: dict[str, tuple[str, ...]] = {
    "sr": ("mc4", "yes_no"),
    "dist": ("numeric",),
    "size": ("numeric",),
    "dim": ("yes_no",),
    "oj": ("mc3", "yes_no"),
    "pr": ("mc4", "yes_no"),
    "og": ("mc4",),
}
"""Task -> formats, as the columns of the paper's tables list them."""
TASKS: dict[str, tuple[str, ...]] = {
    "indoor": tuple(FORMATS),
    "outdoor": ("sr", "dist", "pr", "og"),
    "object_centric": ("dist", "size"),
}
"""Domain -> tasks, by the same columns."""
LEVELS = {
    "sr": "low", "dist": "low", "size": "low", "dim": "low",
    "oj": "mid", "pr": "mid", "og": "mid",
    "situational": "high",
}  # fmt: skip
"""Foundational, imagination, situational (paper, section 3.1)."""


@dataclass(frozen=True)
class Options:
    """How questions are made. Lengths in metres, angles in degrees, the rest shares.

    - `per_format`: questions that one image may give to one format of a task; balance picks among them.
    - `situational`: questions of an image that are put into a situation.
    - `gap_metres`, `gap_share`: two centres must lie further apart along an axis than that length, and than
      that share of the boxes' mean extent along it, or their relation on that axis is not asked for.
    - `gap_depth`: what is in front or behind for the camera is so much nearer or farther, as a share of the
      farther one's depth: a metre is not seen at forty.
    - `level_overlap`: boxes that share so much of the smaller height stand level: neither is above the other.
    - `pixels`: the projected centres of two objects whose relation is asked for lie so far apart
      (stage iv of the filter, paper section 3.1).
    - `ratio`: the larger of two compared sizes is at least so many times the smaller.
    - `angle`: what lies on the viewer's left or right is at least so far off straight ahead and straight
      behind, and what lies ahead or behind so far off the sides.
    - `field_of_view`: what a viewer sees horizontally.
    - `visible`, `hidden`: an object is clearly visible above the first share and not visible below the
      second; `visible_margin`: shares so close to either are not asked for.
    - `numeric_choice`: also ask distances and sizes as a choice of four numbers.
    - `tolerance`: relative error up to which a number is right; options of a choice lie further apart.
    """

    per_format: int = 2
    situational: int = 2
    gap_metres: float = 0.10
    gap_share: float = 0.5
    gap_depth: float = 0.1
    level_overlap: float = 0.5
    pixels: float = 20.0
    ratio: float = 1.15
    angle: float = 40.0
    field_of_view: float = 90.0
    visible: float = 0.8
    hidden: float = 0.2
    visible_margin: float = 0.05
    numeric_choice: bool = False
    tolerance: float = 0.10
    tasks: tuple[str, ...] = field(default=tuple(FORMATS))

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tasks) - set(FORMATS))
        if unknown:
            raise UserError(f"{unknown[0]} is no task of MonoSR; take some of {', '.join(FORMATS)}.")
        for name in (
            "gap_share",
            "gap_depth",
            "level_overlap",
            "visible",
            "hidden",
            "visible_margin",
            "tolerance",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"questions.{name}={getattr(self, name)} is no share between 0 and 1.")
        for name in ("per_format", "situational", "gap_metres", "pixels"):
            if getattr(self, name) < 0:
                raise UserError(f"questions.{name}={getattr(self, name)} is negative.")
        if self.ratio < 1:
            raise UserError(f"questions.ratio={self.ratio} is below 1; give how many times larger.")
        if not 0 <= self.angle < 45:
            raise UserError(f"questions.angle={self.angle} leaves nothing to ask; give 0 to less than 45.")
        if not 0 < self.field_of_view < 180:
            raise UserError(f"questions.field_of_view={self.field_of_view} does not lie between 0 and 180.")
        if self.hidden + self.visible_margin >= self.visible - self.visible_margin:
            raise UserError("questions.hidden and questions.visible leave no room for what is half seen.")

        if self.numeric_choice and self.tolerance > MOST_TOLERANCE:
            raise UserError(
                f"questions.tolerance={self.tolerance} leaves no room for four numbers: give"
                f" {MOST_TOLERANCE} or less, or questions.numeric_choice=false."
            )

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> "Options":
        """The options of a configuration's section; every key is an option of this class.

        Raises:
            UserError: a key is unknown, or a value is out of range.
        """
        known = {one.name for one in fields(cls)}
        unknown = sorted(set(section) - known)
        if unknown:
            raise UserError(f"questions.{unknown[0]} is no option; take one of {', '.join(sorted(known))}.")
        values = {name: tuple(value) if name == "tasks" else value for name, value in section.items()}
        return cls(**values)

    def formats(self, task: str) -> tuple[str, ...]:
        """The formats in which a task is asked."""
        more = ("mc4",) if self.numeric_choice and task in ("dist", "size") else ()
        return FORMATS[task] + more

    def tasks_of(self, domain: str) -> tuple[str, ...]:
        """The tasks that are asked of a domain, in a fixed order."""
        return tuple(task for task in TASKS[domain] if task in self.tasks)
