"""The search without ripgrep: it reads the files and searches them with Python's regular expressions."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, AnyStr

from msgspec import Struct

from mainspring.cancellation import CancelToken
from mainspring.env import RealPath, explain
from mainspring.env.protocol import read_files
from mainspring.lazy import lazy_re
from mainspring.tools.support.search.engines import Line, RegexError, SearchQuery, SearchResult
from mainspring.tools.support.search.file_list import TIME_LIMIT
from mainspring.tools.support.text_files import decode_text, detect_bom, is_utf8
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
_NOT_UTF8 = lazy_re(r"[\n\ud800-\udbff\ude00-\udfff\udc00-\udc7f]")
_NOT_FOLDED = lazy_re(r"[\niks]|[^\x00-\x7f]")
"""Characters that match others than their ASCII forms if case is ignored: for example, the long s matches an s."""
_CHARACTER_CODE = lazy_re(r"\\[xuUN0-9]")
_SEPARATORS = "\x1c\x1d\x1e\x1f"
"""The ASCII characters that are spaces in Unicode patterns only."""
_UTF16_OR_32_STARTS = b"\xff\xfe\0"
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


def required_literals(pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return texts on one line of which every match contains at least one; empty if unknown.

    If the pattern ignores case, the texts are in lowercase and ASCII, and a lowercase copy of each match contains one.
    """
    try:
        parse: Any = import_module("re._parser").parse
    except ImportError:
        return ()
    return _literals(parse(pattern.pattern, pattern.flags), bool(pattern.flags & re.IGNORECASE))


def _literals(parsed: Any, ignore_case: bool) -> tuple[str, ...]:
    """Return the best texts of a sequence: those whose shortest one is longest."""
    found: list[tuple[str, ...]] = []
    text = ""
    for operation, argument in parsed:
        if str(operation) == "LITERAL":
            text += chr(argument)
            continue
        text += "\n"  # ends the text before
        found.append(_inner_literals(str(operation), argument, ignore_case))
    parts = _NOT_FOLDED.split(text.lower()) if ignore_case else _NOT_UTF8.split(text)
    best = max([*found, *[(part,) for part in parts]], key=lambda texts: (min(map(len, texts), default=0), -len(texts)))
    return best if all(best) else ()


def _inner_literals(operation: str, argument: Any, ignore_case: bool) -> tuple[str, ...]:
    if operation == "SUBPATTERN" and not argument[1] and not argument[2]:  # without other flags
        return _literals(argument[3], ignore_case)
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0]:
        return _literals(argument[2], ignore_case)
    if operation == "BRANCH":
        branches = [_literals(branch, ignore_case) for branch in argument[1]]
        return tuple({text: None for branch in branches for text in branch}) if all(branches) else ()
    return ()


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


_BATCHES = ((256, 1 << 16), (16, 1 << 20), (1, MAX_SEARCHED_BYTES))
"""Number and maximum size of files that are read together: a batch is at most 16MB, or a single large file."""


async def search_with_python(
    ctx: ToolContext,
    files: Sequence[tuple[RealPath, str]],
    query: SearchQuery,
    *,
    as_text: bool,
    max_lines: int | None = None,
) -> SearchResult:
    """Search files.

    Args:
        ctx: The context of the call.
        files: Pairs of real path and name.
        query: The search.
        as_text: Whether to search files that contain NUL.
        max_lines: Maximum number of matching lines to return; the files after them have only counts.

    Raises:
        RegexError: The pattern is invalid.
    """
    pattern = compile_regex(
        query.pattern, literal=query.literal, ignore_case=query.ignore_case, multiline=query.multiline
    )
    search = _Search(pattern, query, as_text, required_literals(pattern))
    run = _Run(ctx, search, max_lines or sys.maxsize if query.needs_lines else 0)
    await run.search_files(files)
    return SearchResult(run.lines, run.counts, tuple(run.problems), run.encodings)


