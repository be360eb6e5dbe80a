"""Whether a reply keeps to the rules: JSON, schema, then the templates. Every fault is a sentence.

The sentences go back to the generator with the next try, and into the list of what was set aside.
"""

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from jsonschema import Draft202012Validator

from data_prep.generation.prompts import reply_schema
from data_prep.generation.templates import SLOT_WORDS, Category, Variant

SPREAD = 3  # different right letters that the paper wants among three questions


@dataclass(frozen=True)
class Question:
    """A question that keeps to every rule. `answer` is the letter; options are the category's own."""

    category: Category
    text: str
    answer: str


@dataclass(frozen=True)
class Fault:
    """What is wrong: a kind to count by, and a sentence.

    `index` is the question's place in the reply, from 0; None: with the reply as a whole.
    """

    kind: str
    sentence: str
    index: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What of a reply is without a fault, and the faults; it is taken as it is when there are none."""

    kept: tuple[Any, ...]
    faults: tuple[Fault, ...]

    @property
    def sentences(self) -> list[str]:
        return [
            fault.sentence if fault.index is None else f"Question {fault.index + 1}: {fault.sentence}"
            for fault in self.faults
        ]


def judge(text: str, variant: Variant, spread_letters: bool = False) -> Verdict:
    """Read a reply. What is no JSON of the right form has no questions at all."""
    try:
        records = _records(text)
    except ValueError as error:
        return Verdict((), (Fault("json", str(error)),))
    faults = _schema_faults(records, variant)
    if any(fault.index is None for fault in faults):
        return Verdict((), tuple(faults))
    broken = {fault.index for fault in faults}
    kept: list[Question] = []
    for index, record in enumerate(records["questions"]):
        if index in broken:
            continue
        category = variant.category(record["category"])
        assert category is not None  # the schema's enumeration
        found = question_faults(record, category, variant)
        question = Question(category, _tidy(record["question"]), record["answer"])
        if not found:
            found = _repetition(question, kept, variant)
        faults += [replace(fault, index=index) for fault in found]
        if not found:
            kept.append(question)
    faults += _count_faults(len(records["questions"]), variant)
    if spread_letters and len(kept) == variant.least == variant.most >= SPREAD:
        letters = {question.answer for question in kept}
        if len(letters) < SPREAD:
            given = ", ".join(sorted(letters))
            faults.append(Fault("letters", f"the right letters are {given}; they must be {SPREAD} or more."))
    return Verdict(tuple(kept), tuple(faults))


def question_faults(record: dict[str, Any], category: Category, variant: Variant) -> list[Fault]:
    """What is wrong with one question of a known category."""
    faults: list[Fault] = []

    def say(kind: str, sentence: str) -> None:
        faults.append(Fault(kind, sentence))

    if [_tidy(option) for option in record["options"]] != category.labelled:
        say("options", f"the options of {category.name} must be exactly {json.dumps(category.labelled)}.")
    if record["answer"] not in category.letters:
        say(
            "answer", f"the answer {record['answer']} is not among the options {', '.join(category.letters)}."
        )
    elif category.answers and record["answer"] not in category.answers:
        only = " or ".join(category.answers)
        say("answer", f"{category.name} is asked only where the answer is {only}, not {record['answer']}.")
    margin = record["margin"]
    if category.margin and (margin is None or margin < category.margin):
        given = "none is given" if margin is None else f"it is {margin:g}"
        say(
            "margin",
            f"{category.name} is for extreme cases: the margin must be {category.margin:g} or more, and"
            f" {given}.",
        )
    filled = category.filled(record["question"])
    if filled is None:
        say("stem", f'the question must read "{category.stem}", with the gaps in braces filled.')
        return faults
    return faults + _gap_faults(filled, category, variant)


def _gap_faults(filled: dict[str, str], category: Category, variant: Variant) -> list[Fault]:
    faults: list[Fault] = []

    def say(kind: str, sentence: str) -> None:
        faults.append(Fault(kind, sentence))

    for slot in category.slots:
        text = filled[slot.name]
        if slot.choices:
            if text.lower() not in slot.choices:
                say("gap", f"{{{slot.name}}} must be one of {' | '.join(slot.choices)}, not {text!r:.60}.")
            continue
        count = len(text.split())
        if not SLOT_WORDS[0] <= count <= SLOT_WORDS[1]:
            least, most = SLOT_WORDS
            say("length", f"{{{slot.name}}} has {count} words; it must have {least} to {most}.")
        for ban in (*variant.bans, *category.bans):
            if word := ban.found_in(text):
                say("banned", f"{{{slot.name}}} holds {word!r}, {ban.name}.")
        kinds = [anchor.name for anchor in variant.anchors if anchor.found_in(text)]
        if len(kinds) < variant.anchors_needed:
            wanted = ", ".join(anchor.name for anchor in variant.anchors)
            say(
                "anchors",
                f"{{{slot.name}}} must be placed by {variant.anchors_needed} of these or more ({wanted});"
                f" it has {len(kinds)}.",
            )
    free = [filled[slot.name].lower() for slot in category.free_slots]
    if len({*free}) < len(free):
        say("repeated", "Building A and Building B are described in the same words.")
    return faults


def _repetition(question: Question, kept: list[Question], variant: Variant) -> list[Fault]:
    if variant.distinct and any(other.category is question.category for other in kept):
        name = question.category.name
        return [Fault("repeated", f"{name} is asked twice; every question has a category of its own.")]
    if any(other.text.lower() == question.text.lower() for other in kept):
        return [Fault("repeated", "it is asked twice, word for word.")]
    return []


def _count_faults(count: int, variant: Variant) -> list[Fault]:
    if variant.least <= count <= variant.most:
        return []
    wanted = f"exactly {variant.most}" if variant.least == variant.most else f"at most {variant.most}"
    return [Fault("count", f"there must be {wanted} questions, and there are {count}.")]


def _records(text: str) -> dict[str, Any]:
    """The JSON object of a reply; a fence around it, words before it and a bare list are forgiven."""
    start = re.search(r"[\[{]", text)
    if start is None:
        raise ValueError("the reply holds no JSON.")
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start.start() :])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the reply is not JSON ({error!s:.120}).") from None
    return {"questions": value} if isinstance(value, list) else value


def _schema_faults(records: dict[str, Any], variant: Variant) -> list[Fault]:
    faults = []
    for error in Draft202012Validator(reply_schema(variant)).iter_errors(records):
        path = list(error.absolute_path)
        index = path[1] if len(path) > 1 and isinstance(path[1], int) else None
        where = ".".join(str(part) for part in path[2:])
        faults.append(Fault("schema", f"{f'`{where}`: ' if where else ''}{error.message:.200}.", index))
    return faults


def _tidy(text: str) -> str:
    return " ".join(text.split())
