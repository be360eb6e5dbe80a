"""Which of the candidate questions stay, so that no answer can be had without looking (paper, section 3.2).

Of every cell (domain, task, format, what is asked, answer) a number stays that is set so that

- Yes and No are equal in every domain, task and relation, and so are the three answers of a choice of three;
- all formats of a task are equal in every domain ("answer types equalised across tasks");
- the relations of a task are within 10 % of their mean, over all domains; a relation so rare that all others
  would have to be cut to less than a third goes instead, and is named in the report;
- levels have the shares 52/38/10, and the tasks of a level those of the paper's statistics as far as they
  reach.

Those of the lowest hash of seed and id stay, whatever the order. Letters are dealt afterwards, so that right
ones are equal in every domain, task and format.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from data_prep.monosr.questions.facts import INVERSE
from data_prep.rows import Row

LEVEL_SHARES = {"low": 0.52, "mid": 0.38, "high": 0.10}
TASK_SHARES = {"sr": 19, "dist": 11, "size": 12, "dim": 11, "oj": 13, "pr": 17, "og": 9}
"""Weights within a level (the paper's statistics); situational questions have those of their base task."""
DEVIATION = 1.05  # how many times the rarest relation another one may come to; the paper's limit is 10 %
RARE = 3  # a relation goes where that many times more questions stay without it
RELATIONAL = frozenset({"sr", "pr", "og", "dim"})
SITUATIONAL = "situational."
_ROUNDING = 1e-6  # shares are binary fractions: 520 rows at 52 % are 1000


class Cell(NamedTuple):
    """Questions that are alike. `task` is "situational.dist" for a distance that is asked in a situation;
    `answer` is "" where the format needs no balance of answers."""

    domain: str
    task: str
    format: str
    asked: str
    answer: str

    @property
    def level(self) -> str:
        base = self.task.removeprefix(SITUATIONAL)
        return "high" if base != self.task else "mid" if base in ("oj", "pr", "og") else "low"


def cell_of(row: Row) -> Cell:
    """The cell of a row that `data_prep.monosr.generate` made."""
    meta = row.meta
    task = SITUATIONAL + meta["base"] if row.task == "situational" else row.task
    answer = ""
    if row.category == "yes_no":
        answer = row.answer
    elif row.category == "mc3":
        answer = meta["visibility"]
    return Cell(row.subset, task, row.category, meta.get("relation") or meta["quantity"], answer)


def rank(row_id: str, seed: int) -> int:
    """64 bits by which the rows of a cell are ordered."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{row_id}".encode(), digest_size=8).digest())


def answers_of(form: str) -> int:
    """Answers of a format that are to be equal."""
    return {"yes_no": 2, "mc3": 3}.get(form, 1)


class Plan(NamedTuple):
    """`quotas`: rows that stay of each cell; `left_out`: (task, relation) that are too rare to balance."""

    quotas: dict[Cell, int]
    left_out: list[tuple[str, str]]


def plan(
    counts: Mapping[Cell, int],
    total: int | None = None,
    levels: Mapping[str, float] = LEVEL_SHARES,
    tasks: Mapping[str, float] = TASK_SHARES,
) -> Plan:
    """How many rows of each cell stay.

    Args:
        counts: candidates by cell.
        total: rows that are wanted, at most; None takes as many as the shares allow.
        levels, tasks: shares of levels, and weights of tasks within a level. A level without a candidate is
            left out, and the others keep their proportions.
    """
    groups = _groups(counts)
    left_out = _even_relations(groups)
    room = {
        task: sum(rows * _formats(counts, task) for rows in found.values()) for task, found in groups.items()
    }
    by_level: dict[str, list[str]] = defaultdict(list)
    for task in sorted(groups):
        by_level[Cell("", task, "", "", "").level].append(task)
    whole = sum(share for level, share in levels.items() if sum(room[t] for t in by_level[level]))
    reach = [
        sum(room[t] for t in by_level[level]) * whole / share
        for level, share in levels.items()
        if share and sum(room[t] for t in by_level[level])
    ]
    most = min([math.floor(n + _ROUNDING) for n in reach] + ([] if total is None else [total]), default=0)
    quotas: dict[Cell, int] = {}
    for level, names in by_level.items():
        wanted = most * levels.get(level, 0.0) / whole if whole else 0.0
        weights = {task: tasks.get(task.removeprefix(SITUATIONAL), 0.0) for task in names}
        for task, rows in fill(wanted, weights, room).items():
            per_format = _scaled(groups[task], rows / _formats(counts, task), _unit(counts, task))
            for cell in counts:
                if cell.task == task:
                    kept = per_format.get((cell.domain, cell.asked), 0)
                    quotas[cell] = kept // answers_of(cell.format)
    return Plan(quotas, left_out)


Groups = dict[str, dict[tuple[str, str], int]]


def _groups(counts: Mapping[Cell, int]) -> Groups:
    """Task -> (domain, what is asked) -> rows that every format of the task can give, answers equal."""
    forms: dict[str, set[str]] = defaultdict(set)
    found: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for cell, count in counts.items():
        forms[cell.task].add(cell.format)
        found[cell.task, cell.domain, cell.asked, cell.format].append(count)
    groups: Groups = {task: {} for task in forms}
    for task, domain, asked in {key[:3] for key in found}:
        unit = _unit(counts, task)
        least = min(
            (min(have) * answers_of(form) if len(have) == answers_of(form) else 0)
            for form in forms[task]
            for have in [found.get((task, domain, asked, form), [])]
        )
        groups[task][domain, asked] = least // unit * unit
    return groups


def _formats(counts: Mapping[Cell, int], task: str) -> int:
    return len({cell.format for cell in counts if cell.task == task})


def _unit(counts: Mapping[Cell, int], task: str) -> int:
    """The smallest number of rows that divides evenly by the answers of every format of the task."""
    return math.lcm(*(answers_of(cell.format) for cell in counts if cell.task == task))


def _even_relations(groups: Groups) -> list[tuple[str, str]]:
    """Cut the relations of every relational task to nearly the same number; what was left out for it."""
    left_out: list[tuple[str, str]] = []
    for task, found in groups.items():
        if task.removeprefix(SITUATIONAL) not in RELATIONAL:
            continue
        sums: dict[str, int] = defaultdict(int)
        for (_, asked), rows in found.items():
            sums[asked] += rows
        # A relation and its inverse stay or go together.
        paired = {asked: min(rows, sums.get(INVERSE.get(asked, asked), 0)) for asked, rows in sums.items()}
        kept = sorted(paired, key=lambda asked: (-paired[asked], asked))
        while len(kept) > 1:
            rest = [asked for asked in kept if paired[asked] > paired[kept[-1]]]
            if not rest or len(rest) * paired[rest[-1]] < RARE * len(kept) * paired[kept[-1]]:
                break
            left_out += [(task, asked) for asked in kept if asked not in rest]
            kept = rest
        least = paired[kept[-1]]
        for domain, asked in found:
            share = min(1.0, DEVIATION * least / sums[asked]) if asked in kept and sums[asked] else 0.0
            found[domain, asked] = math.floor(found[domain, asked] * share)
    return left_out


def fill(wanted: float, weights: Mapping[str, float], room: Mapping[str, int]) -> dict[str, float]:
    """`wanted` rows over tasks by their weights; what one cannot give the others do."""
    given = dict.fromkeys(weights, 0.0)
    open_ones = {task for task in weights if weights[task] > 0}
    rest = wanted
    while open_ones and rest > 1e-9:
        whole = sum(weights[task] for task in open_ones)
        full = [t for t in open_ones if given[t] + rest * weights[t] / whole >= room[t]]
        if not full:
            for task in open_ones:
                given[task] += rest * weights[task] / whole
            break
        for task in full:
            rest -= room[task] - given[task]
            given[task] = room[task]
            open_ones.remove(task)
    return given


def _scaled(found: Mapping[tuple[str, str], int], rows: float, unit: int) -> dict[tuple[str, str], int]:
    """The rows of one format, cut to `rows` in proportion, in whole units; largest remainders first."""
    have = sum(found.values())
    share = min(1.0, rows / have) if have else 0.0
    exact = {key: count * share / unit for key, count in found.items()}
    units = {key: math.floor(value + _ROUNDING) for key, value in exact.items()}
    missing = math.floor(rows / unit + _ROUNDING) - sum(units.values())
    for key in sorted(found, key=lambda key: (units[key] - exact[key], key)):
        if missing <= 0:
            break
        if (units[key] + 1) * unit <= found[key]:
            units[key] += 1
            missing -= 1
    return {key: number * unit for key, number in units.items()}


def report(
    kept: Mapping[Cell, int], letters: Mapping[tuple[str, str, str], Mapping[str, int]]
) -> dict[str, Any]:
    """What a balanced set holds, for the manifest.

    Args:
        kept: rows by cell.
        letters: (domain, task, format) -> right letters of its choices.
    """
    total = sum(kept.values())
    levels, tasks = _sums(kept, lambda c: c.level), _sums(kept, lambda c: c.task)
    yes_no = {cell: n for cell, n in kept.items() if cell.format == "yes_no"}
    relations: dict[str, dict[str, int]] = {}
    for task in sorted(tasks):
        if task.removeprefix(SITUATIONAL) in RELATIONAL:
            relations[task] = _sums(
                {c: n for c, n in kept.items() if c.task == task and n}, lambda c: c.asked
            )
    return {
        "rows": total,
        "levels": {level: round(n / total, 4) for level, n in levels.items()} if total else {},
        "tasks": tasks,
        "domains": _sums(kept, lambda c: c.domain),
        "formats": {
            f"{domain}/{task}": _sums(
                {c: n for c, n in kept.items() if (c.domain, c.task) == (domain, task)}, lambda c: c.format
            )
            for domain, task in sorted({(c.domain, c.task) for c in kept})
        },
        "yes_share": {
            where: round(_yes(yes_no, where) / count, 4)
            for where, count in _sums(yes_no, lambda c: f"{c.domain}/{c.task}").items()
            if count
        },
        "relations": relations,
        "relation_deviation": {
            task: round(deviation(found.values()), 4) for task, found in relations.items()
        },
        "letters": {"/".join(where): dict(sorted(found.items())) for where, found in sorted(letters.items())},
    }


def deviation(counts: Iterable[int]) -> float:
    """The largest relative difference from the mean."""
    found = list(counts)
    mean = sum(found) / len(found) if found else 0.0
    return max((abs(count - mean) / mean for count in found), default=0.0) if mean else 0.0


def _sums(counts: Mapping[Cell, int], key: Any) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for cell, count in counts.items():
        sums[key(cell)] += count
    return dict(sorted(sums.items()))


def _yes(counts: Mapping[Cell, int], where: str) -> int:
    return sum(n for c, n in counts.items() if c.answer == "yes" and f"{c.domain}/{c.task}" == where)
