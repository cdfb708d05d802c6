"""Keeping the end of a text, measured in bytes."""

from __future__ import annotations

from collections import deque


class Tail:
    """The last bytes of a growing text; ``limit`` 0 keeps all."""

    __slots__ = ("_limit", "_pieces", "_size", "total")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self.total = 0

    def feed(self, text: str) -> None:
        """Add to the text."""
        data = text.encode("utf-8", "replace")
        self.total += len(data)
        self._pieces.append(data)
        self._size += len(data)
        while self._limit and self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())

    def text(self, room: int) -> str:
        """The last ``room`` bytes (0: all) from the start of a character on, with a mark that tells what is missing."""
        data = b"".join(self._pieces)
        if room and len(data) > room:
            data = from_character(data[len(data) - room :])
        missing = self.total - len(data)
        mark = f"…({missing} bytes truncated from head)…\n" if missing else ""
        return mark + data.decode()


def from_character(data: bytes) -> bytes:
    """Bytes of UTF-8 without the rest of a character at their start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def shares(first: int, second: int, limit: int) -> tuple[int, int]:
    """How much room each of two texts gets: the second at least half, and neither more than it needs."""
    if not limit or first + second <= limit:
        return first, second
    second = min(second, max(limit // 2, limit - first))
    return limit - second, second
