"""Which training rows go to SFT and which to GRPO: by image group, by a hash, and so for good.

A group's half depends on the seed and the group alone. It stays where it is when rows or groups are added,
taken away or reordered, and no scene is seen by both stages (CVSBench 0.B.3: two disjoint halves). The price
is that the halves are equal, also within a subset or category, only as a fair coin makes them: with n groups
the larger half holds about 50 % + 40 %/sqrt(n).
"""

import hashlib
import heapq
from collections.abc import Iterable
from typing import Literal

Half = Literal["sft", "rl"]


def half_of(group: str, seed: int) -> Half:
    """The half of an image group."""
    return "sft" if _rank("half", group, seed) < 0.5 else "rl"


def sample(names: Iterable[str], count: int | None, seed: int) -> set[str]:
    """`count` of the distinct names, or all, whatever their order; a larger sample holds the smaller one."""
    distinct = set(names)
    if count is None or count >= len(distinct):
        return distinct
    return set(heapq.nsmallest(count, distinct, key=lambda name: (_rank("sample", name, seed), name)))


def _rank(purpose: str, name: str, seed: int) -> float:
    """A uniform number in [0, 1) that is always the same for the same arguments."""
    content = hashlib.sha256(f"{purpose}\0{seed}\0{name}".encode()).digest()
    return int.from_bytes(content[:7]) / 2**56