class _Run:
    """The reads of one search, and its result so far."""

    def __init__(self, ctx: ToolContext, search: _Search, missing_lines: int) -> None:
        self.lines: dict[str, list[Line]] = {}
        self.counts: dict[str, int] = {}
        self.problems: list[str] = []
        self.encodings: dict[str, str] = {}
        self._ctx = ctx
        self._search = search
        self._missing_lines = missing_lines
        self._end = time.monotonic() + TIME_LIMIT

    async def search_files(self, files: Sequence[tuple[RealPath, str]]) -> None:
        """Search files, which are sorted, in batches."""
        size, limit = _BATCHES[0]
        for start in range(0, len(files), size):
            found = await self._search_batch(files[start : start + size], limit, _BATCHES[1:])
            if found is None:
                self.problems.append("cancelled" if self._ctx.is_aborted else f"stopped after {TIME_LIMIT:g}s")
                return
            self.counts.update({name: count for name, _, count, _ in found})
            self.encodings.update({name: encoding for name, _, _, encoding in found if encoding})
            if self._missing_lines > 0:
                self.lines.update({name: lines for name, lines, _, _ in found})
                self._missing_lines -= sum(count for _, _, count, _ in found)

    async def _search_batch(
        self, files: Sequence[tuple[RealPath, str]], limit: int, larger_batches: Sequence[tuple[int, int]]
    ) -> list[_FileMatches] | None:
        """Return the matches in files, those larger than the limit in smaller batches; None if it must stop."""
        ctx, search = self._ctx, self._search
        contents = await read_files(ctx.env, [path for path, _ in files], limit=limit + 1, signal=ctx.signal)
        if ctx.is_aborted or time.monotonic() > self._end:
            return None
        larger: list[tuple[RealPath, str]] = []
        for i, (file, data) in enumerate(zip(files, contents, strict=True)):
            if isinstance(data, OSError):
                self.problems.append(f"{file[1]}: {explain(data)}")
            elif len(data) > limit:
                contents[i] = b""
                if search.skips(data):
                    continue
                if larger_batches:
                    larger.append(file)
                else:
                    self.problems.append(f"{file[1]}: more than {limit} bytes, which only ripgrep searches")
        names = [name for _, name in files]
        found = await asyncio.to_thread(search.search_files, names, contents, self._missing_lines > 0, ctx.signal)
        if larger:
            size, limit = larger_batches[0]
            for start in range(0, len(larger), size):
                more = await self._search_batch(larger[start : start + size], limit, larger_batches[1:])
                if more is None:
                    return None
                found += more
        return found


_FileMatches = tuple[str, list[Line], int, str]
"""Name, lines to show, number of matching lines, and the encoding if it is not UTF-8."""


