"""Where the pictures of a CVSBench row lie.

A row's path strings come first; where they lead nowhere, the release's naming rules do. Nothing outside the
data root is ever read (`data_prep.data_root`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from data_prep.cvsbench.fields import SAMPLE_KEYS, FieldError, identifier
from data_prep.data_root import DataRoot, EscapesRootError

STREET_KEYS = ("source_image", "street_path", "street", "image_path")
SATELLITE_KEYS = ("target_image", "sat_path", "satellite_path", "image_path")
# `image_path` names the picture that is shown, so it never names the hidden one.
HIDDEN_STREET_KEYS = ("source_image", "street_path", "street", "street_image")
HIDDEN_SATELLITE_KEYS = ("target_image", "sat_path", "satellite_path", "satellite_image", "sat_image")

SYMMETRY_VIEW = "0"
ID_DIGITS = {"cvusa": 7, "fov": 4}
_EXTENSIONS = ("jpg", "jpeg", "png")
_REWRITTEN = {
    f"fov/{half}_{view}": f"fov/data/{view}" for half in ("train", "test") for view in ("satellite", "street")
}


def scene_id(image_id: str, subset: str) -> str:
    """The scene of an image id: what stands before "_", numbers with their zeros (12_3 -> 0012 in FOV)."""
    base = image_id.split("_")[0]
    return base.zfill(ID_DIGITS[subset]) if base.isascii() and base.isdigit() else base


class PictureFinder:
    """Finds the street and satellite pictures of one subset's rows; paths are relative to the data root."""

    def __init__(self, root: DataRoot, subset: str) -> None:
        self._root, self._subset = root, subset

    def street(self, record: Mapping[str, Any], view: str, keys: Iterable[str] = STREET_KEYS) -> list[str]:
        """The panorama (CVUSA), the photograph of `view` (FOV), or for view 0 every photograph of the scene.

        Raises:
            FieldError: there is none; the message names the path strings that lead nowhere.
        """
        if self._subset == "cvusa":
            rules = (f"cvusa/data/streetview/{name}" for name in self._names(record, keys, ""))
            return [self._find(record, keys, rules)]
        if view != SYMMETRY_VIEW:
            rules = (f"fov/data/street/{s}/{view}.{e}" for s in _samples(record, "fov") for e in _EXTENSIONS)
            return [self._find(record, keys, rules)]
        for sample in _samples(record, "fov"):
            folder = f"fov/data/street/{sample}"
            files = self._files(folder)
            names = [name for extension in _EXTENSIONS for name in files if name.endswith(f".{extension}")]
            if names:
                # 0.jpg, where there is one, is none of the scene's photographs.
                return [f"{folder}/{name}" for name in names if name != "0.jpg"]
        raise FieldError("no street pictures under fov/data/street/ for a question on all views (view 0)")

    def satellite(self, record: Mapping[str, Any], view: str) -> str:
        """The satellite picture that is shown: in FOV the one with the arrow, where the release has it.

        FOV's questions speak of the arrow; a row that points at the plain picture would leave them without
        an answer.
        """
        if self._subset == "cvusa":
            rules = (f"cvusa/data/bingmap/{name}" for name in self._names(record, SATELLITE_KEYS, "input"))
            return self._find(record, SATELLITE_KEYS, rules)
        arrows = [
            f"fov/data/satellite_arrow/{sample}/view_{view}_annotated.{extension}"
            for sample in _samples(record, "fov")
            for extension in _EXTENSIONS
        ]
        flat = [f"fov/data/satellite_arrow/{name}" for name in self._names(record, SATELLITE_KEYS, "")]
        found = self._find(record, SATELLITE_KEYS, [*flat, *arrows])
        if found.startswith("fov/data/satellite/"):
            return next(self._existing(arrows), found)
        return found

    def id_from_paths(self, record: Mapping[str, Any]) -> str | None:
        """The id that a row's path strings carry: a CVUSA file name, or the FOV folder of the photographs."""
        for path in _paths(record, (*STREET_KEYS, *SATELLITE_KEYS)):
            folder, _, name = path.rpartition("/")
            if self._subset == "cvusa":
                return name.rpartition(".")[0].removeprefix("input")
            return folder.rpartition("/")[2]
        return None

    def hidden_street(self, record: Mapping[str, Any], view: str) -> list[str]:
        """The street pictures that a satellite question hides; empty where the release does not tell."""
        try:
            return self.street(record, view, HIDDEN_STREET_KEYS)
        except FieldError:
            return []

    def hidden_satellite(self, record: Mapping[str, Any]) -> list[str]:
        """The satellite picture that a street question hides; empty where the release does not tell."""
        if self._subset == "cvusa":
            rules = [f"cvusa/data/bingmap/{n}" for n in self._names(record, HIDDEN_SATELLITE_KEYS, "input")]
        else:
            stems = [stem for s in _samples(record, "fov") for stem in (s, f"{s}/{s}")]
            rules = [f"fov/data/satellite/{stem}.{e}" for stem in stems for e in _EXTENSIONS]
        try:
            return [self._find(record, HIDDEN_SATELLITE_KEYS, rules)]
        except FieldError:
            return []

    def _names(self, record: Mapping[str, Any], keys: Iterable[str], prefix: str) -> Iterator[str]:
        """File names to try in a data folder: those of the row's paths, then those made of its ids."""
        yield from (path.rpartition("/")[2] for path in _paths(record, keys))
        for sample in _samples(record, self._subset):
            yield from (f"{prefix}{sample}.{extension}" for extension in _EXTENSIONS)

    def _find(self, record: Mapping[str, Any], keys: Iterable[str], rules: Iterable[str]) -> str:
        given = list(_paths(record, keys))
        faults: list[str] = []
        found = next(self._existing((*given, *rules), faults), None)
        if found is None:
            absent = f"{given[0]!r} is not in the data root" if given else "the row names none"
            raise FieldError(f"no picture: {'; '.join(faults) or absent}")
        return found

    def _existing(self, paths: Iterable[str], faults: list[str] | None = None) -> Iterator[str]:
        for path in paths:
            try:
                found = self._root.find(path)
            except EscapesRootError as error:
                if faults is not None:
                    faults.append(str(error))
                continue
            if found:
                yield found

    def _files(self, folder: str) -> list[str]:
        try:
            return self._root.files(folder)
        except EscapesRootError as error:
            raise FieldError(f"no picture: {error}") from error


def _paths(record: Mapping[str, Any], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            path = value.strip().removeprefix("./")
            head = "/".join(path.split("/", 2)[:2])
            yield _REWRITTEN[head] + path[len(head) :] if head in _REWRITTEN else path


def _samples(record: Mapping[str, Any], subset: str) -> list[str]:
    """Names that a scene's folder or files may carry: the id as written, its scene, its scene with zeros."""
    written = identifier(record, SAMPLE_KEYS)
    if written is None:
        return []
    return list(dict.fromkeys((written, written.split("_")[0], scene_id(written, subset))))
