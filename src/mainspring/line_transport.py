"""Lines over pipes: one reader with a limit on the length of a line, and one writer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

WriteFunction = Callable[[bytes], Awaitable[None]]
"""Writes bytes, and waits while the other side does not read."""


class LineTooLongError(Exception):
    """A line was too long and is skipped; the message contains the limit."""


class LineReader:
    """Reads lines, which end with LF or CRLF; the end of the last line may be missing. A cancelled read loses nothing.

    Args:
        read: Function that reads available bytes; empty at the end.
        max_line_bytes: Maximum number of bytes of a line. The memory of the reader is limited to that and one read.
        split_long_lines: Whether to return a line that is too long in pieces instead of skipping it.
    """

    def __init__(
        self, read: Callable[[], Awaitable[bytes]], max_line_bytes: int, *, split_long_lines: bool = False
    ) -> None:
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
            if end < 0 and self._is_at_end:
                if not self._buffer:
                    return None
                end = len(self._buffer)
            if end >= 0:
                line, was_skipping = bytes(self._buffer[:end]), self._is_skipping
                self._drop(end + 1)
                if was_skipping:
                    continue
                if len(line) > self._max_line_bytes and not self._splits:
                    raise self._too_long()
                return line.removesuffix(b"\r")
            if self._is_skipping:
                self._drop(len(self._buffer), skip=True)
            elif len(self._buffer) > self._max_line_bytes:
                piece = bytes(self._buffer) if self._splits else None
                self._drop(len(self._buffer), skip=piece is None)
                if piece is None:
                    raise self._too_long()
                return piece
            self._searched = len(self._buffer)
            chunk = await self._read()
            self._is_at_end = not chunk
            self._buffer += chunk

    def _drop(self, size: int, *, skip: bool = False) -> None:
        """Remove the start of the buffer. ``skip`` also skips the rest of its line."""
        del self._buffer[:size]
        self._searched, self._is_skipping = 0, skip

    def _too_long(self) -> LineTooLongError:
        return LineTooLongError(f"A line of more than {self._max_line_bytes} bytes was skipped. Send shorter lines.")

    def __aiter__(self) -> LineReader:
        return self

    async def __anext__(self) -> bytes:
        line = await self.line()
        if line is None:
            raise StopAsyncIteration
        return line


class LineTransport(LineReader):
    """Reads and writes messages, one on each line.

    Args:
        read: Function that reads available bytes; empty at the end.
        write: Function that writes bytes, and waits while the other side does not read.
        max_line_bytes: Maximum number of bytes of a line to read.
        peer: Name of the other side in errors.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes]],
        write: WriteFunction,
        max_line_bytes: int,
        *,
        peer: str = "client",
    ) -> None:
        super().__init__(read, max_line_bytes)
        self._write = write
        self._peer = peer
        self._sending = asyncio.Lock()
        self._is_closed = False

    async def line(self) -> bytes | None:
        """Return the next line that is not blank, without its end, or ``None`` at the end.

        Raises:
            LineTooLongError: If the line is too long, even if its end is not read yet. The next call returns the line after it.
        """
        while (line := await super().line()) is not None and not line.strip():
            pass
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
