"""A client in memory for everything that reads and writes lines."""

import asyncio

from mainspring.app.servers.stdio import MAX_LINE_BYTES
from mainspring.line_transport import LineTransport


class MemoryLines:
    """The other side of a `LineTransport`, without a pipe.

    Args:
        max_line_bytes: Maximum number of bytes of a line to read.
        capacity: Number of lines that can be written before the writer waits; 0 for any number.

    Attributes:
        wire: The transport.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES, capacity: int = 0) -> None:
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._output: asyncio.Queue[bytes] = asyncio.Queue(capacity)
        self._is_closed = False
        self.wire = LineTransport(self._input.get, self._write, max_line_bytes)

    async def _write(self, data: bytes) -> None:
        await self._output.put(data)
        if self._is_closed:
            raise ConnectionResetError("Connection lost")

    def feed(self, *chunks: bytes) -> None:
        """Let the transport read these bytes, each with one read; an empty chunk is the end."""
        for chunk in chunks:
            self._input.put_nowait(chunk)

    def send_line(self, line: bytes) -> None:
        """Let the transport read a line."""
        self.feed(line + b"\n")

    async def written(self) -> bytes:
        """Return the bytes of one write, or an empty value after `end_output`."""
        return await self._output.get()

    def end_output(self) -> None:
        """Let `written` return an empty value, because nothing writes any more."""
        self._output.put_nowait(b"")

    def close(self) -> None:
        """Stop reading: the waiting write and all further ones fail."""
        self._is_closed = True
        while not self._output.empty():
            self._output.get_nowait()
