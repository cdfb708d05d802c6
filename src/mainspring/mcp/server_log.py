"""Log of a server: the last lines in memory, and a file with a size limit."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from pathlib import Path

from mainspring.loop.shared_task import SharedTask
from mainspring.redaction import redact_environment

MAX_LOG_LINES = 200
"""Maximum number of lines in memory."""
_MAX_LINE_CHARS = 2_000
"""Maximum number of characters per line."""
_MAX_FILE_BYTES = 1 << 20
"""Maximum size of the file; a full file becomes ``NAME.log.1``, which replaces the previous one."""

BURST_LINES = 2_000
"""Number of consecutive lines that are always written to the file."""
LINES_PER_SECOND = 100
"""Maximum lines per second in the file; only the number of further lines is recorded."""

NOTE_PREFIX = "[mainspring]"
"""Prefix of lines that this program adds."""

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b.|[\x00-\x08\x0b-\x1f\x7f]")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


def server_log_path(home: Path, server: str) -> Path:
    """Return the path of a server's log in the user's folder."""
    return home / "mcp" / "logs" / f"{_UNFIT.sub('_', server)[:100].lstrip('.') or 'server'}.log"


class ServerLog:
    """Log of a server, without secrets and control characters.

    Adding a line never waits: a server with endless output must not block its responses.

    Args:
        file: Log file; ``None`` logs only in memory.

    Attributes:
        dropped_lines: Number of lines that came too fast for the file.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.dropped_lines = 0
        self._lines: deque[str] = deque(maxlen=MAX_LOG_LINES)  # unprocessed: most lines are never read
        self._waiting: list[str] = []
        self._writer = SharedTask(self._write_all)
        self._unreported = 0
        self._allowance = float(BURST_LINES)
        self._at = time.monotonic()

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines."""
        return tuple([_sanitize_line(line) for line in self._lines])

    def tail(self, count: int = 5) -> str:
        """Return the last non-empty lines, for an error."""
        return "\n".join([line for line in self.lines if line.strip() and not line.startswith(NOTE_PREFIX)][-count:])

    def clear(self) -> None:
        """Clear the lines in memory."""
        self._lines.clear()

    def add(self, line: str) -> None:
        """Add a line of the server.

        If the file cannot be written, the line is only stored in memory.
        """
        text = line.rstrip()[:_MAX_LINE_CHARS]
        self._lines.append(text)
        if self.file is None:
            return
        if not self._is_within_rate():
            self.dropped_lines += 1
            self._unreported += 1
            return
        self._write(text)

    def note(self, text: str) -> None:
        """Add a line of this program; such lines are never dropped."""
        line = f"{NOTE_PREFIX} {text}"
        self._lines.append(line)
        if self.file is not None:
            self._write(line)

    async def flush(self) -> None:
        """Wait until all lines are written to the file."""
        if self._unreported:
            self._write()
        if (writing := self._writer.current) is not None:
            await asyncio.wait({writing})

    def _is_within_rate(self) -> bool:
        now = time.monotonic()
        self._allowance = min(BURST_LINES, self._allowance + (now - self._at) * LINES_PER_SECOND)
        self._at = now
        if self._allowance < 1 or len(self._waiting) >= BURST_LINES:
            return False
        self._allowance -= 1
        return True

    def _write(self, *lines: str) -> None:
        if self._unreported:
            self._waiting.append(f"{NOTE_PREFIX} Skipped {self._unreported} lines that came too fast")
            self._unreported = 0
        self._waiting.extend(lines)
        self._writer.start(repeat=True)

    async def _write_all(self) -> None:
        while self._waiting and self.file is not None:
            batch, self._waiting = self._waiting, []
            await asyncio.to_thread(_append, self.file, batch)


def _sanitize_line(line: str) -> str:
    return redact_environment(_CONTROLS.sub("", line))


def _append(file: Path, lines: list[str]) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > _MAX_FILE_BYTES:
            os.replace(file, file.with_name(f"{file.name}.1"))
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as stream:
            stream.write("".join([f"{_sanitize_line(line)}\n" for line in lines]))
    except OSError:
        pass
