"""What a text search finds, whichever engine does it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mainspring.lazy import lazy_re

LONGEST_LINE = 500
_CONTROLS = lazy_re(r"[\x00-\x08\x0a-\x1f\x7f]")

Output = Literal["content", "files", "count"]


class Query(Struct, frozen=True):
    """What to look for.

    Attributes:
        pattern: The regular expression, or text.
        literal: Whether it is text.
        ignore_case: Whether case does not count.
        multiline: Whether a match may go over lines.
        context: Lines to show before and after a match.
        output: What is wanted.
    """

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    output: Output = "content"

    @property
    def with_lines(self) -> bool:
        """Whether lines are to be shown, not only counted."""
        return self.output == "content"


class Line(Struct, frozen=True):
    """A line to show; ``column`` is where the first match starts, counted from 1, or 0 for a line around a match."""

    number: int
    text: str
    column: int = 1


class Hits(Struct, frozen=True):
    """What was found.

    Attributes:
        lines: By path, relative to the place that was searched: matching lines and those around them, in order. Empty
            unless ``content`` is wanted.
        counts: How many lines match, by path.
        problems: Why it is incomplete; empty if it is complete.
    """

    lines: dict[str, list[Line]]
    counts: dict[str, int]
    problems: tuple[str, ...] = ()


def shortened(line: Line) -> str:
    """A line's text; of a very long one the part around the match."""
    text = _CONTROLS.sub("\ufffd", line.text)
    if len(text) <= LONGEST_LINE:
        return text
    start = max(0, min(line.column - 1 - LONGEST_LINE // 4, len(text) - LONGEST_LINE))
    end = start + LONGEST_LINE
    before = f"…({start} characters) " if start else ""
    after = f" …({len(text) - end} more characters)" if end < len(text) else ""
    return before + text[start:end] + after
