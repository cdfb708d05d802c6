"""Text search without ripgrep: the same answers, slower."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

from mainspring.env import RealPath, explain
from mainspring.tools.support.search.file_list import TIME_LIMIT
from mainspring.tools.support.search.hits import Hits, Line, Query
from mainspring.tools.support.search.regex import compiled
from mainspring.tools.support.text_files import mark_of
from mainspring.tools.tool import ToolContext

MOST_BYTES = 64 << 20
"""Bigger files are left out and told: they would be held in memory several times over."""

_BATCH = 64
_SMALL = 1 << 20
"""Bytes up to which files are read together."""


async def scan(ctx: ToolContext, files: Sequence[tuple[RealPath, str]], query: Query, *, as_text: bool) -> Hits:
    """Search files, given as pairs of real path and name. ``as_text``: also those with a NUL in them.

    Raises:
        PatternError: If the pattern is wrong.
    """
    pattern = compiled(query.pattern, literal=query.literal, ignore_case=query.ignore_case, multiline=query.multiline)
    lines: dict[str, list[Line]] = {}
    counts: dict[str, int] = {}
    problems: list[str] = []
    found: list[_Found] = []
    end = time.monotonic() + TIME_LIMIT
    for start in range(0, len(files), _BATCH):
        if ctx.aborted or time.monotonic() > end:
            problems.append("cancelled" if ctx.aborted else f"stopped after {TIME_LIMIT:g}s")
            break
        batch = files[start : start + _BATCH]
        held = await asyncio.gather(*[_read(ctx, path, _SMALL) for path, _ in batch])
        for i, (path, name) in enumerate(batch):
            data = held[i]
            if isinstance(data, bytes) and len(data) > _SMALL:  # Big ones come one by one, so that few are in memory.
                data = await _read(ctx, path, MOST_BYTES)
            if isinstance(data, bytes) and len(data) > MOST_BYTES:
                data = OSError(f"more than {MOST_BYTES} bytes, which only ripgrep searches")
            if isinstance(data, OSError):
                problems.append(f"{name}: {explain(data)}")
                held[i] = b""
            elif len(data) > _SMALL:
                held[i] = b""
                found += await asyncio.to_thread(_search_all, [name], [data], pattern, query, as_text)
        found += await asyncio.to_thread(_search_all, [name for _, name in batch], held, pattern, query, as_text)
    for name, hits, count in found:
        counts[name] = count
        if query.with_lines:
            lines[name] = hits
    return Hits(lines, counts, tuple(problems))


_Found = tuple[str, list[Line], int]


async def _read(ctx: ToolContext, path: RealPath, most: int) -> bytes | OSError:
    try:
        return await ctx.env.read_bytes(path, limit=most + 1)
    except OSError as e:
        return e


def _search_all(
    names: Sequence[str], held: Sequence[bytes | OSError], pattern: re.Pattern[str], query: Query, as_text: bool
) -> list[_Found]:
    """What is found in each of some files; those without a match are left out."""
    found: list[_Found] = []
    for name, data in zip(names, held, strict=True):
        if isinstance(data, bytes) and data:
            lines, count = _search(data, pattern, query, as_text)
            if count:
                found.append((name, lines, count))
    return found


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
