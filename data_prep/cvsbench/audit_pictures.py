"""What an audit tells from pictures: those that are broken, boxes outside theirs, scenes in both halves."""

from collections import defaultdict
from collections.abc import Mapping

from data_prep.cvsbench.audit import Contents, Report
from data_prep.findings import Finding
from data_prep.fingerprints import Fingerprint, look_alikes
from data_prep.images import PictureError

Prints = Mapping[str, Fingerprint | PictureError]


def compare(contents: Contents, prints: Prints, report: Report) -> None:
    """Report what is wrong with the pictures of `contents`; `prints` holds every one of its paths."""
    for path, use in contents.pictures.items():
        fault = prints[path]
        if isinstance(fault, PictureError):
            place = next(iter(use.places.values()))
            message = f"{fault}; {use.count} questions use it, {place.id} first"
            report(Finding("unreadable_picture", message, path, place.file, place.line))
    _check_boxes(contents, prints, report)
    _compare_splits(contents, prints, report)


def _check_boxes(contents: Contents, prints: Prints, report: Report) -> None:
    for box in contents.boxes:
        picture = prints[box.picture]
        if isinstance(picture, PictureError):
            continue
        left, right = sorted(box.corners[::2])
        top, bottom = sorted(box.corners[1::2])
        if left < 0 or top < 0 or right > picture.width or bottom > picture.height:
            corners = ", ".join(f"{corner:g}" for corner in box.corners)
            message = f"[{corners}] leaves {box.picture}, which is {picture.width} x {picture.height} pixels"
            report(Finding("box", message, box.place.id, box.place.file, box.place.line))


def _compare_splits(contents: Contents, prints: Prints, report: Report) -> None:
    """Scenes that stand in the other split under another id, told by what their pictures show.

    A test scene is in both where one training scene shows a look-alike of each of its pictures. Else a
    look-alike is a warning: a release may show one picture in two scenes.
    """
    twins = _twins(contents, prints)

    def training_scenes(path: str) -> dict[str, str]:
        """Group of the training half that shows a look-alike of this picture -> the look-alike."""
        return {g: twin for twin in twins.get(path, ()) for g in contents.pictures[twin].groups["train"]}

    told = set()
    for group, paths in contents.shown["test"].items():
        found = {path: training_scenes(path) for path in sorted(paths)}
        whole = set.intersection(*(set(scenes) for scenes in found.values())) - {group}
        if whole:
            other = min(whole)
            pairs = "; ".join(_pair(path, scenes[other], prints) for path, scenes in found.items())
            report(
                _found("pictures_in_both", f"{other} shows the same: {pairs}", group, contents, min(paths))
            )
            continue
        for path, scenes in found.items():
            others = sorted(scenes.keys() - {group})
            if others and path not in told:
                told.add(path)
                message = f"of {group}, {_pair('', scenes[others[0]], prints, path)}, of {others[0]}"
                report(_found("picture_in_both", message, path, contents, path))


def _twins(contents: Contents, prints: Prints) -> dict[str, list[str]]:
    """Picture of the test half -> pictures of the training half that look alike.

    Pictures are compared once a content, so that a release with few distinct ones costs no more.
    """
    paths: dict[str, dict[bytes, list[str]]] = {"test": defaultdict(list), "train": defaultdict(list)}
    distinct: dict[bytes, Fingerprint] = {}
    for path, print_ in prints.items():
        if isinstance(print_, Fingerprint):
            distinct[print_.content] = print_
            for split, own in paths.items():
                if contents.pictures[path].groups[split]:
                    own[print_.content].append(path)
    test, train = list(paths["test"]), list(paths["train"])
    twins: dict[str, list[str]] = defaultdict(list)
    for one, other in look_alikes([distinct[c] for c in test], [distinct[c] for c in train]):
        for path in paths["test"][test[one]]:
            twins[path] += paths["train"][train[other]]
    return twins


def _found(check: str, message: str, about: str, contents: Contents, path: str) -> Finding:
    place = contents.pictures[path].places["test"]
    return Finding(check, message, about, place.file, place.line)


def _pair(shown: str, twin: str, prints: Prints, path: str = "") -> str:
    one, other = prints[path or shown], prints[twin]
    same = isinstance(one, Fingerprint) and isinstance(other, Fingerprint) and one.content == other.content
    return f"{shown} {'is pixel for pixel' if same else 'looks like'} {twin}".strip()
