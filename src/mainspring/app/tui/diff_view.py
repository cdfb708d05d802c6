"""Diffs as colored rows with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mainspring.app.tui.safe_text import escape_all, expand_tabs, strip_emoji_modifiers, truncate
from mainspring.app.tui.styled_text import Row, make_row, wrap_row
from mainspring.app.tui.theme import is_narrow
from mainspring.events import FileDiff, Hunk
from mainspring.text import pluralize

_HUNK_HEADER = re.compile(r"(.*?)@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_KINDS = {"edit": "", "create": " (new)", "delete": " (deleted)", "rename": " (renamed)"}
_STYLES = {"+": "added", "-": "removed"}


def diff_rows(diffs: Iterable[FileDiff], columns: int, max_rows: int | None = None) -> list[Row]:
    """Return the rows of diffs.

    Args:
        diffs: The diffs.
        columns: Width of the screen; longer lines are wrapped.
        max_rows: Maximum number of rows; the last row contains the number of hidden rows.
    """
    rows: list[Row] = []
    for diff in diffs:
        rows.append(_file_header(diff, columns))
        for i, hunk in enumerate(diff.hunks):
            rows += [make_row(("faint", "  ..."))] if i else []
            rows += hunk_rows(hunk, columns)
        if diff.note:
            rows.append(make_row(("warn", f"  {truncate(escape_all(diff.note), columns - 2)}")))
        if diff.left_out:
            rows.append(make_row(("faint", f"  ... {pluralize(diff.left_out, 'more line')}")))
    if max_rows is not None and len(rows) > max_rows:
        rows = [
            *rows[: max(max_rows - 1, 0)],
            make_row(("faint", f"  ... {pluralize(len(rows) - max_rows + 1, 'more row')}")),
        ]
    return rows


def hunk_rows(hunk: Hunk, columns: int) -> list[Row]:
    """Return the rows of a hunk."""
    place = _HUNK_HEADER.match(hunk.header)
    if place is None or is_narrow(columns):
        head = [make_row(("hunk", escape_all(hunk.header)))]
        return head + [row for line in hunk.lines for row in _line(line, "", columns)]
    old, new = int(place[2]), int(place[3])
    size = len(str(max(old, new) + len(hunk.lines)))
    where = escape_all(f"{place[1]}{place[4]}").strip()
    head = [make_row(("hunk", f"  {' ' * size} {truncate(where, columns - size - 4)}"))] if where else []
    numbered = _number_lines(hunk, old, new)
    return head + [row for number, line in numbered for row in _line(line, f"{number:>{size}} ", columns)]


def _number_lines(hunk: Hunk, old: int, new: int) -> Iterator[tuple[str, str]]:
    for line in hunk.lines:
        mark = line[:1]
        if mark == "-":
            yield str(old), line
            old += 1
        elif mark == "\\":
            yield "", line
        else:
            yield str(new), line
            new += 1
            old += mark != "+"


def _line(line: str, number: str, columns: int) -> list[Row]:
    shown = expand_tabs(strip_emoji_modifiers(escape_all(line[1:])))
    mark = line[:1] or " "
    style = _STYLES.get(mark)
    parts: Row = make_row(("faint", f"  {number}"))
    row = parts + (make_row((style, f"{mark} {shown}")) if style else make_row(f"{mark} {shown}"))
    return wrap_row(row, columns, " " * (len(number) + 4), break_words=True)


def _file_header(diff: FileDiff, columns: int) -> Row:
    counts = make_row(" ", ("added", f"+{diff.added}"), " ", ("removed", f"-{diff.removed}"))
    name = truncate(escape_all(diff.path), max(columns - 16, 8))
    return make_row(("tool", f"  {name}"), ("faint", _KINDS[diff.change])) + counts
