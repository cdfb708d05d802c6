"""Where memory is: ``MEMORY.md`` in the user's folder, and one in the project's ``.agent`` folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from mainspring.errors import MainspringError
from mainspring.folder_lock import FolderLockedError, locked_folder
from mainspring.state_files import replace_text, target_in_project

FILE = "MEMORY.md"
_MOST = 1024 * 1024  # bytes; a memory file beyond it is a mistake, and reading on would not help


class MemoryFile:
    """One file of notes. It need not exist; it is made with the first note.

    Args:
        path: The file; a link is followed, for a project's file inside the project.
        private: Whether only its owner may read it: the user's file, not a project's.
    """

    def __init__(self, path: str | os.PathLike[str], *, private: bool = True) -> None:
        self.path = Path(path)
        self.private = private

    def read(self) -> str:
        """Its text; empty where there is none.

        Raises:
            MainspringError: If it is there and cannot be read.
        """
        return self._bytes().decode("utf-8-sig", "replace")

    def _bytes(self) -> bytes:
        try:
            with open(os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
                return stream.read(_MOST)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        except OSError as error:
            raise MainspringError(f"memory: {self.path} cannot be read: {error.strerror or error}") from error

    def change(self, edit: Callable[[str], str]) -> bool:
        """Replace its text by what ``edit`` makes of it, whole or not at all, while nobody else may change it.

        Returns:
            Whether anything changed.

        Raises:
            MainspringError: If it cannot be written; then it is as it was.
        """
        try:
            folder = self.path.parent.parent
            target = Path(os.path.realpath(self.path)) if self.private else target_in_project(self.path, folder)
            target.parent.mkdir(mode=0o700 if self.private else 0o777, parents=True, exist_ok=True)
            with locked_folder(target.parent):
                old = self._bytes().decode("utf-8-sig")
                new = edit(old)
                if new == old:
                    return False
                if target.exists() and target.stat().st_size > _MOST:
                    raise MainspringError(f"memory: {self.path} is larger than {_MOST} bytes; tidy it first")
                replace_text(target, new, private=self.private)
        except FolderLockedError as error:
            raise MainspringError(f"memory: {error}") from None
        except UnicodeDecodeError:
            raise MainspringError(
                f"memory: {self.path} is not UTF-8, so nothing was added to it; save it as UTF-8 first"
            ) from None
        except OSError as error:
            raise MainspringError(f"memory: {self.path} cannot be written: {error.strerror or error}") from error
        return True


class Located(Struct, frozen=True):
    """The files of memory; ``None`` where there is no such place."""

    user: MemoryFile | None
    project: MemoryFile | None


def locate(cwd: str | os.PathLike[str], home: str | os.PathLike[str] | None) -> Located:
    """The files for a folder.

    Args:
        cwd: The project's folder.
        home: The user's folder, as ``~/.agent``.
    """
    user = None if home is None else MemoryFile(Path(home) / FILE)
    path = Path(cwd) / ".agent" / FILE
    same = user is not None and os.path.realpath(path) == os.path.realpath(user.path)
    return Located(user, None if same else MemoryFile(path, private=False))
