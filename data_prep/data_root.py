"""The folder of a release, and the promise that nothing outside it is read.

Path strings in a release were written by somebody else. They are looked up inside the data root only:
no `..`, no absolute path that lies elsewhere, no link that leaves the root.
"""

import os
from pathlib import Path, PurePosixPath

from data_prep.errors import UserError


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
        self._given = str(path.absolute())
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
        path = PurePosixPath(name)
        if path.is_absolute():
            for base in (str(self.path), self._given):
                if path.is_relative_to(base):
                    path = path.relative_to(base)
                    break
            else:
                raise EscapesRootError(f"{name!r} is an absolute path outside the data root")
        if ".." in path.parts:
            raise EscapesRootError(f"{name!r} climbs with '..'")
        return str(path)

    def _listing(self, folder: str) -> dict[str, bool]:
        """File name to whether it stays inside the root, for one folder."""
        if folder not in self._folders:
            self._folders[folder] = self._list(folder)
        return self._folders[folder]

    def _list(self, folder: str) -> dict[str, bool]:
        if "\0" in folder:
            return {}
        path = self.path / folder
        try:
            if not path.resolve().is_relative_to(self.path):
                raise EscapesRootError(f"the folder {folder!r} is a link that leaves the data root")
            with os.scandir(path) as entries:
                return {
                    entry.name: not entry.is_symlink() or Path(entry).resolve().is_relative_to(self.path)
                    for entry in entries
                    if entry.is_file()
                }
        except PermissionError as error:
            raise UserError(f"{path} may not be read ({error.strerror}). Change its permissions.") from error
        except OSError:
            return {}  # absent, not a folder, or a name that no folder can have
