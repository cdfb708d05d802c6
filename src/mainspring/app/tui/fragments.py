"""Rows of styled text: what everything that is shown is made of, until it is printed or drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mainspring.app.tui.plain import steady, untabbed, width

Fragment = tuple[str, str]
"""A style, in the words of prompt-toolkit (``class:faint``), and text of one row."""

Row = list[Fragment]


def row(*parts: str | Fragment) -> Row:
    """A row of texts, each as it is or with the name of a style of the theme before it."""
    return [("", part) if isinstance(part, str) else (f"class:{part[0]}", part[1]) for part in parts]


def text_of(rows: Iterable[Row]) -> str:
    """The rows as lines, without styles."""
    return "".join(f"{''.join(text for _, text in each).rstrip()}\n" for each in rows)


def lines_of(rows: Iterable[Row]) -> Row:
    """The rows as one run of fragments, each row with its line end."""
    flat: Row = []
    for each in rows:
        flat.extend(each)
        flat.append(("", "\n"))
    return flat


def indented(rows: Iterable[Row], by: str, style: str = "faint") -> list[Row]:
    """The rows, each behind a sign."""
    return [[(f"class:{style}", by), *each] for each in rows]


def clipped(given: Row, columns: int) -> Row:
    """The row in at most so many columns."""
    taken = 0
    kept: Row = []
    for style, text in given:
        shown = untabbed(steady(text))
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


def mapped(rows: Iterable[Row], change: Callable[[str], str]) -> list[Row]:
    """The rows with other texts."""
    return [[(style, change(text)) for style, text in each] for each in rows]
