"""Which questions of a release a run takes: categories asked for, limits, no scene of the test set."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from data_prep.quarantine import Quarantined
from data_prep.rows import Row
from data_prep.splits import sample

Item = Row | Quarantined


@dataclass(frozen=True)
class Selection:
    """What was chosen.

    - `train_groups`: of every chosen group its rows by (subset, task, category).
    - `pictures`: the distinct files that the chosen rows show, in a fixed order.
    """

    categories: frozenset[str] | None
    test_ids: Collection[str]
    test_groups: Collection[str]
    train_groups: Mapping[str, Counter[tuple[str, str, str]]]
    pictures: list[str]
    categories_seen: list[str] = field(default_factory=list)

    def takes_test(self, item: Item) -> bool:
        return self._asked_for(item) and item.id in self.test_ids

    def takes_train(self, item: Item) -> bool:
        """Rows of test scenes are taken too, to be set aside by name; see `leaks`."""
        chosen = not item.group or item.group in self.train_groups
        return self._asked_for(item) and (chosen or self.leaks(item))

    def leaks(self, item: Item) -> bool:
        """Whether a training question shows a scene of the test set."""
        return item.group in self.test_groups

    def _asked_for(self, item: Item) -> bool:
        return _asked_for(item, self.categories)


def select(
    test: Iterable[Item],
    train: Iterable[Item],
    categories: Iterable[str] | None,
    max_test_rows: int | None,
    max_train_groups: int | None,
    seed: int,
) -> Selection:
    """Choose by seeded hash, so that adding questions to the release disturbs the choice as little as can be.

    Questions that cannot be read count as chosen or not like any other: mending one changes no other row.
    """
    wanted = None if categories is None else frozenset(categories)
    seen: set[str] = set()
    shown_by_test: dict[str, dict[str, None]] = {}
    test_groups = set()
    for item in test:
        seen.add(item.category)
        if _asked_for(item, wanted):
            test_groups.add(item.group)
            shown_by_test[item.id] = dict.fromkeys(_paths(item))
    shown_by_train: dict[str, dict[str, None]] = defaultdict(dict)
    rows: dict[str, Counter[tuple[str, str, str]]] = defaultdict(Counter)
    for item in train:
        seen.add(item.category)
        if _asked_for(item, wanted) and item.group and item.group not in test_groups:
            shown_by_train[item.group].update(dict.fromkeys(_paths(item)))
            if isinstance(item, Row):
                rows[item.group][item.subset, item.task, item.category] += 1
    test_ids = sample(shown_by_test, max_test_rows, seed)
    taken = sample(shown_by_train, max_train_groups, seed)
    train_groups = {group: rows[group] for group in shown_by_train if group in taken}
    chosen = [shown_by_test[i] for i in shown_by_test if i in test_ids]
    chosen += [shown_by_train[group] for group in shown_by_train if group in train_groups]
    pictures = list(dict.fromkeys(path for paths in chosen for path in paths))
    return Selection(wanted, test_ids, test_groups - {""}, train_groups, pictures, sorted(seen - {""}))


def _asked_for(item: Item, categories: frozenset[str] | None) -> bool:
    """A question whose fault hides its category is never out of the question."""
    return categories is None or item.category in categories or not item.category


def _paths(item: Item) -> list[str]:
    return [image.path for image in item.images] if isinstance(item, Row) else []
