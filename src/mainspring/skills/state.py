"""Stored state of skills: where they were installed from, whether they are enabled, and when they were used."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import read_regular_file, write_text_atomically

STATE_FILE_NAME = ".registry.json"
"""Its name in the user's folder for skills. Hidden, so that it is not a skill."""

_VERSION = 1
_MAX_USED = 1_000


class InstallOrigin(Struct, frozen=True, kw_only=True, rename="camel"):
    """The source of an installed skill.

    Attributes:
        url: The repository, or the copied folder. Without a password.
        ref: The requested branch, tag, or commit. Empty for the default branch.
        path: Its folder in there. Empty for the root.
        commit: The installed commit. Empty for a folder.
        digest: A hash over all of its files as installed.
        installed: When it was first installed.
        updated: When the files were last replaced.
    """

    url: str
    ref: str = ""
    path: str = ""
    commit: str = ""
    digest: str = ""
    installed: datetime
    updated: datetime


class UsageRecord(Struct, frozen=True, rename="camel"):
    """How often a skill was used, and when last."""

    count: int
    last: datetime


class SkillState(Struct, frozen=True, kw_only=True, rename="camel"):
    """Stored state of one skill.

    Attributes:
        origin: Where it was installed from. ``None`` if it was not installed by Mainspring.
        enabled: Whether the user enabled or disabled it. ``None`` for the skill's default.
        usage: How often and when it was used.
    """

    origin: InstallOrigin | None = None
    enabled: bool | None = None
    usage: UsageRecord | None = None


class _File(Struct, frozen=True, kw_only=True):
    version: int = _VERSION
    skills: dict[str, SkillState] = {}


class SkillStateFile:
    """The registry in a folder. All methods block.

    Args:
        folder: The user's folder for skills, created when needed. ``None`` keeps the state in memory.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._entries: dict[str, SkillState] = {}

    def entries(self) -> dict[str, SkillState]:
        """Return all entries by name.

        Raises:
            ConfigError: If the file is damaged or of a newer version.
        """
        if self._folder is None:
            return dict(self._entries)
        file = self._folder / STATE_FILE_NAME
        try:
            data = read_regular_file(file)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            if not os.access(self._folder, os.X_OK):  # The settings report the folder.
                return {}
            raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
        try:
            read = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{file}: {error}. Fix the file, or delete it to reset what was installed and used."
            ) from error
        if read.version > _VERSION:
            raise ConfigError(f"{file} was written by a newer version of Mainspring. Update Mainspring to use it.")
        return dict(read.skills)

    def last_used(self) -> dict[str, float]:
        """Return when each skill was last used, by name, in seconds since 1970. Empty if the file is damaged: it is only a hint."""
        try:
            entries = self.entries()
        except ConfigError:
            return {}
        return {name: entry.usage.last.timestamp() for name, entry in entries.items() if entry.usage is not None}

    def enabled_and_disabled(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the enabled and of the disabled skills.

        Raises:
            ConfigError: If the file is damaged.
        """
        entries = sorted(self.entries().items())
        on = tuple([name for name, entry in entries if entry.enabled is True])
        return on, tuple([name for name, entry in entries if entry.enabled is False])

    def record_use(self, name: str, when: datetime | None = None) -> None:
        """Record that a skill was used (default: now). Write errors are ignored: it is only a hint."""
        moment = (when or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)

        def noted(old: SkillState) -> SkillState:
            before = old.usage
            return replace(
                old,
                usage=UsageRecord(1, moment)
                if before is None
                else UsageRecord(before.count + 1, max(moment, before.last)),
            )

        with suppress(ConfigError):
            self._change(name, noted)

    def set_enabled(self, name: str, on: bool | None) -> None:
        """Enable or disable a skill. ``None`` restores the skill's default.

        Raises:
            ConfigError: If it cannot be stored.
        """
        self._change(name, lambda old: replace(old, enabled=on))

    def record(self, name: str, origin: InstallOrigin) -> None:
        """Record the source of a skill.

        Raises:
            ConfigError: If it cannot be stored.
        """
        self._change(name, lambda old: replace(old, origin=origin))

    def forget(self, name: str) -> None:
        """Delete the state of a skill.

        Raises:
            ConfigError: If it cannot be stored.
        """
        self._change(name, lambda old: SkillState())

    def _change(self, name: str, edit: Callable[[SkillState], SkillState]) -> None:
        if self._folder is None:
            self._entries = _update_entry(self._entries, name, edit)
            return
        file = self._folder / STATE_FILE_NAME
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(self._folder):
                old = self.entries()
                new = _update_entry(old, name, edit)
                if new != old:
                    text = msgspec.json.format(msgspec.json.encode(_File(skills=dict(sorted(new.items()))))).decode()
                    write_text_atomically(Path(os.path.realpath(file)), f"{text}\n")
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written: {error.strerror or error}") from error


def _update_entry(
    entries: dict[str, SkillState], name: str, edit: Callable[[SkillState], SkillState]
) -> dict[str, SkillState]:
    """Return the entries with one changed. Drops empty ones, and the oldest usage if there are too many."""
    new = {**entries, name: edit(entries.get(name, SkillState()))}
    times = sorted((e.usage.last, n) for n, e in new.items() if e.usage is not None)
    for _, stale in times[: max(len(times) - _MAX_USED, 0)]:
        new[stale] = replace(new[stale], usage=None)
    return {n: e for n, e in new.items() if e != SkillState()}
