"""Which folders the user trusts. Whatever a folder brings that acts (settings that loosen, hooks, extensions, servers, scripts,
memory) is left alone until then. Kept in the user's folder, so that no project can trust itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from mainspring.env.folder_lock import FolderLockedError, locked_folder
from mainspring.env.replacing import replace_text
from mainspring.errors import ConfigError
from mainspring.runtime.home import Home

FILE = "trust.json"


class Trusted(Struct, frozen=True):
    """A folder that is trusted, with everything below it.

    Attributes:
        folder: Its real path.
        since: When the user said so.
    """

    folder: str
    since: datetime


class _File(Struct, frozen=True):
    folders: tuple[Trusted, ...] = ()


class TrustStore:
    """The folders that the user trusts.

    Args:
        home: The user's folder; without one nothing is trusted and nothing can be.
    """

    def __init__(self, home: Home | None) -> None:
        self._file = home.root / FILE if home else None

    def list(self) -> tuple[Trusted, ...]:
        """All of them, by path.

        Raises:
            ConfigError: If the file is broken.
        """
        if self._file is None:
            return ()
        try:
            data = self._file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise ConfigError(f"{self._file}: cannot be read: {error.strerror or error}") from error
        try:
            return msgspec.json.decode(data, type=_File).folders
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._file}: {error}; mend it, or remove it to trust nothing") from error

    def covers(self, folder: str | os.PathLike[str]) -> bool:
        """Whether a folder is trusted: it or one above it was named. A link counts as what it points to."""
        path = Path(os.path.realpath(folder))
        named = {t.folder for t in self.list()}
        return any(str(p) in named for p in (path, *path.parents))

    def add(self, folder: str | os.PathLike[str]) -> Path:
        """Trust a folder and everything below it.

        Returns:
            Its real path.

        Raises:
            ConfigError: If it is no folder, or one that holds far more than a project (the root, a home folder).
        """
        path = Path(os.path.realpath(os.path.expanduser(folder)))
        if not path.is_dir():
            raise ConfigError(f"there is no folder {path}")
        if path == Path(path.anchor) or path in _homes():
            raise ConfigError(
                f"{path} holds more than a project, so it cannot be trusted as a whole; name the project's folder"
            )
        now = datetime.now(UTC).replace(microsecond=0)
        self._change(lambda old: old if any(t.folder == str(path) for t in old) else (*old, Trusted(str(path), now)))
        return path

    def remove(self, folder: str | os.PathLike[str]) -> bool:
        """Trust a folder no more. Says whether it was named; one above it still counts."""
        path = os.path.realpath(os.path.expanduser(folder))
        known = any(t.folder == path for t in self.list())
        if known:
            self._change(lambda old: tuple(t for t in old if t.folder != path))
        return known

    def _change(self, edit: Callable[[tuple[Trusted, ...]], tuple[Trusted, ...]]) -> None:
        if self._file is None:
            raise ConfigError("there is no home folder to keep this in; set MAINSPRING_HOME to one")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked_folder(self._file.parent):
                old = self.list()
                new = tuple(sorted(edit(old), key=lambda t: t.folder))
                if new != old:
                    replace_text(self._file, msgspec.json.format(msgspec.json.encode(_File(new))).decode() + "\n")
        except FolderLockedError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"{self._file}: cannot be written: {error.strerror or error}") from error


def _homes() -> set[Path]:
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return {home, *home.parents}
