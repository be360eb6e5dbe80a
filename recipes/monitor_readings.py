"""What the monitors of a GRPO run measure, each on a window of its records in metrics.jsonl.

`letter_collapse` is there because CVSBench saw RL prefer single options (its discussion of tables 4 and 5);
the others are what users of several trainers report. Standard library only.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from recipes.answer_metrics import mean, total_variation

LEAST_LETTERS = 320  # answers from which letters are judged; with fewer, chance alone comes near the limit
MEMORY = 6  # windows that may be taken to come to so many

Records = Sequence[Mapping[str, Any]]


class Reading(NamedTuple):
    """A monitor's value on a window; above its limit it is an alarm. `detail` says what it is made of."""

    value: float
    detail: str = ""


class Seen(NamedTuple):
    """Records of a run: of its first window, of the present one, and of the last `MEMORY` windows."""

    first: Records
    recent: Records
    longer: Records


Read = Callable[[Seen], Reading | None]


class Monitor(NamedTuple):
    """What is measured, in words; how; what can be done."""

    says: str
    read: Read
    advice: str


def _mean_of(key: str) -> Read:
    """The mean of a metric over the window."""
    return lambda seen: None if (value := _mean(seen.recent, key)) is None else Reading(value)


def _lost(key: str) -> Read:
    """The share of a metric's mean over the run's first steps that is gone."""

    def read(seen: Seen) -> Reading | None:
        before, now = _mean(seen.first, key), _mean(seen.recent, key)
        if before is None or now is None or before <= 0:
            return None
        return Reading(1 - now / before, f"{before:.3g} in the first steps, now {now:.3g}")

    return read


def _letters(seen: Seen) -> Reading | None:
    """The farthest that the letters given lie from the right ones, over all answers or in one category."""
    categories = sorted({name for record in seen.recent for name in record["by_category"]})
    places = [("all answers", seen.longer)]
    places += [(name, [r["by_category"].get(name, {}) for r in seen.longer]) for name in categories]
    readings = [_letter_reading(where, parts, len(seen.recent)) for where, parts in places]
    return max((r for r in readings if r), key=lambda reading: reading.value, default=None)


def _letter_reading(where: str, parts: Records, window: int) -> Reading | None:
    """The reading on the last `window` parts, or on more where these hold too few letters."""
    given, gold = Counter[str](), Counter[str]()
    for number, part in enumerate(reversed(parts)):
        if number >= window and given.total() >= LEAST_LETTERS:
            break
        given.update(part.get("letters", {}))
        gold.update(part.get("gold_letters", {}))
    n = given.total()
    if n < LEAST_LETTERS:
        return None
    letter = max(given, key=lambda name: (given[name] - gold[name], name))
    detail = (
        f"{where}: {letter} is given {given[letter] / n:.0%} and right {gold[letter] / n:.0%} of the time"
    )
    return Reading(total_variation(given, gold), detail)


def _reward_gap(seen: Seen) -> Reading | None:
    (reward, reward_first), (accuracy, accuracy_first) = (
        (mean(r[key] for r in seen.recent), mean(r[key] for r in seen.first))
        for key in ("reward", "accuracy")
    )
    return Reading(
        (reward - reward_first) - (accuracy - accuracy_first),
        f"reward {reward_first:.2f} to {reward:.2f}, accuracy {accuracy_first:.2f} to {accuracy:.2f}",
    )


def _length_gap(seen: Seen) -> Reading | None:
    right, wrong = _mean(seen.recent, "tokens_right"), _mean(seen.recent, "tokens_wrong")
    if right is None or wrong is None:
        return None
    return Reading(
        2 * abs(right - wrong) / (right + wrong), f"right {right:.0f} tokens, wrong {wrong:.0f} tokens"
    )


def _not_finite(seen: Seen) -> Reading:
    names = seen.recent[-1].get("not_finite", [])
    return Reading(len(names), ", ".join(names))


def _mean(records: Records, key: str) -> float | None:
    values = [record[key] for record in records if record.get(key) is not None]
    return mean(values) if values else None


MONITORS: dict[str, Monitor] = dict(
    letter_collapse=Monitor(
        "distance of the letters given from the right ones",
        _letters,
        "The policy prefers a letter; data.shuffle_options=true takes away what it gains by that.",
    ),
    reward_gap=Monitor(
        "reward has risen more than accuracy by",
        _reward_gap,
        "The reward pays for something else than right answers.",
    ),
    format_only=Monitor(
        "share of groups whose scores differ while their accuracy does not",
        _mean_of("format_only"),
        "They teach everything but the answer; reward.gate_format=true takes away their advantages.",
    ),
    flat_groups=Monitor(
        "share of groups with one score",
        _mean_of("flat_groups"),
        "They teach nothing; a higher grpo.temperature or grpo.group_size makes answers differ.",
    ),
    all_wrong=Monitor(
        "share of groups without a right answer",
        _mean_of("all_wrong"),
        "The rows are too hard for this model; train SFT longer or take easier rows.",
    ),
    all_right=Monitor(
        "share of groups without a wrong answer",
        _mean_of("all_right"),
        "The rows are too easy for this model.",
    ),
    unparsed=Monitor(
        "share of answers that cannot be read",
        _mean_of("unparsed"),
        "Look at `completion` and `reason` in rollouts.jsonl.",
    ),
    truncation=Monitor(
        "share of answers cut off at the limit",
        _mean_of("truncated"),
        "They earn nothing; raise model.max_response_tokens.",
    ),
    repetition=Monitor(
        "share of answers that repeat themselves",
        _mean_of("repeated"),
        "Look at `completion` in rollouts.jsonl; lower grpo.lr.",
    ),
    length_gap=Monitor(
        "difference in length of right and wrong answers, as a share of their mean",
        _length_gap,
        "Length may stand for the answer.",
    ),
    length_collapse=Monitor(
        "share of the answers' length that is gone",
        _lost("response_tokens"),
        "The reasoning is given up; look at `completion` in rollouts.jsonl.",
    ),
    kl_blowup=Monitor("KL from the start model", _mean_of("kl"), "Lower grpo.lr or raise grpo.kl_coef."),
    entropy_collapse=Monitor(
        "share of the entropy that is gone",
        _lost("entropy"),
        "Answers of a group become the same; lower grpo.lr or raise grpo.temperature.",
    ),
    out_of_range=Monitor(
        "share of boxes off the image",
        _mean_of("out_of_range"),
        "The rows' `coordinates` are likely not what the model writes.",
    ),
    not_finite=Monitor("metrics that are no finite number:", _not_finite, "Lower grpo.lr."),
)
