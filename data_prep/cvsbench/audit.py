"""Audit of a release: what its rows and pictures hold, and what is wrong with them. Nothing is prepared.

The rows go by once and are not kept. What grows with them is a digest a question, an id a scene and a path a
picture; what grows with the boxes is the boxes, which wait for the size of their picture.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from data_prep.cvsbench import categories
from data_prep.cvsbench.fields import NOT_AMONG
from data_prep.cvsbench.layout import SPLITS, SourceFile, Split, find_files, parts
from data_prep.cvsbench.reader import REPEATED, read_release
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.findings import Finding, Severity
from data_prep.quarantine import Quarantined
from data_prep.rows import Row
from data_prep.scoring import gold_fault
from data_prep.sets import placeholder_fault

# Check -> how grave it is. Errors cost a question, or let the training half see the test half.
CHECKS: dict[str, Severity] = {
    "file": "error",
    "question": "error",
    "answer": "error",
    "missing_picture": "error",
    "unreadable_picture": "error",
    "box": "error",
    "repeated_id": "error",
    "contradiction": "error",
    "id_in_both": "error",
    "group_in_both": "error",
    "question_in_both": "error",
    "pictures_in_both": "error",
    "repeated_question": "warning",
    "picture_in_both": "warning",
    "options": "warning",
    "category": "warning",
}
WORDS = {
    "file": "files that are missing or break off",
    "question": "questions whose fields cannot be used",
    "answer": "answers that are not among the options",
    "missing_picture": "questions whose picture is not there",
    "unreadable_picture": "pictures that cannot be decoded",
    "box": "boxes outside their picture",
    "repeated_id": "ids used twice",
    "contradiction": "questions asked twice with different answers",
    "id_in_both": "ids in both train and test",
    "group_in_both": "image groups in both train and test",
    "question_in_both": "questions in both train and test",
    "pictures_in_both": "image groups whose pictures are in both train and test, under other ids",
    "repeated_question": "questions asked twice",
    "picture_in_both": "single pictures in both train and test, under other ids",
    "options": "options outside the known sets",
    "category": "categories that the options contradict",
}
_FIXED_OPTIONS = ("g2s", "s2g")  # tasks whose categories have fixed options

Report = Callable[[Finding], None]


@dataclass
class Use:
    """A picture that rows show or hide: how often, where each split has it first, which groups show it."""

    count: int = 0
    places: dict[Split, Finding] = field(default_factory=dict)
    groups: dict[Split, set[str]] = field(default_factory=lambda: {split: set() for split in SPLITS})


@dataclass(frozen=True)
class Box:
    """A box in pixels of `picture`, [x_min, y_min, x_max, y_max], of the row at `place`."""

    picture: str
    corners: tuple[float, ...]
    place: Finding


@dataclass
class Contents:
    """What the rows of a release hold, as `read` collects it; paths are relative to the data root."""

    files: list[SourceFile] = field(default_factory=list)
    rows: Counter[tuple[str, str, str, Split]] = field(default_factory=Counter)
    letters: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    pictures: dict[str, Use] = field(default_factory=dict)
    boxes: list[Box] = field(default_factory=list)
    shown: dict[Split, dict[str, set[str]]] = field(default_factory=lambda: {split: {} for split in SPLITS})

    def add(self, row: Row, split: Split) -> None:
        """Count a row and remember its pictures and, where it asks for one, its box."""
        self.rows[row.subset, row.task, row.category, split] += 1
        if row.answer_type == "choice":
            self.letters[row.subset, row.task, row.answer] += 1
        place = Finding("box", "", row.id, *_place(row))
        shown = [image.path for image in row.images]
        for path in (*shown, *(image["path"] for image in row.meta.get("hidden_images", ()))):
            use = self.pictures.setdefault(path, Use())
            use.count += 1
            use.places.setdefault(split, place)
        for path in shown:
            self.pictures[path].groups[split].add(row.group)
        self.shown[split].setdefault(row.group, set()).update(shown)
        if row.answer_type == "box" and gold_fault(row) is None:
            self.boxes.append(Box(shown[-1], tuple(map(float, row.answer)), place))


def read(root: DataRoot, subsets: Sequence[str], tasks: Sequence[str], report: Report) -> Contents:
    """Go through every question of both splits and report what can be told without opening a picture.

    A file that is missing or breaks off is a finding too, and the others are read.
    """
    contents = Contents()
    seen = _Seen(report)
    for split in SPLITS:
        for subset, task in parts(subsets, tasks):
            try:
                contents.files += find_files(root, [subset], [task], split)
                for item in read_release(root, [subset], [task], split):
                    seen.item(item, split)
                    if isinstance(item, Row):
                        contents.add(item, split)
                        _check_options(item, report)
                    else:
                        report(_set_aside(item))
            except UserError as error:
                report(Finding("file", str(error), file=f"{subset}/{task}, {split}"))
    return contents


def _check_options(row: Row, report: Report) -> None:
    def found(check: str, message: str) -> None:
        report(Finding(check, message, row.id, *_place(row)))

    if fault := placeholder_fault(row) or gold_fault(row):
        found("question", fault)
    if row.task not in _FIXED_OPTIONS or row.options is None:
        return
    told = categories.of_options(row.options.values())
    if told is None:
        found("options", f"category {row.category}: {' | '.join(row.options.values())!r:.200}")
    elif told != row.category:
        found("category", f"the row says {row.category}, its options are those of {told}")


def _set_aside(item: Quarantined) -> Finding:
    if item.kind == "picture":
        check = "missing_picture"
    elif REPEATED in item.reason:
        check = "repeated_id"
    else:
        check = "answer" if NOT_AMONG in item.reason else "question"
    return Finding(check, item.reason, item.id, item.file, item.line)


class _Seen:
    """Ids, scenes and questions that have gone by, as digests; finds those that come again."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ids: dict[Split, set[bytes]] = {split: set() for split in SPLITS}
        self._groups: dict[Split, set[str]] = {split: set() for split in SPLITS}
        self._questions: dict[bytes, tuple[Split, str, str]] = {}

    def item(self, item: Row | Quarantined, split: Split) -> None:
        """Questions that cannot be read count too: their scene stands in the split all the same."""
        place = _place(item)
        others: Collection[Split] = [other for other in SPLITS if other != split]
        identity = _digest(item.id)
        if any(identity in self._ids[other] for other in others):
            self._report(Finding("id_in_both", "the other split has this id too", item.id, *place))
        if not item.id.endswith("?"):
            self._ids[split].add(identity)
        if item.group and item.group not in self._groups[split]:
            self._groups[split].add(item.group)
            if any(item.group in self._groups[other] for other in others):
                message = "the other split shows this scene too"
                self._report(Finding("group_in_both", message, item.group, *place))
        if isinstance(item, Row):
            self._question(item, split)

    def _question(self, row: Row, split: Split) -> None:
        options = [f"{letter}) {text}" for letter, text in (row.options or {}).items()]
        asked = _digest(row.group, *(image.path for image in row.images), row.question, *options)
        before = self._questions.setdefault(asked, (split, row.id, str(row.answer)))
        first_split, first_id, first_answer = before
        if (first_id, first_split) == (row.id, split):
            return
        check, message = "repeated_question", f"{first_id} asks the same of the same pictures"
        if first_answer != str(row.answer):
            check = "contradiction"
            message += f", and is answered {first_answer} where this one is answered {row.answer}"
        elif first_split != split:
            check = "question_in_both"
        self._report(Finding(check, message, row.id, *_place(row)))


def _place(item: Row | Quarantined) -> tuple[str, int]:
    if isinstance(item, Quarantined):
        return item.file, item.line
    return item.meta["file"], item.meta["line"]


def _digest(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode(), digest_size=16).digest()
