"""The file of an event log: append-only, small, and unable to disturb a run."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from mainspring.sessions.paths import allow_blocking_writes, rotated_log_path
from mainspring.state_files import make_private_folder

logger = logging.getLogger("mainspring.sessions")
logger.addHandler(logging.NullHandler())

MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a log. Then it replaces the older log. Each has room for about 15,000 calls."""

_MAX_QUEUED = 2000  # maximum number of lines that wait for a slow disk; more are only counted


class EventLogFile:
    """Writes lines. Errors are reported once to the program's log, and the run continues.

    Writing a line takes microseconds. Slower work (creating or rotating the file) happens in `settle`, in a thread. Earlier lines wait
    in memory.

    Args:
        path: The file. Created with access for its owner only.
        limit: Bytes at which it is rotated.
    """

    def __init__(self, path: Path, limit: int = MAX_BYTES) -> None:
        self.path = path
        self.lost = 0
        self._limit = limit
        self._fd: int | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._torn = False
        self._busy = False
        self._warned = False

    def __del__(self) -> None:
        self._close()

    def put(self, line: bytes) -> None:
        """Append a line, given without its end."""
        if len(self._waiting) >= _MAX_QUEUED:
            self.lost += 1
            return
        self._waiting.append(line)
        if self._fd is not None and not self._busy:
            self._write()

    async def settle(self, *, make: bool = False) -> None:
        """Rotate the file if it is too large.

        Args:
            make: Whether to create a missing file.
        """
        due = make if self._fd is None else self._size >= self._limit
        if self._busy or not due:
            return
        self._busy = True
        try:
            await asyncio.to_thread(self._run_warmup)
        finally:
            self._busy = False
        self._write()

    def close(self) -> None:
        """Write waiting lines and close the file. Blocks."""
        if self._fd is not None:
            self._write()
        self._close()

    def _run_warmup(self) -> None:
        try:
            if self._fd is not None:
                self._close()
                os.replace(self.path, rotated_log_path(self.path))
            make_private_folder(self.path.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._fd = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
            self._torn = self._size > 0 and not _ends_with_newline(self.path)
            allow_blocking_writes(self._fd)
        except OSError as error:
            self._warn(error)

    def _write(self) -> None:
        """Write all waiting lines at once. Lines that do not fit on a full disk count as lost."""
        if self._fd is None or not self._waiting:
            return
        lines, self._waiting = self._waiting, []
        data = b"%s%s\n" % (b"\n" if self._torn else b"", b"\n".join(lines))
        written = 0
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            self._warn(error)
        self._size += written
        self._torn = written < len(data) and (written > 0 or self._torn)
        if written < len(data):
            self.lost += len(lines)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("cannot log events to %s (%s); the run continues", self.path, error.strerror or error)

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
