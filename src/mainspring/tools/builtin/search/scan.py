"""Text search without ripgrep: the same answers, slower."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

from mainspring.env import explain
from mainspring.env.text import mark_of
from mainspring.tools.builtin.search.dialect import compiled
from mainspring.tools.builtin.search.hits import Hits, Line, Query
from mainspring.tools.builtin.search.listing import TIME_LIMIT
from mainspring.tools.tool import ToolContext

MOST_BYTES = 64 << 20
"""Bigger files are left out and told: they would be held in memory several times over."""


async def scan(ctx: ToolContext, files: Sequence[tuple[str, str]], query: Query, *, as_text: bool) -> Hits:
    """Search files, given as pairs of real path and name. ``as_text``: also those with a NUL in them.

    Raises:
        PatternError: If the pattern is wrong.
    """
    pattern = compiled(query.pattern, literal=query.literal, ignore_case=query.ignore_case, multiline=query.multiline)
    lines: dict[str, list[Line]] = {}
    counts: dict[str, int] = {}
    problems: list[str] = []
    end = time.monotonic() + TIME_LIMIT
    for path, name in files:
        if ctx.aborted or time.monotonic() > end:
            problems.append("cancelled" if ctx.aborted else f"stopped after {TIME_LIMIT:g}s")
            break
        try:
            data = await ctx.env.read_bytes(path, limit=MOST_BYTES + 1)
        except OSError as e:
            problems.append(f"{name}: {explain(e)}")
            continue
        if len(data) > MOST_BYTES:
            problems.append(f"{name}: more than {MOST_BYTES} bytes, which only ripgrep searches")
            continue
        found, count = await asyncio.to_thread(_search, data, pattern, query, as_text)
        if count:
            counts[name] = count
            if query.with_lines:
                lines[name] = found
    return Hits(lines, counts, tuple(problems))


def _search(data: bytes, pattern: re.Pattern[str], query: Query, as_text: bool) -> tuple[list[Line], int]:
    mark, encoding = mark_of(data)
    if encoding not in ("", "utf-8"):
        text = data[len(mark) :].decode(encoding, "replace")
    elif b"\0" in data and not as_text:
        return [], 0
    else:
        text = data[len(mark) :].decode("utf-8", "surrogateescape")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    hits = _across(lines, pattern) if query.multiline else _each(lines, pattern)
    return (_with_context(lines, hits, query.context) if query.with_lines else []), len(hits)


def _each(lines: Sequence[str], pattern: re.Pattern[str]) -> dict[int, int]:
    """Columns of the first match by index of the line."""
    search = pattern.search
    return {i: found.start() + 1 for i, line in enumerate(lines) if (found := search(line))}


def _across(lines: Sequence[str], pattern: re.Pattern[str]) -> dict[int, int]:
    """The same where a match may go over lines: each line of it counts."""
    text = "\n".join(lines) + "\n"
    hits: dict[int, int] = {}
    line, line_start = 0, 0
    for found in pattern.finditer(text):
        if found.start() >= len(text):
            break
        line += text.count("\n", line_start, found.start())
        line_start = text.rfind("\n", 0, found.start()) + 1
        last = line + text.count("\n", found.start(), max(found.start(), found.end() - 1))
        for i in range(line, last + 1):
            hits.setdefault(i, found.start() - line_start + 1 if i == line else 1)
    return hits


def _with_context(lines: Sequence[str], hits: dict[int, int], context: int) -> list[Line]:
    wanted = {j for i in hits for j in range(max(0, i - context), min(len(lines), i + context + 1))}
    return [
        Line(i + 1, lines[i].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), hits.get(i, 0))
        for i in sorted(wanted)
    ]
