"""Rules that the user saved while working: for one project in the grants file, for every project in the user's settings.

A project is identified by the real path of its folder, and by the inode number and creation time of the folder, so that another folder at
the same path does not inherit its rules.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec
from msgspec import Struct

from mainspring.app.workspace.paths import UserPaths, is_inaccessible_folder
from mainspring.app.workspace.settings import parse_settings
from mainspring.app.workspace.settings.jsonc import edit_jsonc
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function
from mainspring.lenient_json import JsonError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.permissions import PermissionRule, RuleSet, RuleSource, parse_rule
from mainspring.state_files import read_regular_file, write_text_atomically

if TYPE_CHECKING:
    from mainspring.permissions import is_portable, relative_program
else:  # only saving a rule needs the tables of programs
    is_portable = lazy_function("mainspring.permissions.portable", "is_portable")
    relative_program = lazy_function("mainspring.permissions.portable", "relative_program")

GRANTS_FILE_NAME = "grants.json"

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_MASK, _SECONDS, _NANOSECONDS = slice(0, 4), slice(80, 88), slice(88, 92)
_STATX_SIZE = 256


GrantEffect = Literal["allow", "deny"]
"""The effect of a saved rule."""


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that the user saved for a project.

    Attributes:
        effect: Effect of the rule.
        rule: Text of the rule.
        since: Time when the user saved it.
    """

    effect: GrantEffect
    rule: str
    since: datetime


class Project(Struct, frozen=True, forbid_unknown_fields=True):
    """A folder and its saved rules.

    Attributes:
        folder: Real path.
        inode: Inode number of the folder.
        grants: Rules, the oldest first.
        born: Creation time of the folder in nanoseconds; 0 if unknown.
    """

    folder: str
    inode: int
    grants: tuple[Grant, ...] = ()
    born: int = 0

    @property
    def is_same_folder(self) -> bool:
        """Return True if the folder at the path is the one that the rules were saved for."""
        return self.inode == read_inode(self.folder) and (not self.born or self.born == read_birth_time(self.folder))


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    projects: tuple[Project, ...] = ()


