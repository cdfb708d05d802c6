"""Lines over pipes: one reader with a limit on the length of a line, and one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainspring.lazy import lazy_re

ReadFunction = Callable[[], Awaitable[bytes]]
"""Reads available bytes; empty at the end."""
WriteFunction = Callable[[bytes], Awaitable[None]]
"""Writes bytes, and waits while the other side does not read."""


_ESCAPES = lazy_re(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
"""Escapes of a JSON text: a backslash, a surrogate pair, and, as a group, half a pair."""


class LineTooLongError(Exception):
    """A line was too long and is skipped; the message contains the limit."""


class LineReader:
    """Reads lines, which end with LF or CRLF; the end of the last line may be missing. A cancelled read loses nothing.

    Args:
        read: Function that reads bytes.
        max_line_bytes: Maximum number of bytes of a line. The memory of the reader is limited to that and one read.
        split_long_lines: Whether to return a line that is too long in pieces instead of skipping it.
    """

    def __init__(self, read: ReadFunction, max_line_bytes: int, *, split_long_lines: bool = False) -> None:
        self._read = read
        self._max_line_bytes = max_line_bytes
        self._splits = split_long_lines
        self._buffer = bytearray()
        self._searched = 0
        self._is_skipping = False
        self._is_at_end = False

    async def line(self) -> bytes | None:
        """Return the next line without its end, or ``None`` at the end.

        Raises:
            LineTooLongError: If the line is too long, even if its end is not read yet. The next call returns the line after it.
        """
        while True:
            end = self._buffer.find(b"\n", self._searched)
            is_complete = end >= 0
            if is_complete or self._is_at_end or len(self._buffer) > self._max_line_bytes:
                end = end if is_complete else len(self._buffer)
                was_skipping, is_long = self._is_skipping, end > self._max_line_bytes and not self._splits
                line = b"" if was_skipping or is_long else bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched, self._is_skipping = 0, not is_complete and (was_skipping or is_long)
                if is_long and not was_skipping:
                    raise LineTooLongError(
                        f"A line of more than {self._max_line_bytes} bytes was skipped. Send shorter lines."
                    )
                if line or (is_complete and not was_skipping):
                    return line.removesuffix(b"\r")
                if is_complete:
                    continue
                if self._is_at_end:
                    return None
            self._searched = len(self._buffer)
            chunk = await self._read()
            self._is_at_end = not chunk
            self._buffer += chunk


class LineTransport(LineReader):
    """Reads and writes messages, one on each line.

    Args:
        read: Function that reads bytes.
        write: Function that writes bytes.
        max_line_bytes: Maximum number of bytes of a line to read.
        peer: Name of the other side in errors.
    """

    def __init__(self, read: ReadFunction, write: WriteFunction, max_line_bytes: int, *, peer: str = "client") -> None:
        super().__init__(read, max_line_bytes)
        self._write = write
        self._peer = peer
        self._sending = asyncio.Lock()
        self._is_closed = False

    async def line(self) -> bytes | None:
        """Return the next line that is not blank, without its end, or ``None`` at the end.

        Half a surrogate pair, which JavaScript writes for a text that it cut within a character, is replaced: decoders reject the line.

        Raises:
            LineTooLongError: If the line is too long, even if its end is not read yet. The next call returns the line after it.
        """
        while (line := await super().line()) is not None and not line.strip():
            pass
        if line is not None and (b"\\ud" in line or b"\\uD" in line):
            return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
        return line

    async def send(self, line: bytes) -> None:
        """Write a line. Waits while the other side does not read.

        Raises:
            ConnectionError: If the other side closed the connection.
        """
        async with self._sending:
            if self._is_closed:
                raise BrokenPipeError(f"The {self._peer} closed the connection.")
            try:
                await self._write(line + b"\n")
            except (OSError, ValueError) as error:
                self._is_closed = True
                raise BrokenPipeError(f"The {self._peer} closed the connection: {error}.") from error


def stream_writer(writer: asyncio.StreamWriter) -> WriteFunction:
    """Return the function that writes to a stream."""

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return write
