"""What the answers of one GRPO step show, as numbers of metrics.jsonl. Standard library only.

An answer is a line of rollouts.jsonl: id, task, category, answer_type, gold, completion, tokens, truncated,
and the results of the reward (score, accuracy, format, parsed, out_of_range).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MEANS = {
    "reward": "score",
    "accuracy": "accuracy",
    "format": "format",
    "response_tokens": "tokens",
    "truncated": "truncated",
}
GRAM = 4  # units of text (words, marks) that are compared
SHORTEST = 24  # units; a shorter text is no loop
REPETITIVE = 0.3  # share of a text's grams that stood in it before, from which it repeats itself
_UNIT = re.compile(r"\w{1,12}|[^\w\s]")

Answers = Sequence[Mapping[str, Any]]


def answer_metrics(answers: Answers) -> dict[str, Any]:
    """Numbers of a step; shares are in [0, 1], tokens are means an answer.

    `flat_groups`, `all_wrong`, `all_right` and `format_only` are shares of the prompts: all answers have one
    score (and teach nothing), are wrong, are right, or have one accuracy and yet several scores. `repeated`
    and `unparsed` are shares of the answers; `tokens_right` and `tokens_wrong` are there where there are such
    answers, `out_of_range` (answers with a coordinate off the image) where boxes are asked for. `letters` and
    `gold_letters` count the letters given to choice questions and the right ones of the same questions;
    `letter_distance` is their total variation. `by_task` and `by_category` hold answers, accuracy, format and
    letters apart.
    """
    found: dict[str, Any] = {name: mean(a[key] for a in answers) for name, key in MEANS.items()}
    groups = _gathered(answers, "id")
    found |= {
        "flat_groups": mean(len({a["score"] for a in group}) == 1 for group in groups.values()),
        "all_wrong": mean(all(a["accuracy"] == 0 for a in group) for group in groups.values()),
        "all_right": mean(all(a["accuracy"] == 1 for a in group) for group in groups.values()),
        "format_only": mean(_differs_in_format_alone(group) for group in groups.values()),
        "unparsed": mean(not a["parsed"] for a in answers),
        "repeated": mean(repeated_share(a["completion"]) > REPETITIVE for a in answers),
    }
    for name, kept in (
        ("tokens_right", [a for a in answers if a["accuracy"] >= 0.5]),
        ("tokens_wrong", [a for a in answers if a["accuracy"] < 0.5]),
    ):
        if kept:
            found[name] = mean(a["tokens"] for a in kept)
    if boxes := [a for a in answers if a["answer_type"] == "box"]:
        found["out_of_range"] = mean(a["out_of_range"] > 0 for a in boxes)
    found |= _letters(answers)
    if found["letters"]:
        found["letter_distance"] = total_variation(found["letters"], found["gold_letters"])
    for name, key in (("by_task", "task"), ("by_category", "category")):
        found[name] = {value: _apart(members) for value, members in sorted(_gathered(answers, key).items())}
    return found


def total_variation(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Half the summed difference of two distributions, given as counts: 0 when equal, 1 when disjoint."""
    n, m = sum(one.values()), sum(other.values())
    return sum(abs(one.get(key, 0) / n - other.get(key, 0) / m) for key in {*one, *other}) / 2


def repeated_share(text: str) -> float:
    """The share of a text's runs of four words or marks that stood in it before; 0 for a short text.

    Long words are cut, so that a text without spaces that goes round in a circle is found too.
    """
    units = _UNIT.findall(text)
    if len(units) < SHORTEST:
        return 0.0
    grams = list(zip(*(units[start:] for start in range(GRAM)), strict=False))
    return 1 - len(set(grams)) / len(grams)


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


def _differs_in_format_alone(group: Answers) -> bool:
    return len({a["score"] for a in group}) > 1 and len({a["accuracy"] for a in group}) == 1


def _letters(answers: Answers) -> dict[str, dict[str, int]]:
    read = [a for a in answers if a["answer_type"] == "choice" and a["parsed"]]
    return {
        "letters": dict(sorted(Counter(a["parsed"] for a in read).items())),
        "gold_letters": dict(sorted(Counter(a["gold"] for a in read).items())),
    }


def _apart(answers: Answers) -> dict[str, Any]:
    return {
        "answers": len(answers),
        "accuracy": mean(a["accuracy"] for a in answers),
        "format": mean(a["format"] for a in answers),
        **_letters(answers),
    }


def _gathered(answers: Answers, key: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for answer in answers:
        found.setdefault(answer[key], []).append(answer)
    return found
