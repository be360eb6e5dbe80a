"""Where the files of auxiliary views lie: as CVSBench ships them, as its scripts write them, and as we do.

A folder is searched in this order (`{s}`: the scene, as its folder is called; `{v}`: the street view):

    views.jsonl                                     {"id": row id, "image": path below the folder}, any row
    fov/nanobanana/train_street/{s}/gen_{v}         miniature of a street photo
    fov/nanobanana/results_multiview_final/{s}      miniature of all photos (symmetry)
    fov/nanobanana/gallery_satellite/{s}/gen_{s}    miniature of a satellite picture, else the folder's first
    single_gen/street/{s}/gen_{v}, multiview_gen/{s}, single_gen/satellite/{s}/gen_{s}     miniatures (zimage)
    {s}/gen_{v}, {s}/{v}                            depth of a street photo
    {s}/gen_{s}, {s}/{s}, gen_{s}, {s}              depth of a satellite picture
    {kind}/{subset}/street/{s}/{v}, .../{s}         any kind, of a street view (symmetry: .../{s})
    {kind}/{subset}/satellite/{s}                   any kind, of a satellite picture

The paths above `{kind}` are those of FOV. The depth map of a symmetry question is that of each of its photos.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from data_prep.atomic import read_jsonl
from data_prep.cvsbench.pictures import SYMMETRY_VIEW
from data_prep.data_root import DataRoot, EscapesRootError
from data_prep.errors import UserError
from data_prep.rows import Row

EXTENSIONS = ("png", "jpg", "jpeg", "webp")
INDEX = "views.jsonl"
TASKS = ("g2s", "s2g")  # the questions that have auxiliary views
MOST_PHOTOS = 4  # of a symmetry question, as CVSBench's own evaluation takes them
_GALLERY = "fov/nanobanana/gallery_satellite"


def takes_view(row: Row) -> bool:
    """Whether a row is one of those that get a second picture: choice questions on one side's view."""
    return row.task in TASKS


def is_symmetry(row: Row) -> bool:
    """Whether a row shows all street photos of its scene."""
    return row.task == "g2s" and row.subset == "fov" and row.meta.get("view") == SYMMETRY_VIEW


class ViewFiles:
    """Finds the files of one kind of view in `folders`, the first one that has them.

    Raises:
        UserError: a folder does not exist, or its views.jsonl is not as described above.
    """

    def __init__(self, folders: Sequence[Path], kind: str) -> None:
        self._kind = kind
        self._roots: list[tuple[DataRoot, dict[str, str]]] = []
        for folder in folders:
            if not folder.is_dir():
                raise UserError(f"data.views_root={folder} is no folder. Give one that holds view files.")
            self._roots.append((DataRoot(folder), _index(folder / INDEX)))

    def find(self, row: Row) -> list[Path] | None:
        """The files of a row's view: one, or for the depth of a symmetry row one a photo; None without.

        Args:
            row: as the release's reader gives it, its image paths those of the release.

        Raises:
            UserError: views.jsonl names a file that is not there.
        """
        for root, index in self._roots:
            if row.id in index:
                found = _one(root, [index[row.id]])
                if found is None:
                    named = f"names {index[row.id]} for {row.id}, which is not there"
                    raise UserError(f"{root.path / INDEX} {named}. Mend that line.")
                return [found]
            candidates = self._candidates(row, root)
            files = [_one(root, paths) for paths in candidates]
            if files and all(files):
                return files  # type: ignore[return-value]
            # A scene's miniature may have another name.
            if self._kind == "miniature" and row.subset == "fov" and row.task == "s2g":
                for scene in _scenes(row):
                    first = next((n for n in _listed(root, f"{_GALLERY}/{scene}") if _is_picture(n)), None)
                    if first:
                        return [root.path / _GALLERY / scene / first]
        return None

    def _candidates(self, row: Row, root: DataRoot) -> list[list[str]]:
        """For each file that the view needs, the paths where it may lie, the likeliest first."""
        scenes = _scenes(row)
        if self._kind == "depth" and is_symmetry(row):
            numbers = [PurePosixPath(image.path).stem for image in row.images[:MOST_PHOTOS]]
            return [_expanded(self._single(row, scenes, number)) for number in numbers]
        if is_symmetry(row):
            names = [f"fov/nanobanana/results_multiview_final/{s}" for s in scenes]
            names += [f"multiview_gen/{s}" for s in scenes]
            names = names if self._kind == "miniature" else []
            return [_expanded([*names, *(f"{self._kind}/fov/street/{s}" for s in scenes)])]
        return [_expanded(self._single(row, scenes, PurePosixPath(row.images[0].path).stem))]

    def _single(self, row: Row, scenes: list[str], number: str) -> list[str]:
        """Stems of the view of one picture."""
        street = row.task == "g2s"
        names: list[str] = []
        for s in scenes if row.subset == "fov" else ():
            if self._kind == "miniature" and street:
                names += [
                    f"fov/nanobanana/train_street/{s}/gen_{number}",
                    f"single_gen/street/{s}/gen_{number}",
                ]
            elif self._kind == "miniature":
                names += [f"{_GALLERY}/{s}/gen_{s}", f"single_gen/satellite/{s}/gen_{s}"]
            elif self._kind == "depth" and street:
                names += [f"{s}/gen_{number}", f"{s}/{number}"]
            elif self._kind == "depth":
                names += [f"{s}/gen_{s}", f"{s}/{s}", f"gen_{s}", s]
        ours = f"{self._kind}/{row.subset}/{'street' if street else 'satellite'}"
        numbered = [f"{ours}/{s}/{number}" for s in scenes] if row.subset == "fov" and street else []
        plain = [] if numbered else [f"{ours}/{s}" for s in scenes]
        return [*names, *numbered, *plain]


def _scenes(row: Row) -> list[str]:
    """What a scene's folder may be called: the scene's id with its zeros, and as the row's own id has it."""
    own = row.id.rpartition("/")[2].split(".")[0]
    return list(dict.fromkeys((row.group.rpartition("/")[2], own, own.split("_")[0])))


def _expanded(stems: Sequence[str]) -> list[str]:
    return [f"{stem}.{extension}" for stem in stems for extension in EXTENSIONS]


def _one(root: DataRoot, paths: Sequence[str]) -> Path | None:
    return next((root.path / found for found in _existing(root, paths)), None)


def _existing(root: DataRoot, paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        try:
            found = root.find(path)
        except EscapesRootError as error:
            raise UserError(f"A view in {root.path}: {error}.") from error
        if found:
            yield found


def _listed(root: DataRoot, folder: str) -> list[str]:
    try:
        return root.files(folder)
    except EscapesRootError as error:
        raise UserError(f"A view in {root.path}: {error}.") from error


def _is_picture(name: str) -> bool:
    return name.rpartition(".")[2].lower() in EXTENSIONS


def _index(path: Path) -> dict[str, str]:
    """Row id to path, of a folder's views.jsonl; empty where there is none."""
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    records: Iterator[Any] = read_jsonl(path)
    try:
        for record in records:
            row_id, image = record["id"], record["image"]
            if not (isinstance(row_id, str) and isinstance(image, str)):
                raise TypeError(f"{record!r:.60}")
            found[row_id] = image
    except (ValueError, LookupError, TypeError) as error:
        form = '{"id": row id, "image": path below the folder}'
        raise UserError(f"{path}, line {len(found) + 1} is not {form} ({error!r:.80}). Mend it.") from error
    return found
