"""The folders that the user trusts. Active content of a folder (settings that allow more, hooks, extensions, servers, scripts, memory) is
ignored until the user trusts the folder, and again when the content changes. A nested repository requires its own trust. The list is
stored in the user's folder, so that no project can trust itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mainspring.app.workspace.paths import UserPaths, is_inaccessible_folder
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import read_regular_file, write_text_atomically

if TYPE_CHECKING:
    from mainspring.app.workspace.acting import ActiveContent, find_active_content, find_active_content_below
else:
    find_active_content_below, find_active_content = (
        lazy_function("mainspring.app.workspace.acting", "find_active_content_below"),
        lazy_function("mainspring.app.workspace.acting", "find_active_content"),
    )

TRUST_FILE = "trust.json"


class TrustedFolder(Struct, frozen=True):
    """A trusted folder, including its subfolders.

    Attributes:
        folder: Real path.
        since: Time when the user trusted it.
        acts: Fingerprints of its active content at that time, by relative path.
    """

    folder: str
    since: datetime
    acts: dict[str, str] = {}


class _File(Struct, frozen=True):
    folders: tuple[TrustedFolder, ...] = ()


class TrustStore:
    """The trusted folders.

    Args:
        home: User's folder; None trusts nothing.
    """

    def __init__(self, home: UserPaths | None) -> None:
        self._file = home.root / TRUST_FILE if home else None

    def list(self) -> tuple[TrustedFolder, ...]:
        """List the trusted folders by path.

        Raises:
            ConfigError: If the file is invalid.
        """
        if self._file is None:
            return ()
        try:
            data = read_regular_file(self._file)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            if is_inaccessible_folder(self._file.parent):  # The settings report the folder.
                return ()
            raise ConfigError(f"Cannot read {self._file}: {error.strerror or error}.") from error
        try:
            return msgspec.json.decode(data, type=_File).folders
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._file}: {error}. Fix the file, or delete it to reset trusted folders.") from error

    def covers(self, folder: str | os.PathLike[str]) -> bool:
        """Return True if a folder is trusted: it or a parent in the same repository was trusted, and its active content has not changed. A
        link is the same as its target.
        """
        return self.changed_content(folder) == ()

    def changed_content(self, folder: str | os.PathLike[str]) -> tuple[ActiveContent, ...] | None:
        """Return the new or changed active content of a trusted folder; None if it is not trusted."""
        path = Path(os.path.realpath(folder))
        entry = self._entry(path)
        if entry is None:
            return None
        return tuple(
            act for act in _active_content_for(path, entry) if entry.acts.get(_name(act, entry.folder)) != act.mark
        )

    def _entry(self, path: Path) -> TrustedFolder | None:
        named = {t.folder: t for t in self.list()}
        for place in (path, *path.parents) if named else ():
            if str(place) in named:
                return named[str(place)]
            if os.path.lexists(place / ".git"):
                return None
        return None

    @contextmanager
    def accept_own_changes(self, folder: Path | None) -> Generator[None]:
        """Keep trust in a folder while one of our commands changes it on behalf of the user.

        Args:
            folder: Folder; None if no project is changed.
        """
        path = None if folder is None else Path(os.path.realpath(folder))
        covered = path is not None and self.covers(path)
        yield
        entry = self._entry(path) if path is not None and covered else None
        if path is not None and entry is not None:
            acts = {**entry.acts, **_fingerprints(_active_content_for(path, entry), entry.folder)}
            renewed = TrustedFolder(entry.folder, entry.since, acts)
            self._change(lambda old: (*(t for t in old if t.folder != entry.folder), renewed))

    def copy_trust(self, source: Path, target: Path) -> None:
        """Trust another working copy of a trusted folder, for content that is the same. Does nothing if the first is not trusted."""
        entry = self._entry(Path(os.path.realpath(source)))
        if entry is not None and self.covers(source):
            below = Path(os.path.realpath(source)).relative_to(entry.folder)
            acts = {Path(name): mark for name, mark in entry.acts.items()}
            same = {f.relative_to(below).as_posix(): mark for f, mark in acts.items() if f.is_relative_to(below)}
            self._save(target, same)

    def add(self, folder: str | os.PathLike[str]) -> Path:
        """Trust a folder and everything below it.

        Returns:
            Its real path.

        Raises:
            ConfigError: If it is not a folder, or is much more than a project (the root or a home folder).
        """
        path = Path(os.path.realpath(os.path.expanduser(folder)))
        if not os.path.isdir(path):
            raise ConfigError(f"Folder not found: {path}")
        if path == Path(path.anchor) or path in _homes():
            raise ConfigError(
                f"{path} is too broad to trust (root or home folder). Trust the project's folder instead."
            )
        self._save(path, _fingerprints(find_active_content_below(path), str(path)))
        return path

    def _save(self, path: Path, acts: dict[str, str]) -> None:
        entry = TrustedFolder(str(path), datetime.now(UTC).replace(microsecond=0), acts)
        self._change(lambda old: (*(t for t in old if t.folder != str(path)), entry))

    def remove(self, folder: str | os.PathLike[str]) -> bool:
        """Stop trusting a folder. Return True if it was in the list; a trusted parent still applies."""
        path = os.path.realpath(os.path.expanduser(folder))
        known = any(t.folder == path for t in self.list())
        if known:
            self._change(lambda old: tuple(t for t in old if t.folder != path))
        return known

    def _change(self, edit: Callable[[tuple[TrustedFolder, ...]], tuple[TrustedFolder, ...]]) -> None:
        if self._file is None:
            raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(self._file.parent):
                old = self.list()
                new = tuple(sorted(edit(old), key=lambda t: t.folder))
                if new != old:
                    text = msgspec.json.format(msgspec.json.encode(_File(new))).decode()
                    write_text_atomically(Path(os.path.realpath(self._file)), f"{text}\n")
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"Cannot write {self._file}: {error.strerror or error}.") from error


def trust_warnings(cwd: str, home: UserPaths | None) -> tuple[str, ...]:
    """Return a warning if a folder is no longer trusted, because its active content changed. Blocks."""
    changed = TrustStore(home).changed_content(cwd)
    if not changed:
        return ()
    files = ", ".join(str(act.file) for act in changed[:3]) + (
        f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    )
    return (
        f"{files}: New or changed since you trusted the folder, so nothing in it takes effect. "
        "Review it with `mainspring trust --show`, and trust it with `mainspring trust`.",
    )


def _active_content_for(path: Path, entry: TrustedFolder) -> Iterator[ActiveContent]:
    """Find the active content for a working folder: in it, and in its parents up to the trusted folder."""
    for place in (path, *path.parents):
        yield from find_active_content(place)
        if str(place) == entry.folder:
            return


def _name(content: ActiveContent, folder: str) -> str:
    return content.file.relative_to(folder).as_posix()


def _fingerprints(active_content: Iterable[ActiveContent], folder: str) -> dict[str, str]:
    return {_name(act, folder): act.mark for act in active_content}


def _homes() -> set[Path]:
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return {home, *home.parents}
