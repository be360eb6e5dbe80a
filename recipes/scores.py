"""From completions to predictions and from predictions to scores. Needs no torch.

The strict reading (`rewards`, the same that GRPO is paid by) is the result. Two others stand beside it: the
flexible one, so that a model which knows the answer but not the form is told from one that does not know, and
the official one (`recipes.official`), which is what the paper's evaluation toolkit would have counted.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from data_prep.rows import Row
from data_prep.scoring import frame
from recipes import official
from recipes.judged import CELL, CLOSED, READINGS, Boxed, Judged, judged
from recipes.letter_bias import letter_bias
from recipes.official_gap import official_gap
from recipes.statistics import bootstrap_ci
from rewards import score_batch
from rewards.box import box_text

UNPARSED = "none"
KEPT_OF_META = ("base", "scenario", "long_tail")  # of MonoSR's rows, for its tables
PAPER_LEVELS = (3, 4)  # of grounding; the paper's mean IoU is over the rows of both


def predict(
    row: Row, completion: str, tokens: int, truncated: bool, response_format: str, reward: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of one answer in predictions.jsonl; `tokens` counts the end token too.

    `accuracy` is in [0, 1] (the IoU of a box, else 0 or 1); `correct` means at least one half of it.
    `accuracy_official` is 0 or 1 (for a box: an IoU of one half), None for answer types that the toolkit
    does not know. `images` are the pictures in the order sent. A box row has `iou` in the three readings,
    `valid_box` (one was read) and `center_hit` (its centre lies in the gold) in two, `out_of_range`,
    and `target_size`, [width, height] of the picture that the box is in.
    `reward` are the keyword arguments of `rewards.compute_score`.
    """
    question = {
        "answer_type": row.answer_type,
        "options": row.options,
        "unit": row.unit,
        **frame(row),
        "response_format": response_format,
    }
    [scored] = score_batch(
        [{"solution_str": completion, "ground_truth": row.answer, "extra_info": question}], **reward
    )
    return {
        "id": row.id,
        "group": row.group,
        **{key: getattr(row, key) for key in CELL},
        "level": row.meta.get("level"),
        **{key: row.meta[key] for key in KEPT_OF_META if key in row.meta},
        "answer_type": row.answer_type,
        "images": [image.path for image in row.images],
        "answer": row.answer,
        "completion": completion,
        "parsed": scored["parsed"],
        "parsed_flexible": scored["parsed_flexible"],
        "correct": scored["accuracy"] >= 0.5,
        "correct_flexible": scored["accuracy_flexible"] >= 0.5,
        "score": scored["score"],
        "accuracy": scored["accuracy"],
        "accuracy_flexible": scored["accuracy_flexible"],
        "format": scored["format"],
        "reason": scored["reason"],
        "tokens": tokens,
        "truncated": truncated,
        "chance": chance(row),
        **official_reading(row, completion),
        **(_boxes(row, scored) if row.answer_type == "box" else {}),
    }


def chance(row: Row) -> float:
    """Expected accuracy of a uniform guess; 0 for open answers."""
    if row.answer_type == "choice" and row.options:
        return 1.0 / len(row.options)
    return 0.5 if row.answer_type == "yes_no" else 0.0


def official_reading(row: Row, completion: str) -> dict[str, Any]:
    """The keys of a prediction that tell the official reading of a reply.

    `retried_official`: a box is wanted and there is none, after which the toolkit asks once more.
    """
    if row.answer_type == "choice":
        letter = official.read_letter(completion).letter
        return {"parsed_official": letter or "", "accuracy_official": float(letter == row.answer)}
    if row.answer_type != "box":
        return {"parsed_official": "", "accuracy_official": None}
    size = frame(row)["image_size"]
    reading = official.read_box(completion, size and tuple(size))
    found = official.score_box(reading.box, row.answer)
    return {
        "parsed_official": "" if reading.box is None else box_text(reading.box),
        "accuracy_official": float(found.iou >= official.RIGHT_FROM),
        "iou_official": found.iou,
        "valid_box_official": found.valid,
        "center_hit_official": found.center_hit,
        "unit_official": reading.unit,
        "retried_official": official.retry_sentence(completion, row.answer_type) is not None,
    }


def _boxes(row: Row, scored: Mapping[str, Any]) -> dict[str, Any]:
    """Two readings of a box. `accuracy` will not do: with `reward.iou_threshold` it is 0 or 1."""
    strict, flexible = (
        official.score_box(tuple(json.loads(scored[key])) if scored[key] else None, row.answer)
        for key in ("parsed", "parsed_flexible")
    )
    return {
        "iou": strict.iou,
        "iou_flexible": flexible.iou,
        "valid_box": strict.valid,
        "center_hit": strict.center_hit,
        "out_of_range": scored["out_of_range"],
        "target_size": frame(row)["image_size"],
    }


