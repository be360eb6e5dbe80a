"""Near-copies: reasonings that share most of their wording, found among thousands without comparing every
pair.

Two texts are compared by the Jaccard similarity of their word triples. Numbers count as one word, so that
boxes alone do not set two texts apart; headings count in both.
"""

import math
import re
import zlib
from collections import defaultdict

from rewards.answer import find_span

_WORD = re.compile(r"\d+(?:\.\d+)?|\w+")
_SIZE = 3


def shingles(text: str) -> frozenset[int]:
    """Hashes of the word triples of a reasoning, its answer left out."""
    words = ["#" if word[0].isdigit() else word for word in _WORD.findall(find_span(text).before.casefold())]
    triples = (" ".join(words[i : i + _SIZE]) for i in range(max(len(words) - _SIZE + 1, 1)))
    return frozenset(zlib.crc32(triple.encode()) for triple in triples)


class CopyIndex:
    """Reasonings that are kept, and the question whether another one is too close to one of them.

    Exact, by prefix filtering: sets with a Jaccard similarity of at least t share one of their first
    |x| - ceil(t |x|) + 1 elements in any fixed order (here that of the hashes).
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._kept: list[tuple[str, frozenset[int]]] = []
        self._by_hash: dict[int, list[int]] = defaultdict(list)

    def add(self, name: str, found: frozenset[int]) -> None:
        for value in self._prefix(found):
            self._by_hash[value].append(len(self._kept))
        self._kept.append((name, found))

    def nearest(self, found: frozenset[int]) -> tuple[str, float] | None:
        """The kept reasoning that shares most with these shingles, and how much; None below the threshold.

        Of equals the one that was added first.
        """
        best: tuple[str, float] | None = None
        for number in sorted({n for value in self._prefix(found) for n in self._by_hash.get(value, ())}):
            name, other = self._kept[number]
            common = len(found & other)
            similarity = common / (len(found) + len(other) - common)
            if similarity >= self._threshold and (best is None or similarity > best[1]):
                best = (name, similarity)
        return best

    def _prefix(self, found: frozenset[int]) -> list[int]:
        length = len(found) - math.ceil(self._threshold * len(found) - 1e-9) + 1
        return sorted(found)[:length]
