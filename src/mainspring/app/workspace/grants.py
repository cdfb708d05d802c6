"""Rules that the user saved for one project, stored in the user's folder so that no project can grant itself anything.

A project is the folder in which the agent works, by its real path. The number of the folder in its file system and the time when it was made
are stored as well, so that another folder at the same path does not inherit what was allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from mainspring.app.workspace.folder_identity import read_birth_time, read_inode
from mainspring.app.workspace.paths import UserPaths
from mainspring.errors import ConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.permissions import Rule, RuleSet, RuleSource, parse_rule
from mainspring.state_files import write_text_atomically

FILE = "grants.json"

GrantEffect = Literal["allow", "deny"]
"""The effect of a saved rule."""


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that the user saved for a project.

    Attributes:
        effect: Whether it allows or denies.
        rule: The rule as it was written.
        since: When the user saved it.
    """

    effect: GrantEffect
    rule: str
    since: datetime


class Project(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder and the rules that the user saved for it.

    Attributes:
        folder: Its real path.
        inode: The number of the folder in its file system.
        grants: The rules, the oldest first.
        born: When the folder was made, in nanoseconds; 0 if that is not known.
    """

    folder: str
    inode: int
    grants: tuple[Grant, ...] = ()
    born: int = 0

    @property
    def is_same_folder(self) -> bool:
        """Whether the folder at the path is the one for which the rules were saved."""
        return self.inode == read_inode(self.folder) and (not self.born or self.born == read_birth_time(self.folder))


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    projects: tuple[Project, ...] = ()


class GrantStore:
    """The rules that the user saved, by project.

    Args:
        home: The user's folder; without one nothing is stored.
    """

    def __init__(self, home: UserPaths | None) -> None:
        self.file = home.root / FILE if home else None

    def list(self) -> tuple[Project, ...]:
        """Return all projects that have rules, by path.

        Raises:
            ConfigError: If the file cannot be read.
        """
        if self.file is None:
            return ()
        try:
            data = self.file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise ConfigError(f"Cannot read {self.file}: {error.strerror or error}.") from error
        try:
            found = msgspec.json.decode(data, type=_File).projects
            for project in found:
                _parse(project.grants, str(self.file))
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"{self.file}: {error}. Fix the file, or delete it to revoke all grants.") from error
        return found

    def grants(self, folder: str | os.PathLike[str]) -> tuple[Grant, ...]:
        """Return the rules that apply in a folder: all that deny, and those that allow unless another folder is at its path now."""
        path = os.path.realpath(folder)
        known = next((project for project in self.list() if project.folder == path), None)
        if known is None:
            return ()
        same = known.is_same_folder
        return tuple([grant for grant in known.grants if same or grant.effect == "deny"])

    def rules(self, folder: str | os.PathLike[str]) -> RuleSet:
        """Return the same as rules for decisions.

        Raises:
            ConfigError: If the file cannot be read.
        """
        return RuleSet(_parse(self.grants(folder), self.place(folder)))

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return where the rules of a folder are stored, for people."""
        return f"{self.file}: {os.path.realpath(folder)}"

    def add(self, folder: str | os.PathLike[str], effect: GrantEffect, texts: tuple[str, ...]) -> Path:
        """Save rules for a folder, either all or none, and return the file. Blocks.

        Raises:
            ConfigError: If the file cannot be read or written.
        """
        path, now = os.path.realpath(folder), datetime.now(UTC).replace(microsecond=0)

        def edit() -> tuple[Grant, ...]:
            known = self.grants(path)
            new = [
                text for text in dict.fromkeys(texts) if not any((g.effect, g.rule) == (effect, text) for g in known)
            ]
            return (*known, *[Grant(effect, text, now) for text in new])

        return self._change(path, edit)

    def remove(self, folder: str | os.PathLike[str], effect: GrantEffect, text: str) -> Path:
        """Remove a rule of a folder, and return the file. Blocks.

        Raises:
            ConfigError: If the file cannot be read or written.
        """
        path = os.path.realpath(folder)
        return self._change(path, lambda: tuple([g for g in self.grants(path) if (g.effect, g.rule) != (effect, text)]))

    def _change(self, path: str, edit: Callable[[], tuple[Grant, ...]]) -> Path:
        """Store what ``edit`` returns for a folder; it reads the file under the lock, since two chats may save at the same time."""
        if self.file is None:
            raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
        if path != path.encode("utf-8", "replace").decode():
            raise ConfigError(f"{ascii(path)} is not valid UTF-8, so no rule can be saved for it. Rename the folder.")
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(self.file.parent):
                grants = edit()
                left = [project for project in self.list() if project.folder != path]
                if grants:
                    left.append(Project(path, read_inode(path), grants, read_birth_time(path)))
                new = _File(tuple(sorted(left, key=lambda project: project.folder)))
                text = msgspec.json.format(msgspec.json.encode(new)).decode() + "\n"
                write_text_atomically(Path(os.path.realpath(self.file)), text, private=True)
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"Cannot write {self.file}: {error.strerror or error}.") from error
        return self.file


def _parse(grants: tuple[Grant, ...], place: str) -> tuple[Rule, ...]:
    return tuple([parse_rule(grant.rule, grant.effect, RuleSource("user", place)) for grant in grants])
