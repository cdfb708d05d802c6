"""What is remembered of skills from run to run: where they were installed from, whether they are on, and when they were used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.state_files import write_text_atomically

STATE_FILE_NAME = ".registry.json"
"""Its name in the user's folder of skills; hidden, so that it is no skill."""

VERSION = 1
_MOST_USED = 1_000


class InstallOrigin(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where an installed skill comes from.

    Attributes:
        url: The repository, or the folder it was copied from; without a password.
        ref: The branch, tag or commit that was asked for; empty for the repository's own branch.
        path: Its folder in there; empty for the top.
        commit: The commit that was taken; empty for a folder.
        digest: A hash over all of its files as they were installed.
        installed: When it was installed first.
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
    """What is remembered of one skill.

    Attributes:
        origin: Where it was installed from; ``None`` for one that somebody put there.
        enabled: Whether the user switched it on or off; ``None`` leaves it as the skill says.
        usage: How often and when it was used.
    """

    origin: InstallOrigin | None = None
    enabled: bool | None = None
    usage: UsageRecord | None = None


class _File(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    skills: dict[str, SkillState] = {}


class SkillStateFile:
    """The registry in a folder. Every method blocks.

    Args:
        folder: The user's folder of skills, made when something is to be kept; ``None`` remembers for this object's life only.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._kept: dict[str, SkillState] = {}

    def entries(self) -> dict[str, SkillState]:
        """Everything that is remembered, by name.

        Raises:
            ConfigError: If the file is broken, or of a newer program.
        """
        if self._folder is None:
            return dict(self._kept)
        file = self._folder / STATE_FILE_NAME
        try:
            data = file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
        try:
            read = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{file}: {error}; mend it, or remove it to forget what was installed and used"
            ) from error
        if read.version > VERSION:
            raise ConfigError(f"{file} was written by a newer version of Mainspring; update Mainspring to use it")
        return dict(read.skills)

    def last_used(self) -> dict[str, float]:
        """When each skill was used last, by name, in seconds since 1970; empty where the file is broken: it is a hint alone."""
        try:
            entries = self.entries()
        except ConfigError:
            return {}
        return {name: entry.usage.last.timestamp() for name, entry in entries.items() if entry.usage is not None}

    def enabled_and_disabled(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the skills that are switched on, and of those that are switched off.

        Raises:
            ConfigError: If the file is broken.
        """
        entries = sorted(self.entries().items())
        on = tuple([name for name, entry in entries if entry.enabled is True])
        return on, tuple([name for name, entry in entries if entry.enabled is False])

    def record_use(self, name: str, when: datetime | None = None) -> None:
        """Note that a skill was used, now unless said otherwise. What cannot be kept is lost: it is a hint alone."""
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

    def switch(self, name: str, on: bool | None) -> None:
        """Switch a skill on or off; ``None`` leaves it to the skill again.

        Raises:
            ConfigError: If it cannot be kept.
        """
        self._change(name, lambda old: replace(old, enabled=on))

    def record(self, name: str, origin: InstallOrigin) -> None:
        """Note where a skill was installed from.

        Raises:
            ConfigError: If it cannot be kept.
        """
        self._change(name, lambda old: replace(old, origin=origin))

    def forget(self, name: str) -> None:
        """Forget everything about a skill.

        Raises:
            ConfigError: If it cannot be kept.
        """
        self._change(name, lambda old: SkillState())

    def _change(self, name: str, edit: Callable[[SkillState], SkillState]) -> None:
        if self._folder is None:
            self._kept = _update_entry(self._kept, name, edit)
            return
        file = self._folder / STATE_FILE_NAME
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_directory(self._folder):
                old = self.entries()
                new = _update_entry(old, name, edit)
                if new != old:
                    text = msgspec.json.format(msgspec.json.encode(_File(skills=dict(sorted(new.items()))))).decode()
                    write_text_atomically(file, f"{text}\n")
        except LockTimeoutError as error:
            raise ConfigError(str(error)) from None
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written: {error.strerror or error}") from error


def _update_entry(
    entries: dict[str, SkillState], name: str, edit: Callable[[SkillState], SkillState]
) -> dict[str, SkillState]:
    """The entries with one changed; empty ones, and usage of the longest ago where there is too much of it, are dropped."""
    new = {**entries, name: edit(entries.get(name, SkillState()))}
    times = sorted((e.usage.last, n) for n, e in new.items() if e.usage is not None)
    for _, stale in times[: max(len(times) - _MOST_USED, 0)]:
        new[stale] = replace(new[stale], usage=None)
    return {n: e for n, e in new.items() if e != SkillState()}
