"""Cut a stream of bytes into frames: server-sent events, and JSON lines."""

from __future__ import annotations

Frame = tuple[str, bytes]
"""Name of the event (empty if missing) and its data."""


_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Splits a byte stream into events, independent of the chunk boundaries.

    Lines end only with LF, CRLF, or CR: the line separators of Unicode are ordinary text here. Comments, ``id``, and ``retry``
    are skipped; several ``data`` lines are joined with LF. An event without data is skipped.

    Attributes:
        pending: Chunks of an incomplete event, with normalized line ends.
    """

    __slots__ = ("_after_cr", "_started", "pending")

    def __init__(self) -> None:
        self.pending: list[bytes] = []
        self._after_cr = False  # the last byte was CR: an LF directly after it belongs to it
        self._started = False

    def feed(self, data: bytes) -> list[Frame]:
        """Parse more bytes.

        Returns:
            The completed events, in order.
        """
        pending = self.pending
        if b"\r" in data or self._after_cr:
            if data[:6] == b"data: " and data.find(b"\r") == len(data) - 4 and not pending and not self._after_cr:
                if data[-4:] == b"\r\n\r\n" and data.find(b"\n") == len(data) - 3:
                    self._started = True
                    return [("", data[6:-4])]  # An event with one line, from a host that ends lines with CRLF.
            data = self._without_cr(data)
        elif not pending and data[:6] == b"data: " and data.find(b"\n") == len(data) - 2 and data[-1] == 10:
            self._started = True
            return [("", data[6:-2])]  # An event with one line, the common case.
        elif not pending and data[:7] == b"event: " and data[-2:] == b"\n\n":
            lines = data.split(b"\n", 4)
            if len(lines) == 4 and lines[1][:6] == b"data: ":
                self._started = True
                return [(lines[0][7:].decode("utf-8", "replace"), lines[1][6:])]  # The same with a name.
        if b"\n\n" not in data and not (data[:1] == b"\n" and pending and pending[-1][-1] == 10):
            if data:
                pending.append(data)  # Joined once at the end of the block: an event may arrive in a million chunks.
            return []
        if pending:
            pending.append(data)
            data = b"".join(pending)
            pending.clear()
        if not self._started:
            self._started = True
            data = data.removeprefix(_BOM)
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        if rest:
            pending.append(rest)
        return _parse_blocks(blocks)

    def _without_cr(self, data: bytes) -> bytes:
        """Return the bytes with LF as the only line end."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if data[-1:] == b"\r":
            self._after_cr = True
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def finish(self) -> list[Frame]:
        """Return the last event if its blank line is missing."""
        rest = b"".join(self.pending)
        self.pending.clear()
        return _parse_blocks([rest if self._started else rest.removeprefix(_BOM)])


def _parse_blocks(blocks: list[bytes]) -> list[Frame]:
    frames: list[Frame] = []
    for block in blocks:
        if block[:6] == b"data: " and b"\n" not in block:
            frames.append(("", block[6:]))
        elif block:
            frame = _parse_simple(block) or _parse(block)
            if frame is not None:
                frames.append(frame)
    return frames


def _parse_simple(block: bytes) -> Frame | None:
    """Parse a block with a name and one line of data, the format of Anthropic Messages and OpenAI Responses."""
    at = block.find(b"\n")
    if block[:7] != b"event: " or block[at + 1 : at + 7] != b"data: " or block.find(b"\n", at + 1) >= 0:
        return None
    return block[7:at].decode("utf-8", "replace"), block[at + 7 :]


def _parse(block: bytes) -> Frame | None:
    name = ""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
    return (name, b"\n".join(data)) if data else None


StreamFrame = tuple[str, bytes]
"""An empty name, and the line."""


class NdjsonParser:
    """Splits a byte stream into lines, independent of the chunk boundaries.

    A line ends only with LF or CRLF. Blank lines are skipped.

    Attributes:
        pending: Chunks of an incomplete line.
    """

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: list[bytes] = []

    def feed(self, data: bytes) -> list[StreamFrame]:
        """Parse more bytes; return the completed lines."""
        if b"\n" not in data:
            self.pending.append(data)
            return []
        if self.pending:
            self.pending.append(data)
            data = b"".join(self.pending)
            self.pending.clear()
        *lines, rest = data.split(b"\n")
        if rest:
            self.pending.append(rest)
        return [("", line) for line in lines if line and not line.isspace()]

    def finish(self) -> list[StreamFrame]:
        """Return the last line if it has no line end."""
        rest = b"".join(self.pending)
        self.pending.clear()
        return [("", rest)] if rest and not rest.isspace() else []
