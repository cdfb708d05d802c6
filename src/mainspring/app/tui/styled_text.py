"""Rows of styled text: building, wrapping, and collapsing them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from mainspring.app.tui.safe_text import expand_tabs, sanitize, strip_emoji_modifiers, width
from mainspring.text import pluralize

Fragment = tuple[str, str]
"""A style, in the words of prompt-toolkit (``class:faint``), and text of one row."""

Row = list[Fragment]

_LEAST_ROOM = 8
"""Columns in which words are not worth keeping whole."""


def make_row(*parts: str | Fragment) -> Row:
    """A row of texts, each as it is or with the name of a style of the theme before it."""
    return [("", part) if isinstance(part, str) else (f"class:{part[0]}", part[1]) for part in parts]


def to_text(rows: Iterable[Row]) -> str:
    """The rows as lines, without styles."""
    return "".join(f"{''.join(text for _, text in each).rstrip()}\n" for each in rows)


def to_fragments(rows: Iterable[Row]) -> Row:
    """The rows as one run of fragments, each row with its line end."""
    flat: Row = []
    for each in rows:
        flat.extend(each)
        flat.append(("", "\n"))
    return flat


def indent_rows(rows: Iterable[Row], by: str, style: str = "faint") -> list[Row]:
    """The rows, each behind a sign."""
    return [[(f"class:{style}", by), *each] for each in rows]


def clip_row(given: Row, columns: int) -> Row:
    """The row in at most so many columns."""
    taken = 0
    kept: Row = []
    for style, text in given:
        shown = expand_tabs(strip_emoji_modifiers(text))
        size = width(shown)
        if taken + size > columns:
            for character in shown:
                taken += width(character)
                if taken > columns:
                    return kept
                kept.append((style, character))
            return kept
        taken += size
        kept.append((style, shown))
    return kept


def wrap_row(given: Row, columns: int, indent: str = "", *, hard: bool = False) -> list[Row]:
    """The row on as many rows as it needs, broken between words.

    Args:
        given: The row.
        columns: How wide the screen is.
        indent: What the further rows begin with.
        hard: Whether words that are longer than a row are broken as well; otherwise the terminal does that, so that
            they can be copied.
    """
    text = "".join(part for _, part in given)
    room = columns - 1
    if width(text) <= room or room - len(indent) < _LEAST_ROOM:
        return [given]
    marked = [(style, character) for style, part in given for character in part]
    rows: list[Row] = []
    lead = len(text) - len(text.lstrip(" "))
    at = 0
    while at < len(text):
        begin: Row = [("", indent)] if rows else []
        end = _end_of_row(text, at, max(lead, at), room - (len(indent) if rows else 0), hard)
        rows.append([*begin, *_joined(marked[at : at + len(text[at:end].rstrip(" "))])])
        at = end
        while at < len(text) and text[at] == " ":
            at += 1
    return rows


def _end_of_row(text: str, at: int, first: int, room: int, hard: bool) -> int:
    """Where the row that begins at ``at`` ends; its first word begins at ``first``."""
    taken, space = 0, -1
    for place in range(at, len(text)):
        if text[place] == " " and place > first:
            space = place
            if taken > room:
                return space
        taken += width(text[place])
        if taken > room and space >= 0:
            return space
        if taken > room and hard:
            return max(place, at + 1)
    return len(text)


def _joined(given: Row) -> Row:
    """The row with neighbours of one style in one piece."""
    joined: Row = []
    for style, part in given:
        if joined and joined[-1][0] == style:
            joined[-1] = (style, joined[-1][1] + part)
        else:
            joined.append((style, part))
    return joined


def map_text(rows: Iterable[Row], change: Callable[[str], str]) -> list[Row]:
    """The rows with other texts."""
    return [[(style, change(text)) for style, text in each] for each in rows]


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
