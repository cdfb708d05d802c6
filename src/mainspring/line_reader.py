"""Read lines from a pipe, with a limit on their length."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class LineTooLongError(Exception):
    """A line was too long and was skipped; the message contains the limit."""


class LineReader:
    """Reads lines.

    Args:
        chunk: Function that reads available bytes; empty at the end.
        max_line_bytes: Maximum number of bytes of a line.
    """

    def __init__(self, chunk: Callable[[], Awaitable[bytes]], max_line_bytes: int) -> None:
        self._chunk = chunk
        self._max_line_bytes = max_line_bytes
        self._buffer = bytearray()
        self._looked = 0
        self._ended = False

    async def line(self) -> bytes | None:
        """Return the next line that is not empty, without its end, or ``None`` at the end.

        Raises:
            LineTooLongError: If the line was too long. The next call returns the line after it.
        """
        while True:
            found = await self._line()
            if found is None or found.strip():
                return found

    async def _line(self) -> bytes | None:
        long = False
        while True:
            end = self._buffer.find(b"\n", self._looked)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._looked = 0
                if long or len(line) > self._max_line_bytes:
                    raise LineTooLongError(
                        f"A line of more than {self._max_line_bytes} bytes was skipped. Send shorter lines."
                    )
                return line
            if long or len(self._buffer) > self._max_line_bytes:
                long = True
                self._buffer.clear()
            self._looked = len(self._buffer)
            if self._ended or not (came := await self._chunk()):
                self._ended = True
                line, self._looked = bytes(self._buffer), 0
                self._buffer.clear()
                return line or None
            self._buffer += came
