"""Records of running commands in the user's folder, so that their changes are undone even if Mainspring is killed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

Mark = tuple[object, ...]


class JournalRecord(Struct, kw_only=True):
    """The guarded files before a command.

    Attributes:
        roots: Folders that commands may change.
        since: Time in nanoseconds at which the command started.
        restores: Whether changes are restored.
        before: The mark of each guarded file and folder.
        copies: The mark of each copied file, the path of the copy, and its mark.
        path: The file of the record.
        beat: Time in nanoseconds at which Mainspring was last known to run.
        is_alive: Whether the process that wrote the record is running.
    """

    roots: tuple[str, ...]
    since: int
    restores: bool
    before: dict[str, Mark]
    copies: dict[str, tuple[Mark, str, Mark | None]]
    path: str = ""
    beat: int = 0
    is_alive: bool = True


class Journal:
    """The record of one environment. It exists while a command runs.

    Args:
        folder: The folder of all records; empty for none. Commands must not be able to change it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made_parent = False
        self._path = os.path.join(folder, f"{os.getpid()}-{secrets.token_hex(8)}.json") if folder else ""

    def write(self, record: JournalRecord) -> None:
        """Write the record. Nothing happens if the folder cannot be created. Blocking."""
        if not self._path:
            return
        own = {"pid": os.getpid(), "started": _start_time(os.getpid())}
        text = json.dumps(
            {**own, "roots": record.roots, "since": record.since, "restores": record.restores, "before": record.before,
             "copies": record.copies}
        )  # fmt: skip
        with suppress(OSError):
            self._made_parent = self._made_parent or not os.path.exists(os.path.dirname(self._folder))
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(f"{self._path}.new", "w", encoding="ascii", opener=_private_opener) as file:
                file.write(text)
            os.replace(f"{self._path}.new", self._path)

    def touch(self) -> None:
        """Record that Mainspring is running."""
        with suppress(OSError):
            os.utime(self._path)

    def remove(self) -> None:
        """Remove the record, and the folders that were created for it if they are empty. Blocking."""
        with suppress(OSError):
            os.unlink(self._path)
            os.rmdir(self._folder)
            if self._made_parent:
                os.rmdir(os.path.dirname(self._folder))

    def read_others(self, roots: tuple[str, ...]) -> Iterator[JournalRecord]:
        """Yield the records of other environments on one of the folders. Blocking."""
        names: list[str] = []
        with suppress(OSError):
            names = sorted(os.listdir(self._folder or "/dev/null"))
        for name in names:
            path = os.path.join(self._folder, name)
            if name.endswith(".json") and path != self._path:
                record = _read(path)
                if record is not None and set(record.roots) & set(roots):
                    yield record


def _read(path: str) -> JournalRecord | None:
    try:
        with open(path, encoding="ascii") as file:
            data = cast("dict[str, Any]", json.load(file))
        beat = os.stat(path).st_mtime_ns
        return JournalRecord(
            roots=tuple(data["roots"]),
            since=data["since"],
            restores=data["restores"],
            before={file: tuple(mark) for file, mark in data["before"].items()},
            copies={
                file: (tuple(mark), copy, tuple(own) if own else None)
                for file, (mark, copy, own) in data["copies"].items()
            },
            path=path,
            beat=beat,
            is_alive=_start_time(data["pid"]) == data["started"] != 0,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _private_opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _start_time(pid: int) -> int:
    """Return the start time of a process, in units of the system; 0 if it does not run."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except FileNotFoundError:
        if os.path.exists("/proc/self/stat"):
            return 0
    except (OSError, ValueError, IndexError):
        return 0
    try:
        os.kill(pid, 0)
    except OSError:
        return 0
    return 1
