"""What was typed before, kept per project: private, bounded, safe for several sessions at once."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from mainspring.redaction import redact

MAX_ENTRIES = 1_000
MAX_ENTRY_BYTES = 64 << 10
"""Longer entries are not kept on disk."""

_MOST_FILE = 2 << 20


class HistoryFile:
    """A file of entries, one JSON string a line, oldest first.

    Each entry is one write to the end of the file, so that sessions side by side lose nothing; what is too much is dropped
    by an atomic replacement when a session begins. A lock beside the file keeps the two apart.

    Args:
        path: The file. Its folder is made when the first entry is added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[str]:
        """The entries, oldest first; none where the file cannot be read. Lines that are damaged are left out."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _MOST_FILE))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        return list(_entries(lines))[-MAX_ENTRIES:]

    def add(self, text: str) -> bool:
        """Add an entry; whether it was kept."""
        line = json.dumps(redact(text)).encode() + b"\n"
        if not text.strip() or len(line) > MAX_ENTRY_BYTES:
            return False
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._locked():
                handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.fchmod(handle, 0o600)
                    os.write(handle, line)
                finally:
                    os.close(handle)
        except OSError:
            return False  # a history that cannot be kept is no reason to stop
        return True

    def trim(self) -> None:
        """Drop the oldest entries where there are many more than are kept."""
        try:
            with self._locked():
                if self._path.stat().st_size > _MOST_FILE // 2 or self._lines() > 2 * MAX_ENTRIES:
                    self._replace(self.read())
        except OSError:
            return

    def _lines(self) -> int:
        return self._path.read_bytes().count(b"\n")

    def _replace(self, entries: list[str]) -> None:
        with NamedTemporaryFile("wb", dir=self._path.parent, prefix=".history-", delete=False) as file:
            file.writelines(json.dumps(text).encode() + b"\n" for text in entries)
        os.replace(file.name, self._path)

    @contextmanager
    def _locked(self) -> Generator[None]:
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def open_history(home: Path, cwd: Path) -> HistoryFile:
    """The history of a project.

    Args:
        home: The user's folder, as ``~/.agent``.
        cwd: The project.
    """
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in cwd.name)[:40]
    return HistoryFile(home / "history" / f"{name}-{sha256(str(cwd).encode()).hexdigest()[:12]}.jsonl")


def _entries(lines: Iterable[bytes]) -> Iterable[str]:
    last = None
    for line in lines:
        try:
            entry = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(entry, str) and entry and entry != last:
            last = entry
            yield entry
