"""What an image generator is asked for: the rules of CVSBench 0.A.4 in our words, or a text file of yours."""

from collections.abc import Mapping
from pathlib import Path

from data_prep.errors import UserError

_LOOK = (
    "Look: a clean architectural miniature, matte and lightly coloured like a well-made model or clay "
    "render, with believable concrete, asphalt, metal, grass. Soft light from all sides with one sun, "
    "whose shadows tell heights and who stands before whom. Crisp edges between near and far things."
)
_FRAME = (
    "Camera: orthographic, looking down at 45 degrees from high above, never from the ground. Format: "
    "one square picture. The scene stands on one tile in the middle of it, on a plain ground."
)
_TRUTH = (
    "Keep what is seen where it is seen: numbers, relative heights, roof forms, gaps, colours and "
    "positions. Add no building that the input does not suggest. No text, labels, arrows, people or "
    "vehicles."
)
PROMPTS = {
    "satellite": (
        "The picture is a satellite image. Rebuild its layout as a three-dimensional isometric miniature.",
        "Raise every building from its outline to a height that its shadow suggests; keep flat ground, "
        "low areas and sunken roads apart from it. Roads and lawns keep their course. An arrow drawn on "
        "the picture is no part of the place.",
    ),
    "street": (
        "The picture is a photo taken at street level. Turn the place into a three-dimensional isometric "
        "miniature.",
        "Work out how the visible buildings stand to each other: what is in front, what behind, how far "
        "apart. Show their roofs as their facades suggest.",
    ),
    "streets": (
        "The pictures are up to four photos taken at street level around one place. Join them into a "
        "single three-dimensional isometric miniature.",
        "Put the facades of all photos together into one consistent block; where photos disagree, prefer "
        "what keeps a building whole. Left and right parts of the main building are to be as alike or as "
        "different as the photos show.",
    ),
}


def load_prompts(folder: str | None) -> dict[str, str]:
    """The prompt of each kind of input: satellite, street, streets (symmetry).

    Args:
        folder: holds `<kind>.txt` in place of one or more of ours; None takes ours.

    Raises:
        UserError: the folder has none of these files, or one that is no text.
    """
    ours = {kind: "\n".join((*lines, _TRUTH, _FRAME, _LOOK)) for kind, lines in PROMPTS.items()}
    return ours if folder is None else {**ours, **_own(Path(folder))}


def _own(folder: Path) -> Mapping[str, str]:
    found = {}
    for kind in PROMPTS:
        path = folder / f"{kind}.txt"
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read as text: {error}.") from error
        if not text:
            raise UserError(f"{path} is empty. Write a prompt, or take the file away.")
        found[kind] = text
    if not found:
        names = ", ".join(f"{kind}.txt" for kind in PROMPTS)
        raise UserError(f"data.views_miniature.prompts={folder} holds none of {names}.")
    return found
