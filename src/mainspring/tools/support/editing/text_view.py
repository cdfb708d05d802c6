"""A file's text with every line ending read as a line feed, and the way back to the text as it is."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate


class NormalizedText:
    """Positions in `text` (line feeds only) and in `raw` (as in the file).

    Attributes:
        raw: The text as it is.
        text: The same with each CR LF read as LF. A CR alone is a character like any other.
    """

    __slots__ = ("_breaks", "_lines", "_starts", "raw", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = raw.replace("\r\n", "\n")
        self._breaks: list[int] | None = [] if len(self.text) == len(raw) else None
        self._lines: list[str] | None = None
        self._starts: list[int] | None = None

    @property
    def has_crlf(self) -> bool:
        """Whether any line ends in CR LF."""
        return len(self.text) != len(self.raw)

    @property
    def lines(self) -> list[str]:
        """The lines of `text` without their endings; the last is empty if the text ends with one."""
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    @property
    def start_tool(self) -> list[int]:
        """Where each line starts in `text`."""
        if self._starts is None:
            self._starts = [0, *accumulate([len(line) + 1 for line in self.lines[:-1]])]
        return self._starts

    def to_raw_index(self, index: int) -> int:
        """The place in `raw` of a place in `text`."""
        if self._breaks is None:
            self._breaks = []
            at = self.raw.find("\r\n")
            while at >= 0:
                self._breaks.append(at - len(self._breaks))
                at = self.raw.find("\r\n", at + 2)
        return index + bisect_left(self._breaks, index)

    def raw_slice(self, start: int, end: int) -> str:
        """The text as it is between two places of `text`."""
        return self.raw[self.to_raw_index(start) : self.to_raw_index(end)]

    def line_at(self, index: int) -> int:
        """The number of the line, from 1, that holds a place of `text`."""
        return bisect_right(self.start_tool, index)

    def ending_around(self, index: int) -> str:
        """The line ending at a place of `text`: of its line, else of the line before, else what most lines have."""
        if not self.has_crlf:
            return "\n"
        here = self.to_raw_index(index)
        for at in (self.raw.find("\n", here), self.raw.rfind("\n", 0, here)):
            if at >= 0:
                return "\r\n" if at > 0 and self.raw[at - 1] == "\r" else "\n"
        return "\n"


def normalize_newlines(text: str) -> str:
    """Text with line feeds only."""
    return text.replace("\r\n", "\n")
