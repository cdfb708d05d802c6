"""The search without ripgrep: it reads the files and searches them with Python's regular expressions."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from msgspec import Struct

from mainspring.env import RealPath, explain
from mainspring.env.protocol import read_files
from mainspring.lazy import lazy_re
from mainspring.tools.support.search.engines import Line, RegexError, SearchQuery, SearchResult
from mainspring.tools.support.search.file_list import TIME_LIMIT
from mainspring.tools.support.text_files import detect_bom
from mainspring.tools.tool import ToolContext

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9a-fA-F",
}
_ESCAPE = lazy_re(r"\\(?:[xuU]\{([0-9a-fA-F]+)\}|b\{(start|end|start-half|end-half)\}|(.))", re.DOTALL)
_NOT_UTF8 = lazy_re(r"[\ud800-\udbff]|[\ude00-\udfff]|[\udc00-\udc7f]")
_NEEDS_RIPGREP = lazy_re(r"(?<!\\)(?:\\\\)*(\\[pP]|&&|\(\?[a-zA-Z]*[RUu])")


def compile_regex(pattern: str, *, literal: bool, ignore_case: bool, multiline: bool) -> re.Pattern[str]:
    """Compile the pattern for Python's engine.

    Raises:
        RegexError: The pattern is invalid, or uses syntax that only ripgrep supports.
    """
    flags = (re.IGNORECASE if ignore_case else 0) | re.MULTILINE | (re.DOTALL if multiline else 0)
    try:
        return re.compile(re.escape(pattern) if literal else _translate(pattern), flags)
    except (re.error, OverflowError) as e:
        raise RegexError(str(e)) from None


def required_literal(pattern: re.Pattern[str]) -> str:
    """Return a text on one line that every match contains; empty if unknown."""
    try:
        parse: Any = import_module("re._parser").parse
    except ImportError:
        return ""
    text = "".join(
        chr(argument) if f"{operation}" == "LITERAL" else "\n"
        for operation, argument in parse(pattern.pattern, pattern.flags)
    )
    literal = max(text.split("\n"), key=len)
    has_other_cases = pattern.flags & re.IGNORECASE and not literal.isascii()  # for example, the long s of an s
    return "" if has_other_cases or _NOT_UTF8.search(literal) else literal


def _translate(pattern: str) -> str:
    missing = _NEEDS_RIPGREP.search(pattern)
    if missing:
        raise RegexError(f"{missing[1]} needs ripgrep, which is not installed here")
    pattern = re.sub(r"\[:(\w+):\]", lambda m: _CLASSES.get(m[1], m[0]), pattern)
    pattern = re.sub(r"(?<!\\)((?:\\\\)*)\(\?<([A-Za-z_])", r"\1(?P<\2", pattern)
    return _ESCAPE.sub(_escape, pattern)


def _escape(match: re.Match[str]) -> str:
    if match[1]:
        return re.escape(chr(int(match[1], 16)))
    if match[2]:
        return r"\b"
    return {"z": r"\Z", "<": r"\b", ">": r"\b"}.get(match[3], match[0])


MAX_SEARCHED_BYTES = 64 << 20
"""Maximum size of a file to search: larger files are skipped and reported, since they need several copies in memory."""


_BATCH = 256
_SMALL = 1 << 16
"""Maximum size of files that are read together: a batch is at most 16MB."""


async def search_with_python(
    ctx: ToolContext, files: Sequence[tuple[RealPath, str]], query: SearchQuery, *, as_text: bool
) -> SearchResult:
    """Search files given as pairs of real path and name.

    ``as_text`` includes files that contain NUL.

    Raises:
        RegexError: The pattern is invalid.
    """
    pattern = compile_regex(
        query.pattern, literal=query.literal, ignore_case=query.ignore_case, multiline=query.multiline
    )
    lines: dict[str, list[Line]] = {}
    counts: dict[str, int] = {}
    problems: list[str] = []
    search = _Search(pattern, query, as_text, required_literal(pattern)).search_files
    found: list[_FileMatches] = []
    end = time.monotonic() + TIME_LIMIT
    for start in range(0, len(files), _BATCH):
        batch = files[start : start + _BATCH]
        paths = [path for path, _ in batch]
        contents = await read_files(ctx.env, paths, limit=_SMALL + 1, signal=ctx.signal)
        if ctx.is_aborted or time.monotonic() > end:
            problems.append("cancelled" if ctx.is_aborted else f"stopped after {TIME_LIMIT:g}s")
            break
        for i, (path, name) in enumerate(batch):
            data = contents[i]
            if isinstance(data, bytes) and len(data) > _SMALL:  # Read large files one by one to limit memory.
                (data,) = await read_files(ctx.env, [path], limit=MAX_SEARCHED_BYTES + 1)
            if isinstance(data, bytes) and len(data) > MAX_SEARCHED_BYTES:
                data = OSError(f"more than {MAX_SEARCHED_BYTES} bytes, which only ripgrep searches")
            if isinstance(data, OSError):
                problems.append(f"{name}: {explain(data)}")
                contents[i] = b""
            elif len(data) > _SMALL:
                contents[i] = b""
                found += await asyncio.to_thread(search, [name], [data])
        found += await asyncio.to_thread(search, [name for _, name in batch], contents)
    for name, hits, count in found:
        counts[name] = count
        if query.needs_lines:
            lines[name] = hits
    return SearchResult(lines, counts, tuple(problems))


_FileMatches = tuple[str, list[Line], int]


class _Search(Struct, frozen=True):
    """A search in the content of files.

    Attributes:
        pattern: The compiled pattern.
        query: The text search.
        as_text: Whether to search files that contain NUL.
        literal: Text that every match contains; empty if unknown.
    """

    pattern: re.Pattern[str]
    query: SearchQuery
    as_text: bool
    literal: str

    def search_files(self, names: Sequence[str], contents: Sequence[bytes | OSError]) -> list[_FileMatches]:
        """Return the matches in each file; files without matches are omitted."""
        found: list[_FileMatches] = []
        encoded = self.literal.encode("utf-8", "surrogateescape")
        for name, data in zip(names, contents, strict=True):
            if isinstance(data, bytes) and data and self._may_match(data, encoded):
                lines, count = self._search_text(data)
                if count:
                    found.append((name, lines, count))
        return found

    def _may_match(self, data: bytes, literal: bytes) -> bool:
        """Return False if a file cannot contain a match, without decoding it."""
        if literal in data or detect_bom(data)[1] not in ("", "utf-8"):
            return True
        if not self.pattern.flags & re.IGNORECASE:
            return False
        return not data.isascii() or literal.lower() in data.lower()

    def _search_text(self, data: bytes) -> tuple[list[Line], int]:
        mark, encoding = detect_bom(data)
        if encoding not in ("", "utf-8"):
            text = data[len(mark) :].decode(encoding, "replace")
        elif b"\0" in data and not self.as_text:
            return [], 0
        else:
            text = data[len(mark) :].decode("utf-8", "surrogateescape")
        lines = text.split("\n")
        if "\r" in text:
            lines = [line.removesuffix("\r") for line in lines]
        if not lines[-1]:
            lines.pop()
        hits = _match_multiline(lines, self.pattern) if self.query.multiline else self._match_lines(lines)
        return (_with_context(lines, hits, self.query.context) if self.query.needs_lines else []), len(hits)

    def _match_lines(self, lines: Sequence[str]) -> dict[int, int]:
        """Return the column of the first match by line index."""
        search, literal = self.pattern.search, "" if self.pattern.flags & re.IGNORECASE else self.literal
        return {i: found.start() + 1 for i, line in enumerate(lines) if literal in line and (found := search(line))}


def _match_multiline(lines: Sequence[str], pattern: re.Pattern[str]) -> dict[int, int]:
    """Return the same for matches that may span lines: each line of a match counts."""
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
    requested = {j for i in hits for j in range(max(0, i - context), min(len(lines), i + context + 1))}
    return [
        Line(i + 1, lines[i].encode("utf-8", "surrogateescape").decode("utf-8", "replace"), hits.get(i, 0))
        for i in sorted(requested)
    ]
