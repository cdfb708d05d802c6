"""Streaming Markdown: finished blocks are printed once, the open block is redrawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from mainspring.app.tui.styled_text import Row
from mainspring.app.tui.theme import Theme

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r"^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")
_WORD = re.compile(r"[\w+#.-]+")


class MarkdownBlock(Struct, frozen=True):
    """A top-level block of a response, or a part of one.

    Attributes:
        text: The Markdown; for code, only its lines.
        code: The language of code (may be empty), or None for other blocks.
        begins: Whether this is the first part of the block.
        ends: Whether this is the last part.
    """

    text: str
    code: str | None = None
    begins: bool = True
    ends: bool = True


class BlockRenderer(Protocol):
    """Renders blocks as rows of the screen."""

    def rows(self, block: MarkdownBlock, last: int | None = None) -> list[Row]:
        """The rows of a block, or its ``last`` rows."""
        ...


class MarkdownBlocks:
    """Splits streaming text into blocks. The cost depends on the new text only, not on the length of the response."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial_line = ""
        self._fence = ""
        self._language = ""
        self._inner = ""
        self._list = False
        self._blank = False
        self._begun = False

    def feed(self, text: str) -> list[MarkdownBlock]:
        """Add text. Return the blocks that it finished."""
        *lines, self._partial_line = (
            (self._partial_line + text).split("\n") if "\n" in text else [self._partial_line + text]
        )
        done: list[MarkdownBlock] = []
        for line in lines:
            self._add_line(line, done)
        return done

    def close(self) -> list[MarkdownBlock]:
        """End the response. Return the blocks that were open."""
        done: list[MarkdownBlock] = []
        if self._partial_line:
            rest, self._partial_line = self._partial_line, ""
            self._add_line(rest, done)
        self._end(done)
        return done

    def flush_partial(self, max_lines: int) -> list[MarkdownBlock]:
        """Return the first part of an open block with more than ``max_lines`` lines: whole lines of code, or whole items of a list."""
        if len(self._lines) <= max_lines:
            return []
        at = self._code_cut(max_lines) if self._fence else self._item_cut()
        if not at:
            return []
        head, self._lines = self._lines[:at], self._lines[at:]
        block = MarkdownBlock("\n".join(head), self._language if self._fence else None, not self._begun, False)
        self._begun = True
        return [block]

    @property
    def tail(self) -> MarkdownBlock | None:
        """The open block, including the incomplete line."""
        lines = [*self._lines, self._partial_line] if self._partial_line else self._lines
        if self._fence:
            closing = self._closes(self._partial_line)
            return MarkdownBlock("\n".join(self._lines if closing else lines), self._language, not self._begun, False)
        return MarkdownBlock("\n".join(lines), None, not self._begun, False) if any(lines) else None

    def _add_line(self, line: str, done: list[MarkdownBlock]) -> None:
        if self._fence:
            if self._closes(line):
                self._end(done)
            else:
                self._lines.append(line)
            return
        if self._inner:
            self._lines.append(line)
            if line.strip() and not line.strip().strip(self._inner[0]) and len(line.strip()) >= len(self._inner):
                self._inner = ""
            return
        self._text_line(line, done)

    def _text_line(self, line: str, done: list[MarkdownBlock]) -> None:
        """Handle a line outside a fence."""
        if not line.strip():
            if self._list:
                self._blank = True
                self._lines.append(line)
            else:
                self._end(done)
            return
        fence = _FENCE.match(line)
        indented = line[0] in " \t"
        if self._list:
            self._list_line(line, indented, fence, done)
            if self._list:
                return
        if fence and len(fence[1]) < 4 and not (fence[2][0] == "`" and "`" in fence[3]):
            self._end(done)
            self._fence = fence[2]
            word = _WORD.match(fence[3].strip())
            self._language = word[0] if word else ""
        elif _HEADING.match(line) or (_RULE.match(line) and not (self._lines and _UNDERLINE.match(line))):
            self._end(done)
            self._lines.append(line)
            self._end(done)
        elif _ITEM.match(line):
            self._end(done)
            self._list, self._blank = True, False
            self._lines.append(line)
        else:
            self._lines.append(line)
            if len(self._lines) > 1 and _UNDERLINE.match(line):
                self._end(done)

    def _list_line(self, line: str, indented: bool, fence: re.Match[str] | None, done: list[MarkdownBlock]) -> None:
        """Handle a line after the start of a list: a part of the list, or its end."""
        leaves = not indented and not _ITEM.match(line) and (self._blank or fence or _HEADING.match(line))
        if leaves or (_RULE.match(line) and not indented):
            self._end(done)
            return
        self._blank = False
        self._lines.append(line)
        if fence and indented:
            self._inner = fence[2]

    def _closes(self, line: str) -> bool:
        stripped = line.strip()
        return (
            bool(stripped)
            and len(line) - len(line.lstrip(" ")) < 4
            and len(stripped) >= len(self._fence)
            and not stripped.strip(self._fence[0])
        )

    def _end(self, done: list[MarkdownBlock]) -> None:
        text = "\n".join(self._lines)
        if self._fence:
            done.append(MarkdownBlock(text, self._language, not self._begun))
        elif text.strip():
            done.append(MarkdownBlock(text.rstrip(), None, not self._begun))
        self._lines = []
        self._fence = self._language = self._inner = ""
        self._list = self._blank = self._begun = False

    def _code_cut(self, max_lines: int) -> int:
        """Return where to split code: before an unindented line after a blank one, so that highlighting stays correct."""
        half = max_lines // 2
        for at in range(len(self._lines) - 1, half, -1):
            line = self._lines[at]
            if line and line[0] not in " \t)]}" and not self._lines[at - 1].strip():
                return at
        return len(self._lines) - half if len(self._lines) > 2 * max_lines else 0

    def _item_cut(self) -> int:
        """Return where to split a list: before its last item."""
        if not self._list or self._inner:
            return 0
        for at in range(len(self._lines) - 1, 0, -1):
            if _ITEM.match(self._lines[at]) and self._lines[at][0] not in " \t":
                return at
        return 0


