"""What the reward finds in a row: a gold that it can score, and option letters changed where asked for."""

import re
from dataclasses import replace
from typing import Any

from data_prep.rows import Row
from rewards import shuffle_options, validate_gold
from rewards.choice import option_text

_DEALS = 40  # a letter that may move stays in all of them once in 2^40 rows
_LAST_ANSWER = re.compile(r"<answer>[^<]*</answer>(?!.*<answer>)", re.IGNORECASE | re.DOTALL)


def gold_fault(row: Row) -> str | None:
    """Why the reward could never score the row's answer; None where it can."""
    try:
        validate_gold(row.answer, row.answer_type, options=row.options, unit=row.unit)
    except ValueError as error:
        return f"the answer cannot be scored: {error}"
    return None


def gold(row: Row) -> Any:
    """The row's answer in the form that `rewards.parse_answer` gives a right one."""
    return tuple(row.answer) if row.answer_type == "box" else row.answer


def box_fault(row: Row) -> str | None:
    """Why no answer inside the target picture could meet the row's box; None for any other row.

    A box that only reaches over the edge stays as it is: clipping it would change the benchmark.
    """
    size = frame(row)["image_size"]
    if size is None:
        return None
    x_min, y_min, x_max, y_max = row.answer
    if x_max <= 0 or y_max <= 0 or x_min >= size[0] or y_min >= size[1]:
        return f"the box {row.answer} lies off its picture of {size[0]} x {size[1]} pixels"
    return None


def frame(row: Row) -> dict[str, Any]:
    """`coordinates` and `image_size` of the reward's `extra_info`: pixels of the last picture; else None."""
    if row.answer_type != "box" or not row.images or not row.images[-1].width:
        return {"coordinates": None, "image_size": None}
    return {"coordinates": "pixel", "image_size": [row.images[-1].width, row.images[-1].height]}


def deal_letters(row: Row, seed: int) -> Row:
    """A choice row with its option texts dealt anew onto its letters, the same way on every machine.

    Options, answer and the letter in which the reasoning ends move together, so every stage sees one row; the
    reasoning before it names no letter (`data_prep.teacher`). `meta["dealt"]` maps each letter to the one
    that its text had in the release. A row without options comes back as it is.
    """
    if row.answer_type != "choice" or row.options is None:
        return row
    options, answer, dealt = shuffle_options(row.options, row.answer, row.id, seed)
    reasoning = row.reasoning and _LAST_ANSWER.sub(f"<answer> {answer} </answer>", row.reasoning)
    return replace(
        row, options=options, answer=answer, reasoning=reasoning, meta={**row.meta, "dealt": dealt}
    )


def rotate_options(row: Row, places: int) -> Row:
    """A choice row whose option texts stand `places` letters further on, the last ones at the front.

    The letters stay where they are and the answer goes with its text, so a model that reads the options is
    right as often as before. Options that keep their place, and rows that keep all of them, are those of
    `deal_letters` ("all of the above"; options that are letters themselves). `meta["rotated"]` maps each
    letter to the one that its text had. A row without options, or none that moves, comes back as it is.
    """
    if row.answer_type != "choice" or row.options is None:
        return row
    free = movable_letters(row)
    if not free or places % len(free) == 0:
        return row
    texts = {letter: option_text(letter, text) for letter, text in row.options.items()}
    old = {letter: letter for letter in texts}
    old |= {letter: free[(place - places) % len(free)] for place, letter in enumerate(free)}
    answer = next(letter for letter in old if old[letter] == row.answer)
    options = {letter: texts[old[letter]] for letter in old}
    return replace(row, options=options, answer=answer, meta={**row.meta, "rotated": old})


def movable_letters(row: Row) -> list[str]:
    """The letters whose texts may change places, in order: those that `shuffle_options` deals.

    It is asked rather than copied: a letter that may move does so in one of the deals.
    """
    assert row.options is not None
    deals = [shuffle_options(row.options, row.answer, row.id, seed)[2] for seed in range(_DEALS)]
    return [letter for letter in row.options if any(deal[letter] != letter for deal in deals)]
