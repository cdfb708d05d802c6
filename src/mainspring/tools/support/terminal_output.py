"""What a program's output looks like once it stands still: no escape sequences, only the last state of a redrawn line.

Keeping the end of a text, measured in bytes.
"""

from __future__ import annotations

import codecs
from collections import deque

from mainspring.lazy import lazy_re

_ESCAPE = lazy_re(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # device control and the like
    r"|[ -/]*[0-OQ-WYZ\\`-~])"  # all that is short
)
_INCOMPLETE_ESCAPE = lazy_re(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)?\Z")
_CONTROLS = lazy_re(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OVERSTRUCK = lazy_re(r"[^\n\x08]\x08")
_LONGEST_ESCAPE = 4096
_LONGEST_LINE = 1 << 16


class Screen:
    """Cleans output piece by piece; bytes that are not UTF-8 become U+FFFD, wherever the pieces were cut."""

    __slots__ = ("_decoder", "_escape", "_line")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""
        self._line = ""

    def feed(self, data: bytes) -> str:
        """Take a piece; what comes back will not change any more."""
        return self._redact_line(self._decoder.decode(data))

    def finish(self) -> str:
        """What is left."""
        rest = self._redact_line(self._decoder.decode(b"", True))
        line, self._line = self._line, ""
        self._escape = ""
        return rest + _final_lines(line)

    def _redact_line(self, text: str) -> str:
        text = self._escape + text
        self._escape = ""
        if "\x1b" in text:
            broken = _INCOMPLETE_ESCAPE.search(text, max(0, len(text) - _LONGEST_ESCAPE))
            if broken:
                self._escape = broken[0]
                text = text[: broken.start()]
            text = _ESCAPE.sub("", text)
        text = self._line + text
        cut = text.rfind("\n") + 1
        lines, self._line = text[:cut], text[cut:]
        if len(self._line) > _LONGEST_LINE:
            if "\r" in self._line[:-1]:
                self._line = _apply_carriage_returns(self._line)
            else:
                lines, self._line = lines + self._line, ""
        return _final_lines(lines)


def _final_lines(text: str) -> str:
    if "\r" in text:
        text = "\n".join(
            [_apply_carriage_returns(line.rstrip("\r")) if "\r" in line else line for line in text.split("\n")]
        )
    if "\x08" in text:
        text = _apply_backspaces(text)
    return _CONTROLS.sub("", text)


def _apply_carriage_returns(line: str) -> str:
    """The last state of a line that a carriage return started anew."""
    return next((state for state in reversed(line.split("\r")) if state), "")


def _apply_backspaces(text: str) -> str:
    """Without the characters that a backspace took back."""
    while (shorter := _OVERSTRUCK.sub("", text)) != text:
        text = shorter
    return text.replace("\x08", "")


class TailBuffer:
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
            data = strip_partial_character(data[len(data) - room :])
        missing = self.total - len(data)
        mark = f"…({missing} bytes truncated from head)…\n" if missing else ""
        return mark + data.decode()


def strip_partial_character(data: bytes) -> bytes:
    """Bytes of UTF-8 without the rest of a character at their start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def split_limit(first: int, second: int, limit: int) -> tuple[int, int]:
    """How much room each of two texts gets: the second at least half, and neither more than it needs."""
    if not limit or first + second <= limit:
        return first, second
    second = min(second, max(limit // 2, limit - first))
    return limit - second, second
