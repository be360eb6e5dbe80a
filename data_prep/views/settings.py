"""The keys `data.views*` and `data.only_rows`: which of them decide what a run makes."""

from collections.abc import Mapping
from typing import Any

KINDS = ("depth", "miniature", "map")
_MAKERS = {"depth": "views_depth", "miniature": "views_miniature"}


def deciding(data: Mapping[str, Any]) -> dict[str, Any]:
    """The `data` section without the keys about views that decide nothing as they are set.

    A run without views so keeps the directory that it had before there were any, and the settings of one kind
    of view never name the directory of another. So do those of a model for words (`data.wording`) that is not
    asked.
    """
    kind = data.get("views", "none")
    used = {"views", "views_root", _MAKERS.get(kind)} if kind != "none" else set()
    if data.get("only_rows") is not None:
        used.add("only_rows")
    idle = {"wording"} if (data.get("wording") or {}).get("model") is None else set()
    return {
        key: value
        for key, value in data.items()
        if key in used or not (key.startswith("views") or key == "only_rows" or key in idle)
    }


def paths(value: Any) -> list[str]:
    """A key that takes one path or a list of them, as a list; null is none."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(one) for one in value]
