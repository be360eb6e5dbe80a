"""The reward's options, which verl passes to every call (`reward.custom_reward_function.reward_kwargs`)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from rewards.combine import FORMAT_WEIGHT
from rewards.response_format import FORMAT_MODES


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """Options of one run. Construct it before the run starts: ValueError names the option that is wrong."""

    format_weight: float = FORMAT_WEIGHT
    """lambda: the format's share of the score, in [0, 1]."""
    format_mode: str = "answer"
    """`answer`: one well-formed answer at the end, as in the paper; `full`: the whole layout."""
    gate_format: bool = False
    """Pay format in proportion to accuracy only (beyond the paper)."""
    tolerance: float = 0.10
    """Relative error up to which a number is correct, in [0, 1]."""
    iou_threshold: float | None = None
    """IoU from which a box is correct, in [0, 1]; None scores the IoU itself."""

    def __post_init__(self) -> None:
        for name in ("format_weight", "tolerance", "iou_threshold"):
            value = getattr(self, name)
            if name == "iou_threshold" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise ValueError(f"{name} must be a number in [0, 1], got {value!r}")
        if self.format_mode not in FORMAT_MODES:
            raise ValueError(
                f"format_mode must be one of {', '.join(FORMAT_MODES)}, got {self.format_mode!r}"
            )
        if not isinstance(self.gate_format, bool):
            raise ValueError(f"gate_format must be true or false, got {self.gate_format!r}")


_NAMES = frozenset(field.name for field in fields(RewardOptions))


def read_options(kwargs: Mapping[str, Any]) -> RewardOptions:
    """The options among verl's keyword arguments; the others (reward router, tokenizer) are verl's own."""
    known = {name: value for name, value in kwargs.items() if name in _NAMES}
    try:
        return _built(**known)
    except TypeError:  # a value that cannot be hashed, and is none of an option's
        return RewardOptions(**known)


# Every call of a run brings the same ones. Typed, because True equals 1 and is no weight.
_built = lru_cache(maxsize=64, typed=True)(RewardOptions)
