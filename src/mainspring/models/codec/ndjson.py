"""JSON, one object a line, out of bytes that arrive in any pieces."""

from __future__ import annotations

StreamFrame = tuple[str, bytes]
"""An empty name, and the line."""


class NdjsonParser:
    """Cuts a byte stream into lines; wherever the bytes are split, the lines are the same.

    A line ends with LF, or CRLF, and with nothing else. Blank lines are left out.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[bytes] = []  # pieces of a line that is not complete yet

    def feed(self, data: bytes) -> list[StreamFrame]:
        """Take more bytes; returns the lines that they complete."""
        if b"\n" not in data:
            self._pending.append(data)
            return []
        if self._pending:
            self._pending.append(data)
            data = b"".join(self._pending)
            self._pending.clear()
        *lines, rest = data.split(b"\n")
        if rest:
            self._pending.append(rest)
        return [("", line) for line in lines if line and not line.isspace()]

    def finish(self) -> list[StreamFrame]:
        """The line that the end of the stream left without its end, if there is one."""
        rest = b"".join(self._pending)
        self._pending.clear()
        return [("", rest)] if rest and not rest.isspace() else []
