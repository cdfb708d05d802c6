"""Changes of files as coloured rows with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mainspring.app.chat.types import FileDiff, Hunk
from mainspring.app.tui.safe_text import cut, spelled, steady, untabbed
from mainspring.app.tui.styled_text import Row, row
from mainspring.app.tui.theme import is_narrow
from mainspring.text import counted

_PLACE = re.compile(r"(.*?)@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_KINDS = {"edit": "", "create": " (new)", "delete": " (deleted)", "rename": " (renamed)"}
_STYLES = {"+": "added", "-": "removed"}


def diff_rows(diffs: Iterable[FileDiff], columns: int, most: int | None = None) -> list[Row]:
    """Changes of files.

    Args:
        diffs: The changes.
        columns: How wide the screen is; longer lines go on in the next row of the terminal.
        most: How many rows to show; the last one says how many are left out.
    """
    rows: list[Row] = []
    for diff in diffs:
        rows.append(_head(diff, columns))
        for i, hunk in enumerate(diff.hunks):
            rows += [row(("faint", "  ..."))] if i else []
            rows += hunk_rows(hunk, columns)
        if diff.note:
            rows.append(row(("warn", f"  {cut(spelled(diff.note), columns - 2)}")))
        if diff.left_out:
            rows.append(row(("faint", f"  ... {counted(diff.left_out, 'more line')}")))
    if most is not None and len(rows) > most:
        rows = [*rows[: max(most - 1, 0)], row(("faint", f"  ... {counted(len(rows) - most + 1, 'more row')}"))]
    return rows


def hunk_rows(hunk: Hunk, columns: int) -> list[Row]:
    """One change."""
    place = _PLACE.match(hunk.header)
    if place is None or is_narrow(columns):
        return [row(("hunk", spelled(hunk.header))), *(_line(line, "") for line in hunk.lines)]
    old, new = int(place[2]), int(place[3])
    size = len(str(max(old, new) + len(hunk.lines)))
    where = spelled(f"{place[1]}{place[4]}").strip()
    head = [row(("hunk", f"  {' ' * size} {cut(where, columns - size - 4)}"))] if where else []
    return head + [_line(line, f"{number:>{size}} ") for number, line in _numbered(hunk, old, new)]


def _numbered(hunk: Hunk, old: int, new: int) -> Iterator[tuple[str, str]]:
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


def _line(line: str, number: str) -> Row:
    shown = untabbed(steady(spelled(line[1:])))
    mark = line[:1] or " "
    style = _STYLES.get(mark)
    parts: Row = row(("faint", f"  {number}"))
    return parts + (row((style, f"{mark} {shown}")) if style else row(f"{mark} {shown}"))


def _head(diff: FileDiff, columns: int) -> Row:
    counts = row(" ", ("added", f"+{diff.added}"), " ", ("removed", f"-{diff.removed}"))
    name = cut(spelled(diff.path), max(columns - 16, 8))
    return row(("tool", f"  {name}"), ("faint", _KINDS[diff.change])) + counts
