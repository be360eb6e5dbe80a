"""`launch list`: the recipes, read from the head comments of their files."""

from dataclasses import dataclass, fields
from pathlib import Path

from configs import TREE
from data_prep.errors import UserError


@dataclass(frozen=True)
class Head:
    """What a recipe file says of itself in its first comments, one `# Field: text` a line."""

    what: str
    command: str
    paper: str
    hardware: str
    hours: str


def read_head(path: Path) -> Head:
    """The head comment of a recipe file.

    Raises:
        UserError: a field is missing.
    """
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, text = line.removeprefix("#").partition(":")
        if line.startswith("#") and separator:
            found[name.strip().lower()] = text.strip()
    missing = [field.name for field in fields(Head) if not found.get(field.name)]
    if missing:
        raise UserError(
            f"{path} lacks the head comment {', '.join(f'# {name.capitalize()}:' for name in missing)}"
        )
    return Head(**{field.name: found[field.name] for field in fields(Head)})


def recipes() -> dict[str, Head]:
    return {path.stem: read_head(path) for path in sorted((TREE / "recipe").glob("*.yaml"))}


def show() -> int:
    """Print the recipes, a block each: names and commands must stay whole on a narrow terminal."""
    for name, head in recipes().items():
        print(name)
        for field in fields(head):
            print(f"  {field.name:<9} {getattr(head, field.name)}")
        print()
    print("With scale=tiny in place of data.root= and teacher.path=, a recipe runs on a laptop.")
    return 0
