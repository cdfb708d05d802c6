"""What a server writes beside the protocol: its last lines in memory, and a file that does not grow without end."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from pathlib import Path

from mainspring.redact import redact

KEPT = 200
"""Lines in memory."""
LONGEST = 2_000
"""Characters of one."""
LARGEST_FILE = 1 << 20
"""Bytes of the file; a full one becomes ``NAME.log.1``, and the one before that is gone."""

OURS = "[mainspring]"
"""How lines begin that we add."""

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b.|[\x00-\x08\x0b-\x1f\x7f]")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


def log_file(home: Path, server: str) -> Path:
    """Where the lines of a server are kept, in the user's folder."""
    return home / "mcp" / "logs" / f"{_UNFIT.sub('_', server)[:100].lstrip('.') or 'server'}.log"


class ServerLog:
    """The lines of one server, without secrets and control characters.

    Args:
        file: Where they are kept too; nowhere if ``None``.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._writing = False
        self._waiting: list[str] = []

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines."""
        return tuple(self._lines)

    def last(self, count: int = 5) -> str:
        """The last lines that say something, for an error."""
        return "\n".join([line for line in self._lines if line.strip() and not line.startswith(OURS)][-count:])

    def clear(self) -> None:
        """Begin anew in memory."""
        self._lines.clear()

    async def add(self, line: str) -> None:
        """Keep a line. What cannot be written to the file is only kept in memory."""
        text = redact(_CONTROLS.sub("", line.rstrip())[:LONGEST])
        self._lines.append(text)
        if self.file is None:
            return
        self._waiting.append(text)
        if self._writing:  # whoever writes takes this along
            return
        self._writing = True
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await asyncio.to_thread(_append, self.file, "".join([f"{text}\n" for text in batch]))
        finally:
            self._writing = False


def _append(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size > LARGEST_FILE:
            os.replace(file, file.with_name(f"{file.name}.1"))
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError:
        pass
