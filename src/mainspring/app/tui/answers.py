"""An answer while it streams: what is finished is printed once, the open rest is drawn anew."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from mainspring.app.tui.streaming_markdown import Block, Blocks
from mainspring.app.tui.styled_text import Row
from mainspring.app.tui.theme import Look

if TYPE_CHECKING:
    from mainspring.app.tui.markdown import MarkdownPainter

_LEAST_TAIL = 6


class Answer:
    """One answer after the other.

    Args:
        look: How things are shown.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._blocks = Blocks()
        self._painters: dict[int, MarkdownPainter] = {}
        self._drawn: tuple[Block, int, int, list[Row]] | None = None
        self.begun = False
        """Whether a part of the present answer was seen."""

    def feed(self, text: str, columns: int, rows: int) -> list[Row]:
        """Add text; the rows that are finished.

        Args:
            text: The next piece.
            columns: How wide the screen is.
            rows: How many rows the open part may take, before parts of it are printed that are not followed by their end.
        """
        self.begun = self.begun or bool(text.strip())
        done = self._blocks.feed(text)
        return self._rows([*done, *self._blocks.relieve(max(rows, _LEAST_TAIL))], columns)

    def close(self, columns: int) -> list[Row]:
        """The answer is over: the rest of its rows."""
        self.begun = False
        return self._rows(self._blocks.close(), columns)

    def tail(self, columns: int, rows: int) -> list[Row]:
        """The open part: its last rows, at most ``rows``."""
        block = self._blocks.tail
        if block is None or rows <= 0:
            return []
        if self._drawn is None or self._drawn[:3] != (block, columns, rows):
            self._drawn = (block, columns, rows, self.painter(columns).rows(block, rows))
        return self._drawn[3]

    def whole(self, text: str, columns: int) -> list[Row]:
        """A complete text in Markdown."""
        blocks = Blocks()
        return self._rows([*blocks.feed(text), *blocks.close()], columns)

    def painter(self, columns: int) -> MarkdownPainter:
        """What makes rows of blocks; loads what that needs."""
        if columns not in self._painters:
            module = import_module("mainspring.app.tui.markdown")
            self._painters = {columns: module.MarkdownPainter(self._look, columns)}
        return self._painters[columns]

    def _rows(self, blocks: list[Block], columns: int) -> list[Row]:
        rows: list[Row] = []
        for block in blocks:
            rows += self.painter(columns).rows(block)
            if block.ends:
                rows.append([])
        return rows