def summarise(predictions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """{"overall": scores, "cells": [{subset, task, category, scores}], "official": ..., "levels": ...}.

    See `_scores` for the keys of a scores dictionary, `recipes.official_gap` for `official`. `levels` holds
    the scores of the grounding rows by level ("3", "4", ..., and "3+4", which the paper reports); it is
    empty without such rows. The predictions are read once, and their order does not matter.
    """
    answers = judged(predictions)
    cells: dict[tuple[str, ...], list[Judged]] = {}
    for answer in answers:
        cells.setdefault(answer.cell, []).append(answer)
    by_cell = [
        {**dict(zip(CELL, cell, strict=True)), **_scores(members)} for cell, members in sorted(cells.items())
    ]
    # The best that can be said without looking: for every category its own most frequent answer, or its own
    # answers drawn by lot.
    blind = {
        f"{key}_by_category": sum(cell[key] * cell["n"] for cell in by_cell) / max(1, len(answers))
        for key in ("majority", "prior_matching")
    }
    return {
        "overall": {**_scores(answers), **blind},
        "cells": by_cell,
        "levels": _levels(answers),
        "official": official_gap(answers),
    }


def _levels(answers: Sequence[Judged]) -> dict[str, Any]:
    boxes = [p for p in answers if p.box and p.level is not None]
    wanted = {str(level): {level} for level in sorted({p.level for p in boxes if p.level is not None})}
    wanted |= {"+".join(map(str, PAPER_LEVELS)): set(PAPER_LEVELS)}
    members = {name: [p for p in boxes if p.level in levels] for name, levels in wanted.items()}
    return {name: _scores(found) for name, found in members.items() if found}


def _scores(answers: Sequence[Judged]) -> dict[str, Any]:
    """Accuracies with their 95 % intervals over image groups, what they are to be compared with, and habits.

    Shares are fractions of `n` rows. Baselines: `chance` is the mean accuracy of uniform guesses,
    `constant` that of always giving one answer, `majority` the best of those (it gives `majority_answer`, and
    to a question for a box the median of the right ones),
    `prior_matching` that of answers drawn by lot as often as they are right. `letters` and `gold` count the
    answers given and the right ones of rows with closed answers; boxes and numbers are none of them.
    `letter_bias` tests the two against each other. With box rows there are the keys of `_box_scores`
    besides.
    """
    n = len(answers)
    groups = [p.group for p in answers]
    closed = [p for p in answers if p.answer_type in CLOSED]
    lettered = [p for p in closed if p.answer_type == "choice"]
    boxes = [p.box for p in answers if p.box]
    gold = Counter(p.gold for p in closed)
    majority_answer, majority_count = min(gold.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    return {
        "n": n,
        "groups": len(set(groups)),
        **_measured([p.accuracy for p in answers], groups, "accuracy", ""),
        **_measured([p.accuracy_flexible for p in answers], groups, "accuracy", "_flexible"),
        **_measured([p.accuracy_official for p in answers], groups, "accuracy", "_official"),
        "chance": sum(p.chance for p in answers) / n,
        "majority": (majority_count + _constant_boxes(boxes)) / n,
        "majority_answer": majority_answer,
        "constant": {answer: count / n for answer, count in sorted(gold.items())},
        "prior_matching": sum(count**2 for count in gold.values()) / max(1, len(closed)) / n,
        "score": sum(p.score for p in answers) / n,
        "format": sum(p.format for p in answers) / n,
        **{
            f"unparsed{reading}": sum(p.unparsed[place] for p in answers) / n
            for place, reading in enumerate(READINGS)
        },
        "truncated": sum(p.truncated for p in answers) / n,
        "mean_tokens": sum(p.tokens for p in answers) / n,
        "letters": _counts(p.parsed or UNPARSED for p in closed),
        "gold": dict(sorted(gold.items())),
        "letter_bias": letter_bias(
            [p.parsed for p in lettered], [p.gold for p in lettered], [p.group for p in lettered]
        ),
        **_box_scores(boxes, [p.group for p in answers if p.box]),
    }


def _constant_boxes(boxes: Sequence[Boxed]) -> float:
    """Summed IoU of always giving, for each size of the target picture, the median of the right boxes."""
    golds: dict[str, list[Sequence[float]]] = {}
    for box in boxes:
        golds.setdefault(box.target_size, []).append(box.gold)
    total = 0.0
    for members in golds.values():
        middle = tuple(map(median, zip(*members, strict=True)))
        total += sum(official.score_box(middle, gold).iou for gold in members)
    return total


def _box_scores(boxes: Sequence[Boxed], groups: Sequence[str]) -> dict[str, Any]:
    """Of the box rows alone, in the strict and in the official reading; nothing where there are none.

    `mean_iou` with its interval; `accuracy_at` IoU threshold -> share; `valid_box`, the share that a box
    was read from, and `null_boxes`, how many not: these have IoU 0 and stay in every denominator;
    `center_hit`, the share whose centre lies in the gold box. `out_of_range` is the share with a coordinate
    off the picture. `groups` has the image group of each box.
    """
    if not boxes:
        return {}
    n = len(boxes)
    found: dict[str, Any] = {"boxes": n, "out_of_range": sum(box.out_of_range > 0 for box in boxes) / n}
    for reading, scores in (("", [b.strict for b in boxes]), ("_official", [b.official for b in boxes])):
        found |= _measured([score.iou for score in scores], groups, "mean_iou", reading, "mean_iou_")
        found |= {
            f"accuracy_at{reading}": {
                str(t): sum(score.iou >= t for score in scores) / n for t in official.THRESHOLDS
            },
            f"valid_box{reading}": sum(score.valid for score in scores) / n,
            f"null_boxes{reading}": sum(not score.valid for score in scores),
            f"center_hit{reading}": sum(score.center_hit for score in scores) / n,
        }
    return found


def _measured(
    values: Sequence[float | None], groups: Sequence[str], name: str, reading: str, ends: str = ""
) -> dict[str, float | None]:
    """The mean of the values that are there and its interval, low and high; None where none is there."""
    names = [f"{name}{reading}", f"{ends}low{reading}", f"{ends}high{reading}"]
    kept = [value for value in values if value is not None]
    if not kept:
        return dict.fromkeys(names)
    low, high = bootstrap_ci(
        kept, [group for value, group in zip(values, groups, strict=True) if value is not None]
    )
    return dict(zip(names, (sum(kept) / len(kept), low, high), strict=True))


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
