"""View of a file's text with normalized line endings, and the mapping back to the original text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate


class NormalizedText:
    """Positions in `text` (line feeds only) and in `raw` (unchanged).

    Attributes:
        raw: Original text.
        text: Text with each CR LF, and each single CR, replaced by LF.
    """

    __slots__ = ("_breaks", "_lines", "_starts", "raw", "text")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = normalize_newlines(raw)
        self._breaks: list[int] | None = [] if len(self.text) == len(raw) else None
        self._lines: list[str] | None = None
        self._starts: list[int] | None = None

    @property
    def has_cr(self) -> bool:
        """Whether any line ends in CR LF or CR."""
        return self.text != self.raw

    @property
    def has_single_cr(self) -> bool:
        """Whether any line ends in CR alone."""
        return self.has_cr and "\r" in self.raw.replace("\r\n", "")

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
        if not self.has_cr:
            return "\n"
        for at in (self.text.find("\n", index), self.text.rfind("\n", 0, index)):
            if at >= 0:
                return self.raw_slice(at, at + 1)
        return "\n"


def normalize_newlines(text: str) -> str:
    """Return the text with line feeds only."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_endings(raw: str) -> tuple[list[str], list[str]]:
    """Return the lines of a text, and their line endings; the last line has none."""
    pieces = re.split("(\r\n|\n|\r)", raw)
    return pieces[::2], pieces[1::2]
