"""What slash commands give, as rows."""

from __future__ import annotations

from collections.abc import Callable

from mainspring.app.tui.diffs import diff_rows
from mainspring.app.tui.folds import output_rows
from mainspring.app.tui.fragments import Row, row
from mainspring.app.tui.plain import cut, one_row, width
from mainspring.runtime.chat.shown import Changes, Fields, Picker, Shown, Table, Text

_GAP = 2
_LEAST_LAST = 24
_LEAST_CUT = 12
"""Columns of a cell that may be cut where it is narrow."""


def shown_rows(shown: Shown, columns: int, markdown: Callable[[str], list[Row]]) -> list[Row]:
    """What to print.

    Args:
        shown: What a command gives.
        columns: How wide the screen is.
        markdown: Makes rows of Markdown.
    """
    match shown:
        case Text(text=text, title=title, markdown=True):
            return _title(title) + markdown(text)
        case Text(text=text, title=title):
            return _title(title) + output_rows(text, "", "")
        case Fields(fields=fields, title=title):
            return _title(title) + _table((), fields, columns)
        case Table(columns=heads, rows=rows, title=title, empty=empty):
            body = _table(heads, rows, columns) if rows else [row(("faint", one_row(empty or "none", columns - 1)))]
            return _title(title) + body
        case Picker(title=title, choices=choices, empty=empty):
            rows = [
                row(
                    ("chosen", "* ") if choice.current else "  ",
                    one_row(f"{'  ' * choice.depth}{choice.label}", columns - 3),
                    ("faint", f"  {one_row(choice.line, 60)}"),
                )
                for choice in choices
            ]
            return _title(title) + (rows or [row(("faint", one_row(empty or "none", columns - 1)))])
        case Changes(text=text, diffs=diffs):
            return output_rows(text, "", "") + diff_rows(diffs, columns)
        case _:
            return []


def _title(title: str) -> list[Row]:
    return [row(("heading", one_row(title, 100)))] if title else []


def _table(heads: tuple[str, ...], rows: tuple[tuple[str, ...], ...], columns: int) -> list[Row]:
    """Columns as wide as their cells, the last one taking what is left; one under the other where that is too narrow."""
    texts = [tuple(one_row(cell, 400) for cell in each) for each in rows]
    count = max(map(len, [heads, *texts]))
    sizes = [max(width(each[i]) for each in [heads, *texts] if i < len(each)) for i in range(count)]
    room = columns - _GAP * (count - 1) - min(_LEAST_LAST, sizes[-1])
    while sum(sizes[:-1]) > room and (widest := max(sizes[:-1], default=0)) > _LEAST_CUT:
        sizes[sizes.index(widest)] -= 1
    fixed = sum(sizes[:-1]) + _GAP * (count - 1)
    if count > 1 and columns - fixed < min(_LEAST_LAST, sizes[-1]):
        return _stacked(heads, texts, columns)
    room = columns - fixed - 1
    shown = [_line(heads, sizes, room, "faint", "faint")] if heads else []
    return shown + [_line(each, sizes, room, "" if heads else "accent", "") for each in texts]


def _line(cells: tuple[str, ...], sizes: list[int], room: int, first: str, rest: str) -> Row:
    parts: Row = []
    for i, cell in enumerate(cells):
        last = i == len(sizes) - 1
        kept = cut(cell, room if last else sizes[i])
        text = kept if last else kept + " " * (sizes[i] - width(kept) + _GAP)
        style = rest if i else first
        parts += row((style, text)) if style else row(text)
    return parts


def _stacked(heads: tuple[str, ...], rows: list[tuple[str, ...]], columns: int) -> list[Row]:
    shown: list[Row] = []
    for each in rows:
        for i, cell in enumerate(each):
            name = f"{heads[i]}: " if i < len(heads) and i else ""
            shown.append(
                row(("accent", cut(cell, columns - 1))) if not i else row("  ", ("faint", name), cut(cell, columns))
            )
    return shown
