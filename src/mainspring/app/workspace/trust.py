"""Which folders the user trusts. Whatever a folder brings that acts (settings that loosen, hooks, extensions, servers, scripts,
memory) is left alone until then, and again when what acts there has changed. A repository inside is another one, which is trusted by
itself. Kept in the user's folder, so that no project can trust itself.
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

from mainspring.app.workspace.paths import UserPaths
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import write_text_atomically

if TYPE_CHECKING:
    from mainspring.app.workspace.acting import ActiveContent, find_active_content, find_active_content_below
else:
    find_active_content_below, find_active_content = (
        lazy_function("mainspring.app.workspace.acting", "find_active_content_below"),
        lazy_function("mainspring.app.workspace.acting", "find_active_content"),
    )

TRUST_FILE = "trust.json"


class TrustedFolder(Struct, frozen=True):
    """A folder that is trusted, with everything below it.

    Attributes:
        folder: Its real path.
        since: When the user said so.
        acts: The marks of what acted there then, by its path in the folder.
    """

    folder: str
    since: datetime
    acts: dict[str, str] = {}


class _File(Struct, frozen=True):
    folders: tuple[TrustedFolder, ...] = ()


class TrustStore:
    """The folders that the user trusts.

    Args:
        home: The user's folder; without one nothing is trusted and nothing can be.
    """

    def __init__(self, home: UserPaths | None) -> None:
        self._file = home.root / TRUST_FILE if home else None

    def list(self) -> tuple[TrustedFolder, ...]:
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
        """Whether a folder is trusted: it or one above it in the same repository was named, and what acts there is what it was then. A
        link counts as what it points to.
        """
        return self.changed_content(folder) == ()

    def changed_content(self, folder: str | os.PathLike[str]) -> tuple[ActiveContent, ...] | None:
        """What acts in a folder that is trusted and is new or another since; ``None`` if it is not trusted."""
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
        """What the user changes in a trusted folder by a command of ours meanwhile is trusted like the rest of it.

        Args:
            folder: The folder; ``None`` where nothing of a project is changed.
        """
        path = None if folder is None else Path(os.path.realpath(folder))
        covered = path is not None and self.covers(path)
        yield
        entry = self._entry(path) if path is not None and covered else None
        if path is not None and entry is not None:
            kept = {**entry.acts, **_fingerprints(_active_content_for(path, entry), entry.folder)}
            renewed = TrustedFolder(entry.folder, entry.since, kept)
            self._change(lambda old: (*(t for t in old if t.folder != entry.folder), renewed))

    def copy_trust(self, source: Path, target: Path) -> None:
        """Trust another working copy of a trusted folder as far as it is the same. Without trust in the first nothing happens."""
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
            ConfigError: If it is no folder, or one that holds far more than a project (the root, a home folder).
        """
        path = Path(os.path.realpath(os.path.expanduser(folder)))
        if not path.is_dir():
            raise ConfigError(f"there is no folder {path}")
        if path == Path(path.anchor) or path in _homes():
            raise ConfigError(
                f"{path} holds more than a project, so it cannot be trusted as a whole; name the project's folder"
            )
        self._save(path, _fingerprints(find_active_content_below(path), str(path)))
        return path

    def _save(self, path: Path, acts: dict[str, str]) -> None:
        entry = TrustedFolder(str(path), datetime.now(UTC).replace(microsecond=0), acts)
        self._change(lambda old: (*(t for t in old if t.folder != str(path)), entry))

    def remove(self, folder: str | os.PathLike[str]) -> bool:
        """Trust a folder no more. Says whether it was named; one above it still counts."""
        path = os.path.realpath(os.path.expanduser(folder))
        known = any(t.folder == path for t in self.list())
        if known:
            self._change(lambda old: tuple(t for t in old if t.folder != path))
        return known

    def _change(self, edit: Callable[[tuple[TrustedFolder, ...]], tuple[TrustedFolder, ...]]) -> None:
        if self._file is None:
            raise ConfigError("there is no home folder to keep this in; set MAINSPRING_HOME to one")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(self._file.parent):
                old = self.list()
                new = tuple(sorted(edit(old), key=lambda t: t.folder))
                if new != old:
                    write_text_atomically(
                        self._file, msgspec.json.format(msgspec.json.encode(_File(new))).decode() + "\n"
                    )
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"{self._file}: cannot be written: {error.strerror or error}") from error


def trust_warnings(cwd: str, home: UserPaths | None) -> tuple[str, ...]:
    """What has to be said where a folder is trusted no more, since what acts there has changed. Blocks."""
    changed = TrustStore(home).changed_content(cwd)
    if not changed:
        return ()
    files = ", ".join(str(act.file) for act in changed[:3]) + (
        f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    )
    return (
        f"{files}: new or changed since you trusted the folder, so that nothing of it acts; "
        "mainspring trust --show tells what it does, mainspring trust trusts it",
    )


def _active_content_for(path: Path, entry: TrustedFolder) -> Iterator[ActiveContent]:
    """What acts for whoever works in a folder: there, and above it as far as the folder that was named."""
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
