"""Some lines of a file, found without keeping the rest: works on any size, piece by piece."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from mainspring.tools.support.text_files import displayable, read_document


class Shown(Struct, frozen=True):
    """Text for the model, and where it lies in the file.

    Attributes:
        text: The lines.
        first: Number of the first.
        last: Number of the last; one less than ``first`` if there is none.
        cut_at: The first line that was cut, or 0.
        is_full: Whether ``max_bytes`` ended it.
        form: Encoding and line endings, where they are not UTF-8 and LF.
    """

    text: str
    first: int
    last: int
    cut_at: int = 0
    is_full: bool = False
    form: str = ""


class Window:
    """Lines ``offset`` to ``offset + limit - 1`` of bytes that are fed in order; the lines before and after are counted."""

    __slots__ = (
        "_hash",
        "_held",
        "_held_all",
        "_held_size",
        "_limit",
        "_most",
        "_newlines",
        "_offset",
        "ends_open",
        "size",
    )

    def __init__(self, offset: int, limit: int, most: int) -> None:
        self._offset = offset
        self._limit = limit
        self._most = most
        self._newlines = 0
        self._held: list[bytes] = []
        self._held_size = 0
        self._held_all = True
        self._hash = hashlib.sha256()
        self.size = 0
        self.ends_open = False

    def feed(self, data: bytes, raw: bytes | None = None) -> None:
        """Take the next piece; ``raw`` is what the file has for it, where that is something else."""
        self._hash.update(data if raw is None else raw)
        if not data:
            return
        self.size += len(data)
        self.ends_open = data[-1:] != b"\n"
        count = data.count(b"\n")
        first, last = self._offset - 1, self._offset - 1 + self._limit
        begin, end = 0, len(data)
        if self._newlines < first:
            begin = _after(data, first - self._newlines) if self._newlines + count >= first else end
        if self._limit and self._newlines + count >= last:
            end = _after(data, last - self._newlines) if self._newlines < last else 0
        if begin < end:
            self._held_all = self._held_size < self._most
            if self._held_all:
                self._held.append(data[begin:end])
                self._held_size += end - begin
        self._newlines += count

    @property
    def lines(self) -> int:
        """How many lines have come."""
        return self._newlines + (1 if self.ends_open else 0)

    @property
    def is_full(self) -> bool:
        """Whether all that is wanted, or all that may be held, has come."""
        return bool(self._limit and self._newlines >= self._offset - 1 + self._limit) or self._held_size >= self._most

    @property
    def digest(self) -> str:
        """SHA-256 of what the file has, up to here."""
        return self._hash.hexdigest()

    @property
    def held(self) -> bytes:
        """The bytes of the wanted lines, or of as many whole ones as may be held."""
        held = b"".join(self._held)
        return held if self._held_all else held[: held.rfind(b"\n") + 1] or held


def _after(data: bytes, count: int) -> int:
    """The place right after the ``count``-th line feed."""
    at = 0
    for _ in range(count):
        at = data.index(b"\n", at) + 1
    return at


class Layout(Struct, frozen=True):
    """How lines are shown.

    Attributes:
        offset: Number of the first line.
        column: First character of each line, from 1.
        numbers: Whether each line starts with its number and a tab.
        longest: Most characters of a line; 0: all.
        max_bytes: Most bytes of all; 0: any number.
    """

    offset: int
    column: int
    numbers: bool
    longest: int
    max_bytes: int


def lay_out(held: bytes, layout: Layout, form: str) -> Shown | None:
    """The wanted lines as text; ``None`` if they are no text. Slow for many lines."""
    document = read_document(held)
    if document is None:
        return None
    lines = document.text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    crlf = sum(line.endswith("\r") for line in lines)
    forms = [form or document.form]
    if crlf:
        forms.append("CRLF line endings" if crlf >= len(lines) - 1 else "mixed LF and CRLF line endings")
    out: list[str] = []
    left = layout.max_bytes
    cut_at, is_full = 0, False
    for i, line in enumerate(lines):
        number = layout.offset + i
        line, cut = _cut(line.removesuffix("\r"), layout, number)
        size = len(line.encode("utf-8", "replace")) + 1
        if layout.max_bytes and size > left:
            is_full = True
            if not out:
                line, cut = _fit(line, layout, number)
                cut_at = number
                out.append(f"{number}\t{line}" if layout.numbers else line)
            break
        left -= size
        cut_at = cut_at or (number if cut else 0)
        out.append(f"{number}\t{line}" if layout.numbers else line)
    last = layout.offset + len(out) - 1
    return Shown(displayable("\n".join(out)), layout.offset, last, cut_at, is_full, ", ".join([f for f in forms if f]))


def _cut(line: str, layout: Layout, number: int) -> tuple[str, bool]:
    line = line[layout.column - 1 :] if layout.column > 1 else line
    if layout.longest and len(line) > layout.longest:
        return line[: layout.longest] + _rest(len(line) - layout.longest, number, layout.column + layout.longest), True
    return line, False


def _fit(line: str, layout: Layout, number: int) -> tuple[str, bool]:
    """As much of a line as ``max_bytes`` allows."""
    kept = line.encode("utf-8", "replace")[: layout.max_bytes].decode("utf-8", "ignore")
    return kept + _rest(len(line) - len(kept), number, layout.column + len(kept)), True


def _rest(missing: int, number: int, column: int) -> str:
    return f"… ({missing} more characters in this line: offset={number} limit=1 column={column})"
