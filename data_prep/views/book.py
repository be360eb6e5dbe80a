"""Which view belongs to which row: found in files, else made; cleaned, stitched for symmetry; or missing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from data_prep.atomic import digest, replacing
from data_prep.images import Picture, PictureError
from data_prep.rows import ImageRef, Row
from data_prep.views.layouts import MOST_PHOTOS, ViewFiles, is_symmetry
from data_prep.views.stitch import stitched_file

Clean = Callable[[Sequence[Path]], Mapping[Path, Picture | PictureError]]
"""Cleans files into the set's image folder."""


@dataclass
class Want:
    """A row's view: of which clean pictures, from which files; `fault` says why there is none.

    `files` are one a photo for the depth map of a symmetry row, else one.
    """

    id: str
    task: str
    symmetry: bool
    pictures: tuple[ImageRef, ...]
    files: list[Path] | None = None
    fault: str = ""
    images: tuple[ImageRef, ...] = ()


@dataclass
class Book:
    """The wants of all rows of a set, and where they stand."""

    kind: str
    store: Path
    wants: dict[str, Want] = field(default_factory=dict)

    def want(self, row: Row, shown: Row, found: ViewFiles) -> None:
        """Enter a row.

        Args:
            row: as the release's reader gives it.
            shown: the same with its clean pictures.
        """
        symmetry = is_symmetry(row)
        pictures = shown.images[:MOST_PHOTOS] if symmetry else shown.images[:1]
        self.wants[row.id] = Want(row.id, row.task, symmetry, pictures, found.find(row))

    @property
    def to_make(self) -> list[Want]:
        return [want for want in self.wants.values() if want.files is None and not want.fault]

    def settle(self, clean: Clean, strips: Path) -> None:
        """Clean the views' files and put pictures of symmetry rows side by side (`strips` keeps those).

        Every want has `images` afterwards, or a `fault`.
        """
        for want in self.to_make:
            want.fault = f"no file supplies its {self.kind}"
        files = dict.fromkeys(path for want in self._open() for path in want.files or ())
        views = clean(list(files))
        for want in self._open():
            broken = [f"{p}: {views[p]}" for p in want.files or () if isinstance(views[p], PictureError)]
            if broken:
                want.fault = f"its {self.kind} cannot be used ({broken[0]})"
        strip_of: dict[tuple[str, ...], Path] = {}
        for want in self._open():
            if not want.symmetry:
                continue
            for paths, lossless in self._to_stitch(want, views):
                if paths not in strip_of:
                    strip_of[paths] = self._stitch(paths, strips, lossless)
        stitched = clean(list(dict.fromkeys(strip_of.values())))
        for want in self._open():
            shown = want.pictures
            view = views[want.files[0]] if want.files else None
            if want.symmetry:
                made = [stitched[strip_of[paths]] for paths, _ in self._to_stitch(want, views)]
                if fault := next((str(one) for one in made if isinstance(one, PictureError)), ""):
                    want.fault = f"its pictures cannot be put side by side ({fault})"
                    continue
                shown = (_ref(made[0], "strip"),)
                view = made[1] if len(made) > 1 else view
            want.images = (*shown, _ref(view, self.kind))

    def apply(self, row: Row) -> Row | str:
        """The row with its view as last picture, or why it has none; a row that takes none as it is."""
        want = self.wants.get(row.id)
        if want is None:
            return row
        return want.fault or replace(row, images=want.images)

    def _open(self) -> Iterable[Want]:
        return [want for want in self.wants.values() if not want.fault]

    def _to_stitch(
        self, want: Want, views: Mapping[Path, Picture | PictureError]
    ) -> list[tuple[tuple[str, ...], bool]]:
        """Paths in the store that go side by side, photos, then depth maps; whether without loss."""
        strips = [(tuple(image.path for image in want.pictures), False)]
        if self.kind == "depth" and want.files and len(want.files) > 1:
            strips.append((tuple(views[path].path for path in want.files), True))  # type: ignore[union-attr]
        return strips

    def _stitch(self, paths: tuple[str, ...], folder: Path, lossless: bool) -> Path:
        key = digest([*paths, lossless])
        target = folder / key[:2] / f"{key}.{'png' if lossless else 'jpg'}"
        if not target.exists():
            content, _ = stitched_file([self.store / path for path in paths], lossless)
            with replacing(target) as temporary:
                temporary.write_bytes(content)
        return target


def _ref(picture: Picture | PictureError | None, role: str) -> ImageRef:
    assert isinstance(picture, Picture)
    return ImageRef(picture.path, role, picture.sha256, picture.width, picture.height)