class _Search(Struct, frozen=True):
    """A search in the content of files.

    Attributes:
        pattern: The compiled pattern.
        query: The text search.
        as_text: Whether to search files that contain NUL.
        literals: See `required_literals`.
    """

    pattern: re.Pattern[str]
    query: SearchQuery
    as_text: bool
    literals: tuple[str, ...]

    def search_files(
        self, names: Sequence[str], contents: Sequence[bytes | OSError], with_lines: bool, signal: CancelToken
    ) -> list[_FileMatches]:
        """Return the matches in each file; files without matches are omitted, and all after the signal is set."""
        found: list[_FileMatches] = []
        literals = [literal.encode("utf-8", "surrogateescape") for literal in self.literals]
        is_ascii = all(literal.isascii() for literal in literals)
        ignores_case = bool(self.pattern.flags & re.IGNORECASE)
        for name, data in zip(names, contents, strict=True):
            if signal.cancelled:
                break
            if not isinstance(data, bytes) or not data:
                continue
            lower = data.lower() if ignores_case and literals else data
            if literals and data[0] not in _UTF16_OR_32_STARTS and not _contains_any(lower, literals):
                if is_ascii or is_utf8(data):
                    continue  # without decoding it
            lines, count, encoding = self._search_data(data, lower, with_lines)
            if count:
                found.append((name, lines, count, encoding))
        return found

    @property
    def is_text(self) -> bool:
        """Whether the pattern matches one text only."""
        is_one = len(self.literals) == 1 and not self.pattern.flags & re.IGNORECASE
        return is_one and self.pattern.pattern in (self.literals[0], re.escape(self.literals[0]))

    def skips(self, data: bytes) -> bool:
        """Return True if a file that starts with ``data`` is not searched because it is binary."""
        return not self.as_text and b"\0" in data and not detect_bom(data)[1].startswith("utf-16")

    def _search_data(self, data: bytes, lower: bytes, with_lines: bool) -> tuple[list[Line], int, str]:
        mark, encoding = detect_bom(data)
        encoding = "" if encoding == "utf-8" else encoding
        if not encoding.startswith("utf-16") and self.skips(data):
            return [], 0, ""
        if not encoding and not is_utf8(data):
            document = decode_text(data)
            encoding = "" if document is None or document.damage else document.encoding
        if encoding:
            text = lower_text = _normalize(data[len(mark) :].decode(encoding, "replace"))
        else:
            text = _normalize(data[len(mark) :].decode("utf-8", "surrogateescape"))
            lower_text = text if lower is data else _normalize(lower[len(mark) :].decode("utf-8", "surrogateescape"))
        if not text:
            return [], 0, ""
        pattern = _select_pattern(self.pattern, text)
        if self.query.multiline:
            hits = _match_multiline(text, pattern)
        elif not self.literals or (encoding and self.pattern.flags & re.IGNORECASE):
            found = map(pattern.search, _lines(text))
            hits = {i: match.start() + 1 for i, match in enumerate(found) if match}
        elif with_lines or not self.is_text:
            hits = _match_lines(text, pattern, _finder(lower_text, self.literals))
        else:
            return [], _count_lines(text, self.literals[0]), encoding
        lines = _with_context(_lines(text), hits, self.query.context) if with_lines else []
        return lines, len(hits), encoding


def _select_pattern(pattern: re.Pattern[str], text: str) -> re.Pattern[str]:
    """Return the pattern, for ASCII text its ASCII variant: it has the same matches, and takes half the time."""
    source = pattern.pattern
    if not text.isascii() or not source.isascii() or _CHARACTER_CODE.search(source) or _contains_any(text, _SEPARATORS):
        return pattern
    return re.compile(source, pattern.flags & ~re.UNICODE | re.ASCII)


def _match_lines(text: str, pattern: re.Pattern[str], find: Callable[[int], int]) -> dict[int, int]:
    """Return the column of the first match by line index, and match only lines that ``find`` finds."""
    search = pattern.search
    hits: dict[int, int] = {}
    line = start = 0
    while (at := find(start)) >= 0:
        line_start = max(start, text.rfind("\n", start, at) + 1)
        line_end = text.index("\n", at)
        line += text.count("\n", start, line_start)
        found = search(text[line_start:line_end])
        if found:
            hits[line] = found.start() + 1
        line, start = line + 1, line_end + 1
    return hits


def _count_lines(text: str, literal: str) -> int:
    """Return the number of lines that contain a text."""
    count, at = 0, text.find(literal)
    while at >= 0:
        count += 1
        at = text.find(literal, text.index("\n", at))
    return count


def _contains_any(data: AnyStr, literals: Sequence[AnyStr]) -> bool:
    for literal in literals:
        if literal in data:
            return True
    return False


def _finder(text: str, literals: Sequence[str]) -> Callable[[int], int]:
    """Return a function that returns where the next of the literals starts, from a position; -1 if none follows."""
    if len(literals) == 1:
        return lambda start: text.find(literals[0], start)
    following = [text.find(literal) for literal in literals]

    def find(start: int) -> int:
        for i, at in enumerate(following):
            if 0 <= at < start:
                following[i] = text.find(literals[i], start)
        return min([at for at in following if at >= 0], default=-1)

    return find


def _normalize(text: str) -> str:
    """End every line with a line feed alone; lines end in CR if a text has no line feed."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r") if "\n" in text else text.replace("\r", "\n")
    return text if text.endswith("\n") or not text else text + "\n"


def _lines(text: str) -> list[str]:
    return text.split("\n")[:-1]


def _match_multiline(text: str, pattern: re.Pattern[str]) -> dict[int, int]:
    """Return the same for matches that may span lines: each line of a match counts."""
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
