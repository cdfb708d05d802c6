"""View of a file's text with normalized line endings, and the mapping back to the original text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate


class NormalizedText:
    """Positions in `text` (line feeds only) and in `raw` (unchanged).

    Attributes:
        raw: Original text.
        text: Text with each CR LF replaced by LF. A single CR is treated as an ordinary character.
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
        """Lines of `text` without their endings; the last is empty if the text ends with a line ending."""
        if self._lines is None:
            self._lines = self.text.split("\n")
        return self._lines

    @property
    def line_starts(self) -> list[int]:
        """Start of each line in `text`."""
        if self._starts is None:
            self._starts = [0, *accumulate([len(line) + 1 for line in self.lines[:-1]])]
        return self._starts

    def to_raw_index(self, index: int) -> int:
        """Convert a position in `text` to a position in `raw`."""
        if self._breaks is None:
            self._breaks = []
            at = self.raw.find("\r\n")
            while at >= 0:
                self._breaks.append(at - len(self._breaks))
                at = self.raw.find("\r\n", at + 2)
        return index + bisect_left(self._breaks, index)

    def raw_slice(self, start: int, end: int) -> str:
        """Return the original text between two positions of `text`."""
        return self.raw[self.to_raw_index(start) : self.to_raw_index(end)]

    def line_at(self, index: int) -> int:
        """Return the number, from 1, of the line at a position of `text`."""
        return bisect_right(self.line_starts, index)

    def ending_around(self, index: int) -> str:
        """Return the line ending at a position of `text`: of its line, else of the previous line, else the most common."""
        if not self.has_crlf:
            return "\n"
        here = self.to_raw_index(index)
        for at in (self.raw.find("\n", here), self.raw.rfind("\n", 0, here)):
            if at >= 0:
                return "\r\n" if at > 0 and self.raw[at - 1] == "\r" else "\n"
        return "\n"


def normalize_newlines(text: str) -> str:
    """Return the text with line feeds only."""
    return text.replace("\r\n", "\n")
