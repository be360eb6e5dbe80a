"""Read Omni3D's files below a data root: an index of each, then scenes, any range of them, in a fixed order.

    root/Omni3D/<Source>_<split>.json   annotations, split train, val or test
    root/<file_path>                    pictures, where an image's `file_path` says

The layout is that of https://github.com/facebookresearch/omni3d, where the root is called datasets.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from data_prep.data_root import DataRoot, EscapesRootError
from data_prep.errors import UserError
from data_prep.monosr.chunks import in_processes
from data_prep.monosr.index import Index
from data_prep.monosr.index_build import build
from data_prep.monosr.scene import Scene
from data_prep.monosr.sources import FOLDER, SOURCES
from data_prep.quarantine import Quarantined

PARALLEL_FROM = 2**26  # bytes of all files, below which a process takes longer to start than to work


def find_annotations(root: DataRoot, sources: Sequence[str], splits: Sequence[str]) -> list[tuple[str, str]]:
    """(source, path relative to the root) of every file there is, in the order of `sources`, then `splits`.

    Raises:
        UserError: a source is unknown, or none of its files is there.
    """
    there = set(root.files(FOLDER))
    found = []
    for source in sources:
        if source not in SOURCES:
            raise UserError(f"data.sources: {source!r} is not one of {', '.join(SOURCES)}.")
        names = [name for split in splits if (name := f"{source}_{split}.json") in there]
        if not names:
            wanted = " or ".join(f"{source}_{split}.json" for split in splits)
            raise UserError(
                f"{root.path / FOLDER} has no {wanted}. Unpack Omni3D's annotations there, or name the "
                "sources that there are with data.sources=[...]."
            )
        found += [(source, f"{FOLDER}/{name}") for name in names]
    return found


def _build(
    paths: Sequence[Path], sources: Sequence[str | Mapping[int, str]], folder: Path, number: int
) -> tuple[int, Index]:
    return number, build(paths[number], folder / paths[number].stem, sources[number])


class Release:
    """The scenes of some annotation files, numbered through. It may be pickled for other processes.

    Args:
        root: the data root; files are looked up inside it alone.
        files: as `find_annotations` gives them; in place of a source, dataset id -> source of a merged file.
        folder: where the indexes lie, or are built (`data_prep.monosr.index`).
        pictures: whether every image's picture has to be there.
        workers: processes that index files, where they are large.
        on_file: called with the number of files that are indexed.

    Raises:
        OSError: a file cannot be read.
    """

    def __init__(
        self,
        root: DataRoot,
        files: Sequence[tuple[str | Mapping[int, str], str]],
        folder: Path,
        pictures: bool = True,
        workers: int = 1,
        on_file: Callable[[int], None] = lambda done: None,
    ) -> None:
        self.files = [path for _, path in files]
        self._root, self._pictures = root, pictures
        paths = [root.path / path for path in self.files]
        if sum(path.stat().st_size for path in paths) < PARALLEL_FROM:
            workers = 1
        made: dict[int, Index] = {}
        work = partial(_build, paths, [source for source, _ in files], folder)
        for number, index in in_processes(work, list(range(len(files))), workers):
            made[number] = index
            on_file(len(made))
        self.indexes = [made[number] for number in range(len(files))]

    def __len__(self) -> int:
        """Images of all files; `scenes` leaves those out whose picture is not there."""
        return sum(map(len, self.indexes))

    def scenes(self, start: int = 0, stop: int | None = None) -> Iterator[Scene]:
        """The scenes of images `start` to `stop` whose pictures are there, as `Index.scenes` gives them."""
        return (scene for _, scene in self.numbered(start, stop))

    def numbered(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Scene]]:
        """The same scenes, each with the number of its image."""
        for number, scene, _ in self._ranged(start, stop):
            if not self._lacks(scene):
                yield number, scene

    def faults(self) -> Iterator[Quarantined]:
        """Everything that cannot be used, with file and id: files, images, annotations, missing pictures.

        `line` counts the elements of the file's array from 1, and is 0 for a whole file or a picture.
        """
        for path, index in zip(self.files, self.indexes, strict=True):
            for record in index.faults():
                what = f"{record['what']} {record['id']}".strip()
                yield Quarantined(
                    f"monosr/{Path(path).stem}/{what}", path, record["place"], record["reason"], "annotation"
                )
        for _, scene, path in self._ranged(0, None) if self._pictures else ():
            if reason := self._lacks(scene):
                yield Quarantined(f"monosr/{scene.id}", path, 0, reason, "picture", scene.id)

    def _ranged(self, start: int, stop: int | None) -> Iterator[tuple[int, Scene, str]]:
        before = 0
        stop = len(self) if stop is None else stop
        for path, index in zip(self.files, self.indexes, strict=True):
            first, last = max(start - before, 0), min(stop - before, len(index))
            for number, scene in enumerate(index.scenes(first, max(last, 0)), start=before + first):
                yield number, scene, path
            before += len(index)

    def _lacks(self, scene: Scene) -> str | None:
        """Why the scene's picture cannot be shown, or None."""
        if not self._pictures:
            return None
        try:
            return None if self._root.find(scene.image) else f"there is no picture {json.dumps(scene.image)}"
        except EscapesRootError as error:
            return str(error)
