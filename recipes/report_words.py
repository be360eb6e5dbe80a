"""What the numbers allow to be said, in sentences. A claim is made only where the numbers carry it."""

from collections.abc import Mapping, Sequence
from typing import Any

from recipes.statistics import Difference


def percent(share: float) -> str:
    """`76.4 %`, with a space at which no line breaks."""
    return f"{100 * share:.1f}\u00a0%"


def interval(low: float, high: float) -> str:
    return f"{100 * low:.1f}–{100 * high:.1f}"


def points(difference: float) -> str:
    """A signed difference in percentage points, with a true minus sign."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def cell_name(cell: Mapping[str, Any]) -> str:
    """`FOV, S2G: relative position` for a (subset, task, category)."""
    return f"{cell['subset'].upper()}, {cell['task'].upper()}: {cell['category'].replace('_', ' ')}"


def blind(cell: Mapping[str, Any]) -> float:
    """The accuracy that needs no picture: guessing, or always giving the most frequent answer."""
    return max(cell["chance"], cell.get("majority_by_category", cell["majority"]))


def change(label: str, before: str, found: Difference) -> str:
    """One sentence on whether a stage differs from the one before it."""
    spread = f"95 % interval {points(found.low)} to {points(found.high)}, {p_value(found.p)}"
    size = f"{abs(100 * found.difference):.1f} points"
    if found.direction > 0:
        return f"{label} is {size} above {before} ({spread})."
    if found.direction < 0:
        return f"{label} is {size} below {before} ({spread})."
    return f"{label} cannot be told from {before}: {points(found.difference)} points ({spread})."


def unread(label: str, scores: Mapping[str, Any]) -> str | None:
    """A sentence where a tenth or more of a stage's answers could not be read, which all count as wrong."""
    if scores["unparsed"] < 0.1:
        return None
    return f"{percent(scores['unparsed'])} of the answers of {label} cannot be read and count as wrong."


def learned(cells: Sequence[Mapping[str, Any]], seeing: Sequence[Difference] | None) -> dict[str, list[str]]:
    """Sort categories by what their interval says against the best answer without looking.

    `seeing`: for each cell how much better the same model is with its pictures than with grey ones; None
    where that was not measured. Keys: `learned` (the whole interval lies above), `text` (so too, but the
    model does as well with grey pictures), `unclear` (the interval includes it), `below`.
    """
    found: dict[str, list[str]] = {"learned": [], "text": [], "unclear": [], "below": []}
    for index, cell in enumerate(cells):
        bar = blind(cell)
        kind = "learned" if cell["low"] > bar else "below" if cell["high"] < bar else "unclear"
        if kind == "learned" and seeing is not None and seeing[index].direction <= 0:
            kind = "text"
        found[kind].append(
            f"{cell_name(cell)} — {percent(cell['accuracy'])} ({interval(cell['low'], cell['high'])}; "
            f"without looking {percent(bar)})"
        )
    return found


def blank_verdict(seen: Mapping[str, Any], blank: Mapping[str, Any]) -> str:
    """One sentence on what is left of the accuracy when the pictures are grey."""
    bar = blind(blank)
    measured = f"{percent(blank['accuracy'])} ({interval(blank['low'], blank['high'])})"
    fall = f"With grey pictures accuracy goes from {percent(seen['accuracy'])} to {measured}"
    constant = f"the {percent(bar)} of the best constant answers"
    if blank["low"] > bar:
        return f"{fall}, still above {constant}: the words of the questions give something away."
    if blank["high"] < seen["low"]:
        return f"{fall}, no better than {constant}: what it knows, it sees."
    return f"{fall}: these rows do not show that the pictures are used."
