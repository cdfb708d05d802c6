"""Streaming Markdown: finished blocks are printed once, the open block is redrawn."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from mainspring.app.tui.markdown_blocks import MarkdownBlock, MarkdownBlocks
from mainspring.app.tui.styled_text import Row
from mainspring.app.tui.theme import Theme

_MIN_OPEN_ROWS = 6


class BlockRenderer(Protocol):
    """Renders blocks as rows of the screen."""

    def rows(self, block: MarkdownBlock, last: int | None = None) -> list[Row]:
        """The rows of a block, or its ``last`` rows."""
        ...


class Answer:
    """Renders one response after another.

    Args:
        theme: The theme.
    """

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
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
        """Return the renderer. Loads rich on first use."""
        if columns not in self._renderers:
            module = import_module("mainspring.app.tui.markdown")
            self._renderers = {columns: module.MarkdownRenderer(self._theme, columns)}
        return self._renderers[columns]

    def _rows(self, blocks: list[MarkdownBlock], columns: int) -> list[Row]:
        rows: list[Row] = []
        for block in blocks:
            rows += self.get_renderer(columns).rows(block)
            if block.ends:
                rows.append([])
        return rows
