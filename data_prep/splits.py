"""Which training rows go to SFT and which to GRPO: whole image groups, evened out over the strata.

No scene is seen by both stages, and each half holds half of the rows of every subset, task and category
(CVSBench 0.B.3: two disjoint halves, evenly). A group's place is first drawn by a hash of seed and name,
which no other group can disturb; then the groups that were drawn closest change sides where that evens the
strata. The order of rows does not matter. More rows move few groups, and none at all where the halves of an
earlier preparation are kept (`data.halves`).
"""

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from data_prep.errors import UserError

Half = Literal["sft", "rl"]
Strata = Mapping[Hashable, int]  # rows of a group by stratum


def assign_halves(
    groups: Mapping[str, Strata], seed: int, kept: Mapping[str, Half] | None = None
) -> dict[str, Half]:
    """The half of every group of `groups`, which holds the rows of a group by stratum.

    Groups that `kept` names have the half that it says.
    """
    halves: dict[str, Half] = {group: (kept or {}).get(group) or _drawn(group, seed) for group in groups}
    excess: Counter[Hashable] = Counter()  # rows of a stratum in the SFT half beyond those in the other
    total: Counter[Hashable] = Counter()
    for group, strata in groups.items():
        for stratum, rows in strata.items():
            excess[stratum] += _sign(halves[group]) * rows
            total[stratum] += rows
    free = [group for group in groups if group not in (kept or {})]
    free.sort(key=lambda group: (abs(rank("half", group, seed) - 0.5), group))
    moved = True
    while moved:
        moved = False
        for group in free:
            step = {stratum: -2 * _sign(halves[group]) * rows for stratum, rows in groups[group].items()}
            # By how much the sum over strata of excess squared / rows would change.
            change = sum(s * (2 * excess[stratum] + s) / total[stratum] for stratum, s in step.items() if s)
            if change < -1e-9:
                halves[group] = "rl" if halves[group] == "sft" else "sft"
                for stratum, s in step.items():
                    excess[stratum] += s
                moved = True
    return halves


def read_halves(path: Path) -> dict[str, Half]:
    """The halves that an earlier preparation wrote: {group: "sft" or "rl"}.

    Raises:
        UserError: there is no such file, or it holds something else.
    """
    try:
        halves = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"data.halves={path} cannot be read ({error}). Give a prep's halves.json.") from error
    if not isinstance(halves, dict) or not all(half in get_args(Half) for half in halves.values()):
        raise UserError(f"data.halves={path} does not hold a half, sft or rl, for each group.")
    return halves


def _sign(half: Half) -> int:
    return 1 if half == "sft" else -1


def _drawn(group: str, seed: int) -> Half:
    return "sft" if rank("half", group, seed) < 0.5 else "rl"


def sample(names: Iterable[str], count: int | None, seed: int) -> set[str]:
    """`count` of the distinct names, or all, whatever their order; a larger sample holds the smaller one."""
    distinct = set(names)
    if count is None or count >= len(distinct):
        return distinct
    return set(heapq.nsmallest(count, distinct, key=lambda name: (rank("sample", name, seed), name)))


def rank(purpose: str, name: str, seed: int) -> float:
    """A uniform number in [0, 1) that is always the same for the same arguments."""
    content = hashlib.sha256(f"{purpose}\0{seed}\0{name}".encode()).digest()
    return int.from_bytes(content[:7]) / 2**56
