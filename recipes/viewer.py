"""Pages that show the answers of several models side by side, each page one file without a network.

    index.html          the models, and which page has which scenes
    page-001.html ...   at most 25 MB each; pictures downscaled, every one once a page

Whatever a model or a data set wrote is escaped by the template engine. The one script and the style are
allowed by their hash alone, and pictures by `data:`; the page fetches nothing. Without the script every row
is shown.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from data_prep.atomic import write_text
from recipes.progress import StepProgress
from recipes.report_samples import embed
from recipes.report_words import percent
from recipes.viewer_rows import Model, Question, choices, load, questions

MOST_BYTES = 25 * 10**6
LONGEST_ANSWER = 200_000  # characters; a model's limit on tokens is far below
_FRAME = 200_000  # bytes kept for the page around the rows


@dataclass
class _Page:
    """Rows of one file, rendered, with the pictures that they name."""

    items: list[Markup] = field(default_factory=list)
    scenes: list[str] = field(default_factory=list)
    pictures: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    size: int = _FRAME


def write_viewer(runs: Mapping[str, Path], out: Path, title: str, side: int, most: int = MOST_BYTES) -> Path:
    """Write the pages into `out` and return the index. Pages of an earlier call are taken away.

    Args:
        runs: label to the run directory of a finished evaluation.
        side: pixels of a picture's longer side.
        most: bytes of a page; a row that is larger stands alone on one.

    Raises:
        UserError: as `load` and `questions` do.
    """
    models = load(runs)
    found = questions(models)
    templates = environment()
    for old in out.glob("page-*.html"):
        old.unlink()
    index = []
    with StepProgress("rows of the viewer", len(found)) as progress:
        for number, page in enumerate(_pages(templates, models, found, side, most, progress.update), 1):
            name = f"page-{number:03d}.html"
            frame = {
                "title": title,
                "models": models,
                "pictures": page.pictures,
                "items": page.items,
                "choices": choices(found),
                "fields": form_fields(models, {}),
                "served": False,
                "total": len(page.items),
                "number": number,
                "policy": policy("data:"),
                **assets(),
            }
            write_text(out / name, templates.get_template("viewer.html.j2").render(frame))
            index.append(
                {"name": name, "rows": len(page.items), "first": page.scenes[0], "last": page.scenes[-1]}
            )
    frame = {
        "title": title,
        "models": models,
        "pages": index,
        "rows": len(found),
        "policy": policy("data:"),
        **assets(),
    }
    write_text(out / "index.html", templates.get_template("viewer_index.html.j2").render(frame))
    return out / "index.html"


def environment() -> Environment:
    """The templates, everything escaped."""
    templates = Environment(
        loader=PackageLoader("recipes"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["percent"] = percent
    return templates


def assets() -> dict[str, Markup]:
    """Style and script as they stand in the page."""
    loader = PackageLoader("recipes")
    sources = {name: loader.get_source(Environment(), f"viewer.{kind}")[0] for name, kind in _ASSETS.items()}
    return {name: Markup(source) for name, source in sources.items()}


_ASSETS = {"style": "css", "script": "js"}


def form_fields(models: Sequence[Model], given: Mapping[str, str]) -> dict[str, str]:
    """A value for every control of the page's form; "" where none is given."""
    names = ("task", "category", "differ", *(f"m{model.number}" for model in models))
    return {name: given.get(name, "") for name in names}


def policy(pictures: str, form: str = "'none'") -> str:
    """The content policy: our style and script by their hash, pictures from `pictures`, nothing else."""
    own = {name: hash_source(text) for name, text in assets().items()}
    return (
        f"default-src 'none'; img-src {pictures}; style-src {own['style']}; script-src {own['script']}; "
        f"form-action {form}; base-uri 'none'"
    )


def hash_source(text: str) -> str:
    """A text's hash as a content policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render_item(
    templates: Environment, models: Sequence[Model], question: Question, names: Sequence[str]
) -> Markup:
    """One row; `names` are what its pictures are called on the page, in their order."""
    answers = [
        {
            "model": model,
            "text": question.answers[model.number]["completion"][:LONGEST_ANSWER],
            "cut": len(question.answers[model.number]["completion"]) > LONGEST_ANSWER,
            **question.answers[model.number],
        }
        for model in models
        if model.number in question.answers
    ]
    boxes = [(model, box) for model in models if (box := question.box_of(model.number))]
    text = templates.get_template("viewer_item.html.j2").render(
        {
            "row": question.row,
            "question": question,
            "pictures": list(zip(names, question.pictures, strict=True)),
            "answers": answers,
            "boxes": boxes,
            "absent": [model.label for model in models if model.number not in question.answers],
        }
    )
    return Markup(text)


def _pages(
    templates: Environment,
    models: Sequence[Model],
    found: Sequence[Question],
    side: int,
    most: int,
    update: Callable[[int], None],
) -> Iterator[_Page]:
    page = _Page()
    for done, question in enumerate(found, 1):
        names = [picture_name(shown.file) for shown in question.pictures]
        item = render_item(templates, models, question, names)
        fresh = _pictures(question, names, side, page.pictures)
        size = len(item.encode()) + 1 + sum(len(one["data"]) + 120 for one in fresh.values())
        if page.items and page.size + size > most:
            yield page
            page = _Page()
            fresh = _pictures(question, names, side, {})
            size = len(item.encode()) + 1 + sum(len(one["data"]) + 120 for one in fresh.values())
        page.items.append(item)
        page.scenes.append(question.row.group)
        page.pictures |= fresh
        page.size += size
        update(done)
    if page.items:
        yield page


def _pictures(
    question: Question, names: Sequence[str], side: int, there: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """What the page needs of a question's pictures beside those that are `there`."""
    return {
        name: {"data": embed(shown.file, side), "width": shown.image.width, "height": shown.image.height}
        for name, shown in zip(names, question.pictures, strict=True)
        if name not in there
    }


def picture_name(file: Path) -> str:
    """A name for a picture file, the same for the same file."""
    return f"p{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
