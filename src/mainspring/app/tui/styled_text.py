"""Rows of styled text: building, wrapping, and collapsing them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from mainspring.app.tui.safe_text import expand_tabs, sanitize, strip_emoji_modifiers, width
from mainspring.redaction import redact_environment
from mainspring.text import pluralize

Fragment = tuple[str, str]
"""A style of prompt-toolkit (``class:faint``), and text of one row."""

Row = list[Fragment]

_MIN_COLUMNS = 8
"""Width below which words may be split."""


def make_row(*parts: str | Fragment) -> Row:
    """Build a row of texts and of pairs of a style of the theme and a text."""
    return [("", part) if isinstance(part, str) else (f"class:{part[0]}", part[1]) for part in parts]


def to_text(rows: Iterable[Row]) -> str:
    """Return the rows as lines without styles."""
    return "".join(f"{''.join(text for _, text in each).rstrip()}\n" for each in rows)


def to_fragments(rows: Iterable[Row]) -> Row:
    """Return the rows as one list of fragments with line ends."""
    flat: Row = []
    for each in rows:
        flat.extend(each)
        flat.append(("", "\n"))
    return flat


def indent_rows(rows: Iterable[Row], by: str) -> list[Row]:
    """Put a prefix before each row."""
    return [[("class:faint", by), *each] for each in rows]


def clip_row(row: Row, columns: int) -> Row:
    """Truncate a row to a number of columns."""
    columns_used = 0
    clipped: Row = []
    for style, text in row:
        shown = expand_tabs(strip_emoji_modifiers(text))
        size = width(shown)
        if columns_used + size > columns:
            for character in shown:
                columns_used += width(character)
                if columns_used > columns:
                    return clipped
                clipped.append((style, character))
            return clipped
        columns_used += size
        clipped.append((style, shown))
    return clipped


def wrap_row(row: Row, columns: int, indent: str = "", *, break_words: bool = False) -> list[Row]:
    """Wrap a row between words.

    Args:
        row: The row.
        columns: Width of the screen.
        indent: Prefix of the further rows.
        break_words: Whether words longer than a row are broken, too. Otherwise the terminal wraps them, so that they can
            be copied.
    """
    text = "".join(part for _, part in row)
    space = columns - 1
    if width(text) <= space or space - len(indent) < _MIN_COLUMNS:
        return [row]
    marked = [(style, character) for style, part in row for character in part]
    rows: list[Row] = []
    lead = len(text) - len(text.lstrip(" "))
    at = 0
    while at < len(text):
        begin: Row = [("", indent)] if rows else []
        end = _end_of_row(text, at, max(lead, at), space - (len(indent) if rows else 0), break_words)
        rows.append([*begin, *_join(marked[at : at + len(text[at:end].rstrip(" "))])])
        at = end
        while at < len(text) and text[at] == " ":
            at += 1
    return rows


def _end_of_row(text: str, at: int, first: int, columns: int, break_words: bool) -> int:
    """Return the end of the row that starts at ``at``; its first word starts at ``first``."""
    columns_used, last_break = 0, -1
    for place in range(at, len(text)):
        size = width(text[place])
        if place > first and (text[place] == " " or size > 1):  # wide scripts have no blanks between words
            last_break = place
            if columns_used > columns:
                return last_break
        columns_used += size
        if columns_used > columns and last_break >= 0:
            return last_break
        if columns_used > columns and break_words:
            return max(place, at + 1)
    return len(text)


def _join(row: Row) -> Row:
    """Join neighboring fragments of the same style."""
    joined: Row = []
    for style, part in row:
        if joined and joined[-1][0] == style:
            joined[-1] = (style, joined[-1][1] + part)
        else:
            joined.append((style, part))
    return joined


_MAX_STORED = 500
_MAX_INDENT = 12

LoadRows = Callable[[], list[Row]]


class CollapsedOutput:
    """Stores output that was shown in part, to be shown in full later, newest first.

    Args:
        hint: How the user shows the output; it follows the number of hidden lines.
    """

    def __init__(self, hint: str = " (Ctrl-O to show)") -> None:
        self.hint = hint
        self._collapsed: deque[tuple[str, LoadRows]] = deque(maxlen=_MAX_STORED)

    def collapse(
        self,
        title: str,
        rows: list[Row],
        max_rows: int,
        *,
        at_end: bool = False,
        columns: int | None = None,
        missing: int = 0,
        load: LoadRows | None = None,
    ) -> list[Row]:
        """Return at most ``max_rows`` rows, and a row with the number of lines that are not shown in full.

        Args:
            title: Title of the output.
            rows: The rows.
            max_rows: Maximum number of rows.
            at_end: Whether to show the last rows instead of the first.
            columns: Width of the screen, to wrap the shown rows; the stored ones stay unwrapped.
            missing: Number of lines of the output that ``rows`` does not contain.
            load: Returns the rows of the whole output, if that is more than ``rows``.
        """
        wrapped = [wrap_rows([row], columns, break_words=True) if columns is not None else [row] for row in rows]
        if sum(map(len, wrapped)) <= max_rows + 1 and not missing:
            return [row for part in wrapped for row in part]
        self.store(title, load or (lambda: rows))
        shown: list[Row] = []
        hidden = len(wrapped) + missing
        for part in reversed(wrapped) if at_end else wrapped:
            space = max_rows - len(shown)
            if space <= 0:
                break
            hidden -= len(part) <= space
            shown = [*part[-space:], *shown] if at_end else [*shown, *part[:space]]
        more = make_row(("faint", f"  ... {pluralize(hidden, 'more line')}{self.hint}"))
        return [more, *shown] if at_end else [*shown, more]

    def store(self, title: str, load: LoadRows) -> None:
        """Store output that is not shown at all.

        Args:
            title: Title of the output.
            load: Returns its rows.
        """
        self._collapsed.append((title, load))

    def expand_last(self) -> list[Row]:
        """Return the last stored output in full and forget it, or nothing."""
        if not self._collapsed:
            return []
        title, load = self._collapsed.pop()
        return [make_row(("faint", f"--- {title}")), *load(), make_row(("faint", "---"))]


def count_lines(path: str) -> int:
    """Return the number of lines of a file; 0 if it cannot be read."""
    count, last = 0, b"\n"
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                count += block.count(b"\n")
                last = block[-1:]
    except OSError:
        return 0
    return count + (last != b"\n")


def file_rows(path: str, rows: list[Row], style: str, indent: str) -> list[Row]:
    """Return a file with untrusted output as rows.

    Args:
        path: The file.
        rows: The part of the output that is known if the file does not exist anymore.
        style: Style of the rows.
        indent: Prefix of each row.
    """
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        notice = f"{indent}The file with the whole output cannot be read: {error.strerror}. This is the stored part:"
        return [make_row(("warn", notice)), *rows]
    return output_rows(redact_environment(text), style, indent)


def output_rows(
    text: str, style: str = "faint", indent: str = "    ", make: Callable[[str], str] = sanitize
) -> list[Row]:
    """Return untrusted output as rows; the terminal wraps long lines."""
    lines = expand_tabs(strip_emoji_modifiers(make(text))).rstrip("\n").split("\n")
    return [make_row((style, f"{indent}{line}")) for line in lines] if text.strip() else []


def wrap_rows(rows: list[Row], columns: int, *, break_words: bool = False) -> list[Row]:
    """Wrap long rows between words, with their indent."""
    shown: list[Row] = []
    for each in rows:
        text = "".join(part for _, part in each)
        indent = " " * min(len(text) - len(text.lstrip(" ")), _MAX_INDENT)
        shown += wrap_row(each, columns, indent, break_words=break_words)
    return shown
