"""Patch format: ``*** Begin Patch``, sections that add, delete, update, or move a file, ``*** End Patch``. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.text import truncate_end

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ADD, DELETE, UPDATE, MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
_SECTIONS = (ADD, DELETE, UPDATE)
_WRAPPED = lazy_re(r"\A(?:<<-?\s*(['\"]?)(\w+)\1\n(.*)\n\2|```\w*\n(.*)\n```)\Z", re.DOTALL)
"""A here-document or code block around the patch, which models sometimes write."""
_RANGES = lazy_re(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")
"""Line numbers of a unified diff, which are ignored."""

Action = Literal["add", "delete", "update"]


class PatchError(ValueError):
    """The patch is invalid; the message contains the problem, its position, and the fix."""


class PatchChunk(Struct, frozen=True):
    """A change in a file.

    Attributes:
        contexts: Text after ``@@``: lines to find first, each after the previous line.
        old: Existing lines of the file.
        new: Lines that replace them.
        at_end: Whether the old lines are the last lines of the file.
        line: First line of the change in the patch, from 1.
    """

    contexts: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_end: bool = False
    line: int = 0


class PatchSection(Struct, frozen=True):
    """A section of a patch: the change to one file.

    Attributes:
        action: Action on the file.
        path: Path of the file.
        content: Content of an added file.
        chunks: Changes, in the order of the file.
        target: New path of a moved file; empty if it is not moved.
    """

    action: Action
    path: str
    content: str = ""
    chunks: tuple[PatchChunk, ...] = ()
    target: str = ""


def parse_patch(text: str) -> tuple[PatchSection, ...]:
    """Return the sections of a patch.

    Raises:
        PatchError: The patch is invalid.
    """
    lines = _strip_wrapper(text).replace("\r\n", "\n").split("\n")
    if lines[0].strip() != BEGIN:
        raise PatchError(f"the first line of a patch is {BEGIN!r}, not {_short(lines[0])}")
    if lines[-1].strip() != END:
        raise PatchError(f"the last line of a patch is {END!r}, not {_short(lines[-1])}; it may have been cut off")
    reader = _PatchParser(lines[1:-1])
    sections: list[PatchSection] = []
    while not reader.done:
        if reader.line.strip():
            sections.append(reader.section())
        else:
            reader.at += 1
    if not sections:
        raise PatchError("the patch has no section")
    return tuple(sections)


def _strip_wrapper(text: str) -> str:
    text = text.strip("\ufeff \t\r\n")
    wrapped = _WRAPPED.match(text)
    return (wrapped[3] or wrapped[4] or "").strip() if wrapped else text


class _PatchParser:
    """Parser of the lines between begin and end."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.at = 0

    @property
    def done(self) -> bool:
        return self.at >= len(self._lines)

    @property
    def line(self) -> str:
        return self._lines[self.at]

    @property
    def number(self) -> int:
        """Number of the current line in the patch; the begin line is line 1."""
        return self.at + 2

    def section(self) -> PatchSection:
        head = self.line.strip()
        start = next((s for s in _SECTIONS if head.startswith(s)), None)
        if start is None:
            known = ", ".join([f"'{s} PATH'" for s in _SECTIONS])
            raise PatchError(f"line {self.number}: a section begins with {known}, not {_short(self.line)}")
        path = head[len(start) :].strip()
        if not path:
            raise PatchError(f"line {self.number}: {start!r} needs a path after it")
        number = self.number
        self.at += 1
        if start == DELETE:
            return PatchSection("delete", path)
        if start == ADD:
            return PatchSection("add", path, self._content())
        target = ""
        if not self.done and self.line.strip().startswith(MOVE):
            target = self.line.strip()[len(MOVE) :].strip()
            if not target:
                raise PatchError(f"line {self.number}: {MOVE!r} needs a path after it")
            self.at += 1
        chunks = self._chunks()
        if not chunks and not target:
            raise PatchError(f"line {number}: the update of {path} changes nothing; lines to change begin with - or +")
        return PatchSection("update", path, chunks=chunks, target=target)

    def _content(self) -> str:
        found: list[str] = []
        while not self.done and self.line.startswith("+"):
            found.append(self.line[1:] + "\n")
            self.at += 1
        self._skip_blank()
        if not self.done and not _is_section(self.line):
            raise PatchError(f"line {self.number}: each line of an added file begins with +, not {_short(self.line)}")
        return "".join(found)

    def _chunks(self) -> tuple[PatchChunk, ...]:
        found: list[PatchChunk] = []
        while True:
            self._skip_blank()
            if self.done or _is_section(self.line):
                return tuple(found)
            found.append(self._chunk(is_first=not found))

    def _chunk(self, *, is_first: bool) -> PatchChunk:
        number = self.number
        contexts: list[str] = []
        marked = False
        while not self.done and self.line.startswith("@@"):
            marked = True
            context = self.line[2:].strip("\r")
            ranges = _RANGES.fullmatch(context.strip())
            context = ranges[1] if ranges else context.removeprefix(" ")
            if context.strip():
                contexts.append(context)
            self.at += 1
        if not marked and not is_first:
            raise PatchError(f"line {number}: a change begins with @@, not {_short(self.line)}")
        old: list[str] = []
        new: list[str] = []
        count = 0
        while not self.done and self._is_change():
            sign, rest = self.line[:1] or " ", self.line[1:]
            if sign != "+":
                old.append(rest)
            if sign != "-":
                new.append(rest)
            count += 1
            self.at += 1
        at_end = not self.done and self.line.strip() == END_OF_FILE
        if at_end:
            self.at += 1
        if not count:
            shown = "the end of the section" if self.done or _is_section(self.line) else _short(self.line)
            raise PatchError(
                f"line {self.number}: a change has lines that begin with a space (unchanged), - (removed) or + (added), "
                f"but here is {shown}"
            )
        return PatchChunk(tuple(contexts), tuple(old), tuple(new), at_end, number)

    def _is_change(self) -> bool:
        line = self.line
        if line == "":  # An empty line of the file that lost its space, unless only the next section follows.
            return not all(not rest.strip() for rest in self._read_until_marker())
        return line[0] in " -+" and not (line[0] == " " and _is_section(line))

    def _read_until_marker(self) -> list[str]:
        found: list[str] = []
        for line in self._lines[self.at :]:
            if line.startswith("@@") or _is_section(line) or line.strip() == END_OF_FILE:
                break
            found.append(line)
        return found

    def _skip_blank(self) -> None:
        while not self.done and not self.line.strip():
            self.at += 1


def _is_section(line: str) -> bool:
    return line.strip().startswith(_SECTIONS)


def _short(line: str) -> str:
    return repr(truncate_end(line, 80))
