"""What the reward finds in a row: a gold that it can score, and letters dealt anew where asked for."""

import re
from dataclasses import replace

from data_prep.rows import Row
from rewards import shuffle_options, validate_gold

_LAST_ANSWER = re.compile(r"<answer>[^<]*</answer>(?!.*<answer>)", re.IGNORECASE | re.DOTALL)


def gold_fault(row: Row) -> str | None:
    """Why the reward could never score the row's answer; None where it can."""
    try:
        validate_gold(row.answer, row.answer_type, options=row.options, unit=row.unit)
    except ValueError as error:
        return f"the answer cannot be scored: {error}"
    return None


def deal_letters(row: Row, seed: int) -> Row:
    """A choice row with its option texts dealt anew onto its letters, the same way on every machine.

    Options, answer and the letter in which the reasoning ends move together, so every stage sees one row; the
    reasoning before it names no letter (`data_prep.teachers`). `meta["dealt"]` maps each letter to the one
    that its text had in the release. A row without options comes back as it is.
    """
    if row.answer_type != "choice" or row.options is None:
        return row
    options, answer, dealt = shuffle_options(row.options, row.answer, row.id, seed)
    reasoning = row.reasoning and _LAST_ANSWER.sub(f"<answer> {answer} </answer>", row.reasoning)
    return replace(
        row, options=options, answer=answer, reasoning=reasoning, meta={**row.meta, "dealt": dealt}
    )
