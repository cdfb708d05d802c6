"""Long outputs that are shown in part, and can be seen in full afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mainspring.app.tui.safe_text import expand_tabs, sanitize, strip_emoji_modifiers
from mainspring.app.tui.styled_text import Row, make_row, wrap_row
from mainspring.text import pluralize

_MOST_KEPT = 50
_MOST_LINES = 5_000
_MOST_INDENT = 12


class CollapsedOutput:
    """Keeps what was folded lately, the newest first to be unfolded."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, list[Row]]] = deque(maxlen=_MOST_KEPT)

    def fold(
        self, title: str, rows: list[Row], most: int, *, at_end: bool = False, columns: int | None = None
    ) -> list[Row]:
        """At most ``most`` of the rows, and one that says what is left out and how to see it.

        Args:
            title: What they belong to.
            rows: The rows.
            most: How many to show.
            at_end: Whether the last ones matter more than the first.
            columns: How wide the screen is, to break what is longer between words; what is kept stays unbroken.
        """
        whole = rows
        if columns is not None:
            rows = wrap_rows(rows, columns, hard=True)
        if len(rows) <= most + 1:
            return rows
        self.keep(title, whole)
        told = make_row(("faint", f"  ... {pluralize(len(rows) - most, 'more line')} (Ctrl-O shows them)"))
        if not most:
            return [told]
        return [told, *rows[-most:]] if at_end else [*rows[:most], told]

    def keep(self, title: str, rows: list[Row]) -> None:
        """Have rows at hand that are not shown at all."""
        self._kept.append((title, rows[:_MOST_LINES]))

    def unfold(self) -> list[Row]:
        """What was folded last and not seen since, in full; nothing if there is none."""
        if not self._kept:
            return []
        title, rows = self._kept.pop()
        return [make_row(("faint", f"--- {title}")), *rows, make_row(("faint", "---"))]


def output_rows(
    text: str, style: str = "faint", indent: str = "    ", make: Callable[[str], str] = sanitize
) -> list[Row]:
    """Foreign output as rows; long lines go on in the next row of the terminal."""
    lines = expand_tabs(strip_emoji_modifiers(make(text))).rstrip("\n").split("\n")
    return [make_row((style, f"{indent}{line}")) for line in lines] if text.strip() else []


def wrap_rows(rows: list[Row], columns: int, *, hard: bool = False) -> list[Row]:
    """The rows, those that are too long broken between words, with their indent."""
    shown: list[Row] = []
    for each in rows:
        text = "".join(part for _, part in each)
        indent = " " * min(len(text) - len(text.lstrip(" ")), _MOST_INDENT)
        shown += wrap_row(each, columns, indent, hard=hard)
    return shown
