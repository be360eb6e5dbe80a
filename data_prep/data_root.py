"""The folder of a release, and the promise that nothing outside it is read.

Path strings in a release were written by somebody else. They are looked up inside the data root only:
no `..`, no absolute path that lies elsewhere, no link that leaves the root.
"""

import errno
import os
from pathlib import Path

from data_prep.errors import UserError

_NO_SUCH_FOLDER = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}


class EscapesRootError(ValueError):
    """A path string that would be read outside the data root. The message says how it leaves."""


class DataRoot:
    """Finds files below a folder. Folder listings are kept, so that a lookup costs no system call.

    Raises:
        UserError: `path` is no folder.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"data.root={path} is not a folder. Give the folder that holds the release.")
        self.path = path.resolve()
        self._names = (f"{self.path}/", f"{path.absolute()}/")
        self._folders: dict[str, dict[str, bool]] = {}

    def find(self, name: str) -> str | None:
        """The file `name` as a path relative to the root, or None where there is no such file.

        Args:
            name: relative to the root, or absolute and inside it.

        Raises:
            EscapesRootError: the path, or a link on it, leaves the root.
        """
        relative = self._inside(name)
        folder, _, file = relative.rpartition("/")
        stays = self._listing(folder).get(file)
        if stays is False:
            raise EscapesRootError(f"{name!r} is a link that leaves the data root; put a copy in its place")
        return relative if stays else None

    def files(self, folder: str) -> list[str]:
        """Names of the files in `folder` that may be read, sorted; empty where there is no such folder."""
        return sorted(name for name, stays in self._listing(self._inside(folder)).items() if stays)

    def _inside(self, name: str) -> str:
        relative = name
        if name.startswith("/"):
            base = next((base for base in self._names if name.startswith(base)), None)
            if base is None:
                raise EscapesRootError(f"{name!r} is an absolute path outside the data root")
            relative = name.removeprefix(base)
        parts = [part for part in relative.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise EscapesRootError(f"{name!r} climbs with '..'")
        return "/".join(parts)

    def _listing(self, folder: str) -> dict[str, bool]:
        """File name to whether it stays inside the root, for one folder."""
        if folder not in self._folders:
            self._folders[folder] = self._list(folder)
        return self._folders[folder]

    def _list(self, folder: str) -> dict[str, bool]:
        if "\0" in folder:
            return {}
        path = self.path / folder
        if not self._contains(path):
            raise EscapesRootError(f"the folder {folder!r} is a link that leaves the data root")
        try:
            with os.scandir(path) as entries:
                # A link counts by what it leads to; one that leads nowhere is no file.
                return {
                    entry.name: not entry.is_symlink() or self._contains(entry)
                    for entry in entries
                    if (os.path.isfile(entry) if entry.is_symlink() else entry.is_file())
                }
        except OSError as error:
            if error.errno in _NO_SUCH_FOLDER:
                return {}
            raise UserError(f"{path} cannot be listed ({error.strerror}). Mend its permissions.") from error

    def _contains(self, path: os.PathLike[str]) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.path)
