"""The requests of question generation, rendered from `templates`.

A file of the user's (`<variant>.txt` in `generation.prompts`) takes the place of the instruction; what is
checked stays the same.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_prep.errors import UserError
from data_prep.generation.templates import SLOT_WORDS, VARIANTS, Category, Variant

VIEWS = {
    "street": "a photo from the street",
    "panorama": "a street panorama",
    "satellite": "the satellite image",
}
SOLVER = "Answer a multiple-choice question about a place. Reply with the letter of one option, nothing else."


def load_instructions(folder: str | None) -> dict[str, str]:
    """The instruction of every variant: the file `<variant>.txt` in `folder` where there is one, else ours.

    Raises:
        UserError: `folder` is no folder, holds none of the files, or one that cannot be read as UTF-8 text.
    """
    ours = {name: instruction(variant) for name, variant in VARIANTS.items()}
    if folder is None:
        return ours
    files = {name: Path(folder, f"{name}.txt") for name in VARIANTS}
    found = {name: path for name, path in files.items() if path.is_file()}
    if not found:
        raise UserError(
            f"generation.prompts={folder} holds none of {', '.join(p.name for p in files.values())}."
        )
    try:
        return ours | {name: path.read_text(encoding="utf-8").strip() for name, path in found.items()}
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"generation.prompts={folder} cannot be read as text: {error}.") from error


def instruction(variant: Variant) -> str:
    """Our instruction of a variant: who answers later, how the pictures lie, what is asked and what never."""
    hidden = "satellite" if variant.task == "g2s" else "panorama" if variant.subset == "cvusa" else "street"
    banned = "; ".join(ban.told for ban in variant.bans)
    lines = [
        "Write multiple-choice questions about two pictures of one place, for a test of spatial imagination.",
        f"Whoever answers sees {VIEWS[variant.shown]} alone; you see both pictures.",
        f"So a question is put in terms of {VIEWS[variant.shown]}, calls for imagining the other view, and"
        f" has an answer that {VIEWS[hidden]} shows beyond doubt. Discard what it leaves open.",
        "",
        *variant.camera,
        *variant.rules,
        "Nothing you write may hint at the right option.",
        f"A description that fills a gap has {SLOT_WORDS[0]} to {SLOT_WORDS[1]} words, fits one object"
        f" only, and holds none of these: {banned}.",
        *_anchors(variant),
        "",
        "Kinds of question. Keep to the wording and fill the gaps in braces; copy the options as they are.",
        *(line for category in variant.categories for line in _kind(category)),
        "",
        *_form(variant),
    ]
    return "\n".join(lines)


def _anchors(variant: Variant) -> list[str]:
    if not variant.anchors_needed:
        return []
    kinds = "; ".join(anchor.told for anchor in variant.anchors)
    count = {1: "at least one", 2: "at least two kinds"}[variant.anchors_needed]
    return [f"Every description of a building or target uses {count} of: {kinds}."]


def _kind(category: Category) -> list[str]:
    lines = ["", f"{category.name}: {category.stem}"]
    for slot in category.slots:
        choices = f", one of: {' | '.join(slot.choices)}" if slot.choices else ""
        lines.append(f"  {{{slot.name}}} is {slot.meaning}{choices}")
    lines += [f"  {option}" for option in category.labelled]
    if category.bans:
        banned = "; ".join(ban.told for ban in category.bans)
        lines.append(f"  Here the gaps also hold none of: {banned}.")
    if category.answers:
        lines.append(f"  Ask only where the answer is {' or '.join(category.answers)}.")
    if category.margin:
        lines.append(
            f"  Give as margin how many times one exceeds the other; it is {category.margin:g} or more."
        )
    return [*lines, *(f"  {rule}" for rule in category.rules)]


def _form(variant: Variant) -> list[str]:
    example = {
        "question": "...",
        "options": ["A) ...", "B) ..."],
        "answer": "A",
        "category": "...",
        "margin": None,
    }
    return [
        f'Reply with JSON alone: {{"questions": [{json.dumps(example)}, ...]}}. `margin` is null where none'
        " is asked for. The order of the questions is random.",
    ]


def request_text(variant: Variant, pictures: Sequence[str], spread_letters: bool) -> str:
    """The user's part of a request for questions; `pictures` names what is attached, in order."""
    kinds = ", ".join(category.name for category in variant.categories)
    if variant.least == variant.most == len(variant.categories) and variant.distinct:
        count = f"Write exactly {variant.most} questions, one of each kind: {kinds}."
    elif variant.least == variant.most:
        count = f"Write exactly {variant.most} questions of these kinds: {kinds}."
    else:
        count = (
            f"Write up to {variant.most} questions, each of another kind of these: {kinds}. Fewer, or an"
            " empty list, where the pair does not carry more."
        )
    lines = [f"Attached, in this order: {', '.join(pictures)}.", count]
    if spread_letters and variant.least == variant.most >= 3:
        lines.append("Choose what you ask about so that the right letters are three different ones or more.")
    return "\n".join(lines)


def retry_text(text: str, reply: str | None, faults: Sequence[str]) -> str:
    """The request again, with what was wrong with the last reply."""
    before = f"\n\nYour last reply was:\n{reply}" if reply else ""
    listed = "\n".join(f"- {fault}" for fault in faults)
    return f"{text}{before}\n\nIt cannot be used:\n{listed}\nWrite the whole reply again."


def solver_text(question: str, options: dict[str, str]) -> str:
    """A question put without pictures."""
    return "\n".join([question, *(f"{letter}) {text}" for letter, text in options.items())])


def reply_schema(variant: Variant) -> dict[str, Any]:
    """JSON schema of a reply; counts and words are left to `validate`, which says more than a schema can."""
    question = {
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 1},
            "options": {"type": "array", "items": {"type": "string"}},
            "answer": {"type": "string", "enum": ["A", "B", "C", "D"]},
            "category": {"type": "string", "enum": [category.name for category in variant.categories]},
            "margin": {"type": ["number", "null"]},
        },
        "required": ["question", "options", "answer", "category", "margin"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"questions": {"type": "array", "items": question}},
        "required": ["questions"],
        "additionalProperties": False,
    }