_MIN_OPEN_ROWS = 6


class ResponseRenderer:
    """Renders one response after another.

    Args:
        theme: The theme.
        create_renderer: Function that creates the renderer of blocks for a theme and a width in columns.
    """

    def __init__(self, theme: Theme, create_renderer: Callable[[Theme, int], BlockRenderer]) -> None:
        self._theme = theme
        self._create_renderer = create_renderer
        self._blocks = MarkdownBlocks()
        self._renderers: dict[int, BlockRenderer] = {}
        self._drawn: tuple[MarkdownBlock, int, int, list[Row]] | None = None
        self.has_output = False
        """Whether text of the current response arrived."""

    def set_theme(self, theme: Theme) -> None:
        """Change the theme of the rows that are not finished."""
        self._theme, self._drawn = theme, None
        self._renderers.clear()

    def feed(self, text: str, columns: int, rows: int) -> list[Row]:
        """Add text. Return the finished rows.

        Args:
            text: The next piece.
            columns: Width of the screen.
            rows: Maximum rows of the open block, before parts of it are printed.
        """
        self.has_output = self.has_output or bool(text.strip())
        done = self._blocks.feed(text)
        return self._rows([*done, *self._blocks.flush_partial(max(rows, _MIN_OPEN_ROWS))], columns)

    def close(self, columns: int) -> list[Row]:
        """End the response. Return the rest of its rows."""
        self.has_output = False
        return self._rows(self._blocks.close(), columns)

    def tail(self, columns: int, rows: int) -> list[Row]:
        """Return the last rows of the open block, at most ``rows``."""
        block = self._blocks.tail
        if block is None or rows <= 0:
            return []
        if self._drawn is None or self._drawn[:3] != (block, columns, rows):
            self._drawn = (block, columns, rows, self.get_renderer(columns).rows(block, rows))
        return self._drawn[3]

    def render(self, text: str, columns: int) -> list[Row]:
        """Render a complete Markdown text."""
        blocks = MarkdownBlocks()
        return self._rows([*blocks.feed(text), *blocks.close()], columns)

    def get_renderer(self, columns: int) -> BlockRenderer:
        """Return the renderer of blocks, which is created on first use."""
        if columns not in self._renderers:
            # The last column of all rows stays empty: live rows would lose the character in it.
            self._renderers = {columns: self._create_renderer(self._theme, columns - 1)}
        return self._renderers[columns]

    def _rows(self, blocks: list[MarkdownBlock], columns: int) -> list[Row]:
        rows: list[Row] = []
        for block in blocks:
            rows += self.get_renderer(columns).rows(block)
            if block.ends:
                rows.append([])
        return rows
