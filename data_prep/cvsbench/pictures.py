"""Where the pictures of a CVSBench row lie.

A row's path strings come first; where they lead nowhere, the release's naming rules do. Nothing outside the
data root is ever read (`data_prep.data_root`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from data_prep.cvsbench.fields import SAMPLE_KEYS, FieldError, identifier
from data_prep.data_root import DataRoot, EscapesRootError
from data_prep.rows import ImageRef

STREET_KEYS = ("source_image", "street_path", "street", "image_path")
SATELLITE_KEYS = ("target_image", "sat_path", "satellite_path", "image_path")
# `image_path` names the picture that is shown, so it never names the hidden one.
STREET_NAMES = ("street_path", "street", "street_image")
SATELLITE_NAMES = ("sat_path", "satellite_path", "satellite_image", "sat_image")
HIDDEN_STREET_KEYS = ("source_image", *STREET_NAMES)
HIDDEN_SATELLITE_KEYS = ("target_image", *SATELLITE_NAMES)
COMPOSITE_KEYS = (
    "image_path", "image", "street_image", "street_path", "source_image", "target_image",
    "level1_candidate_image", "level1_image", "candidate_image", "satellite_image", "sat_image", "sat_path",
)  # fmt: skip
# Part of gs_view -> what its composites' names end in. The release writes the view with or without "view".
COMPOSITE_ENDS = {"arrow_select": "L1", "arrow_street": "arrow_sv"}
# Direction of a grounding question -> folder of its pictures with a box, and the suffixes of their names. The
# release's own evaluation looks for a satellite picture under G2S and for a street picture under S2G.
_MARKED = {"s2g": ("satellite", ("G2S", "S2G")), "g2s": ("street", ("S2G", "G2S"))}

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
        if self._subset == "cvusa" or view != SYMMETRY_VIEW:
            return [self.photo(record, view, keys)]
        folders = [f"fov/data/street/{sample}" for sample in _samples(record, "fov")]
        named = [path.rpartition("/")[0] for path in _paths(record, keys)]
        for folder in dict.fromkeys((*folders, *(f for f in named if f.startswith("fov/data/street/")))):
            files = self._files(folder)
            names = [name for extension in _EXTENSIONS for name in files if name.endswith(f".{extension}")]
            if names:
                # 0.jpg, where there is one, is none of the scene's photographs.
                return [f"{folder}/{name}" for name in names if name != "0.jpg"]
        raise FieldError("no street pictures under fov/data/street/ for a question on all views (view 0)")

    def photo(self, record: Mapping[str, Any], view: str, keys: Iterable[str] = STREET_KEYS) -> str:
        """The panorama (CVUSA) or the one photograph of `view` (FOV)."""
        if self._subset == "cvusa":
            rules = (f"cvusa/data/streetview/{name}" for name in self._names(record, keys, ""))
        else:
            rules = (f"fov/data/street/{s}/{view}.{e}" for s in _samples(record, "fov") for e in _EXTENSIONS)
        return self._find(record, keys, rules)

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
        try:
            return [self.plain_satellite(record, HIDDEN_SATELLITE_KEYS)]
        except FieldError:
            return []

    def plain_satellite(self, record: Mapping[str, Any], keys: Iterable[str]) -> str:
        """The satellite picture that the row names, else the one without an arrow."""
        if self._subset == "cvusa":
            names = self._names(record, keys, "input")
            return self._find(record, keys, (f"cvusa/data/bingmap/{name}" for name in names))
        stems = (stem for s in _samples(record, "fov") for stem in (s, f"{s}/{s}"))
        return self._find(
            record, keys, (f"fov/data/satellite/{stem}.{e}" for stem in stems for e in _EXTENSIONS)
        )

    def side(self, record: Mapping[str, Any], view: str, side: str, key: str) -> ImageRef:
        """For grounding: the row's plain satellite or its one street picture, which it names under `key`."""
        if side == "satellite":
            return ImageRef(self.plain_satellite(record, (key, *SATELLITE_NAMES)), "satellite")
        role = "panorama" if self._subset == "cvusa" else "street"
        return ImageRef(self.photo(record, view, (key, *STREET_NAMES)), role)

    def marked(self, folder: str, image_id: str, direction: str) -> str:
        """The source picture of a level-3 grounding question, with the thing in a red box.

        Args:
            folder: where the question's file lies; `bbox_images` is below it.

        Raises:
            FieldError: there is none under the id, nor under its scene.
        """
        view, suffixes = _MARKED[direction]
        ids = dict.fromkeys((image_id, image_id.split("_")[0]))
        names = [f"{i}_{suffix}_bbox.{e}" for suffix in suffixes for i in ids for e in _EXTENSIONS]
        below = f"{folder}/bbox_images/{view}"
        found = next(self._existing(f"{below}/{name}" for name in names), None)
        if found is None:
            raise FieldError(f"no picture with the box drawn: {below}/{names[0]} is not in the data root")
        return found

    def composite(self, record: Mapping[str, Any], view: str, folder: str) -> str:
        """The one picture that a viewpoint question shows: street and satellite views side by side.

        A row may name a plain photograph too. It is passed over, because it leaves the question without an
        answer. By name, only a composite of the row's own view is found.

        Args:
            folder: where the composites of the question's file lie; it ends in arrow_select or arrow_street.

        Raises:
            FieldError: there is none.
        """
        end = COMPOSITE_ENDS[folder.rpartition("/")[2]]
        given = list(_paths(record, COMPOSITE_KEYS))
        here = [f"{folder}/{path.rpartition('/')[2]}" for path in given]
        stems = [f"{s}_{v}" for s in _samples(record, self._subset) for v in (f"view{view}", view)]
        rules = [f"{folder}/{stem}_{end}.{e}" for stem in stems for e in _EXTENSIONS]
        faults: list[str] = []
        found = list(self._existing((*given, *here, *rules), faults))
        whole = next((path for path in found if not path.startswith(f"{self._subset}/data/")), None)
        if whole is None:
            starts = tuple(f"{stem}{after}" for stem in stems for after in "_.")
            whole = next((f"{folder}/{n}" for n in self._files(folder) if n.startswith(starts)), None)
        if whole is None:
            why = f"{found[0]!r} is one view of it" if found else f"none for view {view} under {folder}"
            raise FieldError(f"no composite picture: {'; '.join(faults) or why}")
        return whole

    def named(self, path: str) -> str | None:
        """Where a row's path string itself leads, without any naming rule; None where to no picture."""
        return next(self._existing(_paths({"path": path}, ("path",))), None)

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder of the release, sorted."""
        return self._files(folder)

    def file(self, path: str) -> Path:
        """Where a picture lies that one of the other methods found."""
        return self._root.path / path

    def _names(self, record: Mapping[str, Any], keys: Iterable[str], prefix: str) -> Iterator[str]:
        """File names to try in a data folder: those of the row's paths, then those made of its ids."""
        yield from (path.rpartition("/")[2] for path in _paths(record, keys))
        for sample in _samples(record, self._subset):
            yield from (f"{prefix}{sample}.{extension}" for extension in _EXTENSIONS)

    def _find(self, record: Mapping[str, Any], keys: Iterable[str], rules: Iterable[str]) -> str:
        given = list(_paths(record, keys))
        faults: list[str] = []
        found = next(self._existing(chain(given, rules), faults), None)
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