class GrantStore:
    """The saved rules, by project.

    Args:
        home: User's folder; None stores nothing.
    """

    def __init__(self, home: UserPaths | None) -> None:
        self.file = home.root / GRANTS_FILE_NAME if home else None

    def list(self) -> tuple[Project, ...]:
        """Return all projects that have rules, by path.

        Raises:
            ConfigError: If the file cannot be read.
        """
        if self.file is None:
            return ()
        try:
            data = read_regular_file(self.file)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            if is_inaccessible_folder(self.file.parent):  # The settings report the folder.
                return ()
            raise ConfigError(f"Cannot read {self.file}: {error.strerror or error}.") from error
        try:
            found = msgspec.json.decode(data, type=_File).projects
            for project in found:
                _parse(project.grants, str(self.file))
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"{self.file}: {error}. Fix the file, or delete it to revoke all grants.") from error
        return found

    def grants(self, folder: str | os.PathLike[str]) -> tuple[Grant, ...]:
        """Return the rules that apply in a folder: all deny rules, and allow rules unless another folder is at its path now."""
        path = os.path.realpath(folder)
        known = next((project for project in self.list() if project.folder == path), None)
        if known is None:
            return ()
        same = known.is_same_folder
        return tuple([grant for grant in known.grants if same or grant.effect == "deny"])

    def rules(self, folder: str | os.PathLike[str]) -> RuleSet:
        """Return these rules as permission rules.

        Raises:
            ConfigError: If the file cannot be read.
        """
        return RuleSet(_parse(self.grants(folder), self.place(folder)))

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return the file with the rules of a folder, for users."""
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
                others = [project for project in self.list() if project.folder != path]
                if grants:
                    others.append(Project(path, read_inode(path), grants, read_birth_time(path)))
                new = _File(tuple(sorted(others, key=lambda project: project.folder)))
                text = msgspec.json.format(msgspec.json.encode(new)).decode() + "\n"
                write_text_atomically(Path(os.path.realpath(self.file)), text, private=True)
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"Cannot write {self.file}: {error.strerror or error}.") from error
        return self.file


def _parse(grants: tuple[Grant, ...], place: str) -> tuple[PermissionRule, ...]:
    return tuple([parse_rule(grant.rule, grant.effect, RuleSource("user", place)) for grant in grants])


_T = TypeVar("_T")


Reach = Literal["project", "everywhere"]
"""Where a saved rule applies: in one project, or in every project."""


REACHES: dict[Reach, str] = {"everywhere": "every project", "project": "this project"}
"""The names of the reaches, for users."""


class RuleFiles(Struct, frozen=True):
    """The files in which the user's rules are saved, for one project.

    Attributes:
        home: The user's folder.
        folder: The project's folder.
    """

    home: UserPaths | None
    folder: str

    def parse(self, reach: Reach, effect: GrantEffect, texts: tuple[str, ...]) -> tuple[PermissionRule, ...]:
        """Return rules as they apply once they are saved.

        Raises:
            ConfigError: If a rule is not valid, or names a file of one project and should apply in every project.
        """
        place = GrantStore(self.home).place(self.folder)
        if reach == "everywhere":
            place = f"{self.home.settings if self.home else ''}: permissions.{effect}"
        rules = tuple([parse_rule(text, effect, RuleSource("user", place)) for text in texts])
        for rule in rules if reach == "everywhere" and effect == "allow" else ():
            if not is_portable(rule):
                name = relative_program(rule) or rule.pattern
                raise ConfigError(
                    f"{rule.text!r} cannot be allowed in every project: {name} is another file in each project. Allow the "
                    "rule in this project, or name the file by its absolute path."
                )
        return rules

    def save(self, reach: Reach, effect: GrantEffect, texts: tuple[str, ...]) -> Path:
        """Save rules, either all or none, and return the file. Blocks.

        Raises:
            ConfigError: If a rule is not valid, or the file cannot be read or written.
        """
        self.parse(reach, effect, texts)
        if reach == "project":
            return GrantStore(self.home).add(self.folder, effect, texts)
        return self._change_settings(effect, lambda known: list(dict.fromkeys([*known, *texts])))

    def reach_of(self, rule: PermissionRule) -> Reach | None:
        """Return where a rule in force applies, or None if it is not one that `save` saves: of a flag, or of the project's settings."""
        if rule.effect == "ask" or self.home is None or rule.origin.kind != "user":
            return None
        if rule.origin.place == GrantStore(self.home).place(self.folder):
            return "project"
        return "everywhere" if rule.origin.place.startswith(f"{self.home.settings}: ") else None

    def file(self, rule: PermissionRule) -> Path | None:
        """Return the file that stores a saved rule."""
        if self.home is None:
            return None
        return GrantStore(self.home).file if self.reach_of(rule) == "project" else self.home.settings

    def remove(self, rule: PermissionRule) -> Path:
        """Remove a saved rule from its file, and return the file. Blocks.

        Raises:
            ConfigError: If it is not a saved rule, or the file cannot be read or written.
        """
        reach = self.reach_of(rule)
        if reach is None or rule.effect == "ask":
            raise ConfigError(f"{rule.text!r} is not a saved rule. Remove it where it is stored: {rule.origin}.")
        if reach == "project":
            return GrantStore(self.home).remove(self.folder, rule.effect, rule.text)
        return self._change_settings(rule.effect, lambda known: [text for text in known if text != rule.text])

    def named(self, rules: Iterable[PermissionRule], name: str) -> PermissionRule:
        """Return the saved rule of a number, counted from 1 in `saved`, or of a text.

        Raises:
            ConfigError: If no saved rule has it, or several have the text.
        """
        saved = self.saved(rules)
        return pick(name, [rule.text for rule in saved], saved)

    def saved(self, rules: Iterable[PermissionRule]) -> list[PermissionRule]:
        """Return the saved ones of some rules: deny before allow, and those for every project before those for this one."""
        known = {(self.reach_of(rule), rule.effect, rule.text): rule for rule in rules}
        found = [rule for reach in REACHES for (each, _, _), rule in known.items() if each == reach]
        return sorted(found, key=lambda rule: ("deny", "ask", "allow").index(rule.effect))

    def same(self, rule: PermissionRule, rules: Iterable[PermissionRule]) -> list[PermissionRule]:
        """Return those of some rules that equal a rule, and apply in the same projects."""
        requested = (self.reach_of(rule), rule.effect, rule.text)
        return [each for each in rules if (self.reach_of(each), each.effect, each.text) == requested]

    def _change_settings(self, effect: GrantEffect, change: Callable[[list[str]], list[str]]) -> Path:
        """Change a list of rules in the user's settings; everything else in the file stays."""
        if self.home is None:
            raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
        file = Path(self.home.settings).resolve()
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(file.parent):  # read and written under one lock: two chats may save at the same time
                text = file.read_text(encoding="utf-8-sig") if file.exists() else "{\n}\n"
                known = list(parse_settings(text, str(file)).values.get(("permissions", effect), ()))
                requested = change(known)
                if requested != known:
                    edited = edit_jsonc(text, ("permissions", effect), msgspec.json.encode(requested).decode())
                    parse_settings(edited, str(file))
                    write_text_atomically(file, edited, private=True)
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except JsonError as error:
            raise ConfigError(f"{file}:{error.line}:{error.column}: {error.reason}") from None
        except OSError as error:
            raise ConfigError(f"Cannot write {file}: {error.strerror or error}.") from error
        return file


def pick(name: str, texts: Sequence[str], values: Sequence[_T]) -> _T:
    """Return the value of a number, counted from 1, or of a text.

    Raises:
        ConfigError: If no value has it, or several have the text.
    """
    name = name.strip()
    if name.isdecimal() and len(name) < 7 and 0 < int(name) <= len(values):
        return values[int(name) - 1]
    found = [value for text, value in zip(texts, values, strict=True) if text == name]
    if len(found) == 1:
        return found[0]
    if found:
        numbers = ", ".join(str(i) for i, text in enumerate(texts, 1) if text == name)
        raise ConfigError(f"{name!r} is saved more than once. Give its number: {numbers}.")
    raise ConfigError(f"No saved rule has the number or text {name!r}. List the rules with `mainspring permissions`.")


def read_inode(path: str) -> int:
    """Return the inode number of a folder; 0 if it does not exist."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def read_birth_time(path: str) -> int:
    """Return the creation time of a folder in nanoseconds; 0 if unknown.

    File systems reuse the inode number of a deleted folder, so the number alone does not identify a folder.
    """
    try:
        birth_time = getattr(os.stat(path), "st_birthtime", 0)
    except OSError:
        return 0
    if birth_time or not sys.platform.startswith("linux"):
        return int(birth_time * 1_000_000_000)
    import ctypes  # takes 10 ms, so only if something was granted

    statx = getattr(ctypes.CDLL(None), "statx", None)
    found = ctypes.create_string_buffer(_STATX_SIZE)
    if statx is None or statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found):
        return 0
    data = found.raw
    if not int.from_bytes(data[_MASK], sys.byteorder) & _STATX_BTIME:
        return 0
    seconds = int.from_bytes(data[_SECONDS], sys.byteorder, signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(data[_NANOSECONDS], sys.byteorder)
