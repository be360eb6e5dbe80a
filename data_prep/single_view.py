"""The single-view rule: a question that one view decides is asked from the other view alone (CVSBench, 3)."""

from data_prep.errors import UserError
from data_prep.rows import Row

SHOWN = {"g2s": frozenset({"street", "panorama", "strip"}), "s2g": frozenset({"satellite"})}
"""Roles of the pictures that a task may show; a task that is not named hides nothing."""
DERIVED = frozenset({"depth", "miniature", "map"})
"""Roles of pictures that are made of a shown one."""


def hidden_view_fault(row: Row) -> str | None:
    """Why the row would show what its task hides, by a picture's role or its path; None where it does not.

    Paths are compared where both are those of the release (before the pictures are cleaned); `meta` lists
    the hidden ones.
    """
    if row.task not in SHOWN:
        return None
    hidden = {picture["path"] for picture in row.meta.get("hidden_images", ())}
    for image in row.images:
        if image.role not in SHOWN[row.task] | DERIVED:
            return f"its {image.role} picture {image.path} shows what {row.task} hides"
        if image.path in hidden:
            return f"its picture {image.path} is the hidden one"
    return None


def check_single_view(row: Row) -> None:
    """Refuse to ask a row that breaks the rule.

    Raises:
        UserError: the message names the row and the picture.
    """
    if fault := hidden_view_fault(row):
        raise UserError(
            f"row {row.id} breaks the single-view rule: {fault}. Prepare the set again: launch prep."
        )
