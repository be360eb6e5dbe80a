"""What a prepared set holds, counted while it is written: the numbers of the manifest."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from data_prep.quarantine import Quarantined
from data_prep.rows import Row


class Tally:
    """Counts of rows by set, subset, task and category; letters; groups; and what was set aside."""

    def __init__(self, sets: Iterable[str]) -> None:
        self.rows: dict[str, Counter[tuple[str, str, str]]] = {name: Counter() for name in sets}
        self.groups: dict[str, set[str]] = {name: set() for name in sets}
        self.answers: dict[str, Counter[str]] = {name: Counter() for name in sets}
        self.option_letters: dict[str, set[str]] = {name: set() for name in sets}
        self.quarantined: Counter[str] = Counter()

    def add(self, name: str, row: Row) -> None:
        self.rows[name][row.subset, row.task, row.category] += 1
        self.groups[name].add(row.group)
        self.option_letters[name].update(row.options or ())
        if row.answer_type == "choice":
            self.answers[name][row.answer] += 1

    def set_aside(self, item: Quarantined) -> None:
        self.quarantined[item.kind] += 1

    def overlaps(self) -> dict[str, int]:
        """Groups that two sets share, for every pair; all zero in a sound preparation."""
        names = list(self.groups)
        return {
            f"{one}-{other}": len(self.groups[one] & self.groups[other])
            for place, one in enumerate(names)
            for other in names[place + 1 :]
        }

    def summary(self) -> dict[str, Any]:
        return {
            "sets": {
                name: {
                    "rows": rows.total(),
                    "groups": len(self.groups[name]),
                    "categories": _nested(rows),
                    "answers": dict(sorted(self.answers[name].items())),
                }
                for name, rows in self.rows.items()
            },
            "group_overlaps": self.overlaps(),
            "quarantined": {"rows": self.quarantined.total(), **dict(sorted(self.quarantined.items()))},
        }


def _nested(rows: Counter[tuple[str, str, str]]) -> dict[str, dict[str, dict[str, int]]]:
    """{subset: {task: {category: rows}}}."""
    nested: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    for (subset, task, category), count in sorted(rows.items()):
        nested[subset][task][category] = count
    return {subset: dict(tasks) for subset, tasks in nested.items()}
