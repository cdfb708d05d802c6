"""Text search in files with ripgrep, or with a slower Python engine that returns the same results."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct

from mainspring.env import OutputLimits, ProcessResult, RealPath, explain
from mainspring.env.protocol import read_files
from mainspring.globs import expand_braces
from mainspring.lazy import lazy_re
from mainspring.tools.support.search.file_list import (
    TIME_LIMIT,
    MatchedLine,
    disproved,
    find_violations,
    parse_unreadable,
    ripgrep_ignore_options,
)
from mainspring.tools.support.text_files import detect_bom
from mainspring.tools.tool import ToolContext

_LITERAL_BRACE = lazy_re(r"\\.|\{(?!\d+(?:,\d*)?\})|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)
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


class RegexError(ValueError):
    """The pattern is not a valid regular expression; the message contains the reason."""


def escape_literal_braces(pattern: str) -> str:
    """Escape each ``{`` that does not begin a repetition, for example, in ``interface{}`` or ``func() {``."""
    return _LITERAL_BRACE.sub(lambda m: "\\{" if m[0] == "{" and not _is_escape_argument(m) else m[0], pattern)


def escape_nul(pattern: str, literal: bool) -> tuple[str, bool]:
    r"""Replace NUL, which a program argument cannot contain, with ``\x00``.

    Also return whether the pattern is text.
    """
    if "\0" not in pattern:
        return pattern, literal
    if literal:
        pattern = re.sub(r"[^\w\s\0]", lambda m: "\\" + m[0], pattern, flags=re.ASCII)
    return pattern.replace("\0", r"\x00"), False


def needs_multiline(pattern: str) -> bool:
    """Return True if a pattern matches a line feed and so requires multi-line search."""
    return "\n" in pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", pattern) is not None


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


def _is_escape_argument(match: re.Match[str]) -> bool:
    r"""Return True if the brace belongs to an escape such as ``\p{`` or ``\x{``."""
    before = match.string[: match.start()]
    found = re.search(r"(\\+)[pPxuUb]\Z", before)
    return found is not None and len(found[1]) % 2 == 1


MAX_SHOWN_CHARS = 500
_CONTROLS = lazy_re(r"[\x00-\x08\x0a-\x1f\x7f]")


OutputMode = Literal["content", "files", "count"]


class SearchQuery(Struct, frozen=True):
    """A text search.

    Attributes:
        pattern: Regular expression, or text.
        literal: Whether the pattern is text.
        ignore_case: Whether to ignore case.
        multiline: Whether a match may span lines.
        context: Number of lines to show before and after a match.
        output: Kind of output.
    """

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    output: OutputMode = "content"

    @property
    def needs_lines(self) -> bool:
        """Whether the output contains lines, not only counts."""
        return self.output == "content"


class Line(Struct, frozen=True):
    """A line to show; ``column`` is where the first match starts, counted from 1, or 0 for a context line."""

    number: int
    text: str
    column: int = 1


class SearchResult(Struct, frozen=True):
    """Result of a search.

    Attributes:
        lines: Matching lines and context lines, in order, by path relative to the search root. Empty unless the output is
            ``content``.
        counts: Number of matching lines, by path.
        problems: Reasons why the result is incomplete; empty if it is complete.
    """

    lines: dict[str, list[Line]]
    counts: dict[str, int]
    problems: tuple[str, ...] = ()


def truncate_line(line: Line) -> str:
    """Return a line's text; of a very long line, only the part around the match."""
    text = _CONTROLS.sub("\ufffd", line.text)
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    start = max(0, min(line.column - 1 - MAX_SHOWN_CHARS // 4, len(text) - MAX_SHOWN_CHARS))
    end = start + MAX_SHOWN_CHARS
    before = f"…({start} characters) " if start else ""
    after = f" …({len(text) - end} more characters)" if end < len(text) else ""
    return before + text[start:end] + after


_LIMITS = OutputLimits(head=32 << 20, tail=0, cap=32 << 20)
_ROW = lazy_re(rb"(\d+)(?:-|:(?:(\d+)(:))?)")
_BINARY = lazy_re(
    rb'^(.*?): (?:WARNING: stopped searching binary file after match|binary file matches) \(found ".*" byte around offset \d+\)',
    re.DOTALL,
)
_PREFIX = lazy_re(r"^(?:error: |PCRE2: error compiling pattern at offset \d+: )")
_SIMPLE_NAME = lazy_re(r"[\w.*?-]+")


async def search_folder(
    ctx: ToolContext, program: str, root: RealPath, query: SearchQuery, *, glob: str, include_ignored: bool
) -> SearchResult:
    """Search the files below a folder.

    ``glob`` may narrow the search, but need not be applied completely.

    Raises:
        RegexError: The pattern is invalid.
    """
    rules = await ripgrep_ignore_options(ctx, root, include_ignored)
    names = _glob_file_names(glob)
    kinds = [part for name in names for part in ("--type-add", f"wanted:{name}")] + (["-t", "wanted"] if names else [])
    return await _run_ripgrep(
        ctx, [program, *rules, *kinds, *_options(query), "-e", query.pattern, "--", "."], root, query
    )


async def search_file(ctx: ToolContext, program: str, folder: RealPath, name: str, query: SearchQuery) -> SearchResult:
    """Search a file that the caller named; any content is searched as text.

    Raises:
        RegexError: The pattern is invalid.
    """
    arguments = [program, "--no-config", "--text", *_options(query), "-e", query.pattern, "--", f"./{name}"]
    return await _run_ripgrep(ctx, arguments, folder, query)


def _options(query: SearchQuery) -> list[str]:
    """Return the options.

    Lines are requested even if they are only counted, so that they can be verified against the files.
    """
    options = ["--color=never", "--no-heading", "--with-filename", "--null", "--crlf", "--engine=auto"]
    options += ["--line-number", "--column", f"--context={query.context if query.needs_lines else 0}"]
    if query.literal:
        options.append("--fixed-strings")
    if query.ignore_case:
        options.append("--ignore-case")
    if query.multiline:
        options += ["--multiline", "--multiline-dotall"]
    return options


def _glob_file_names(glob: str) -> list[str]:
    """Return file names that every match of a glob has, if they are easy to determine."""
    names = [part.rpartition("/")[2] for part in expand_braces(glob)] if glob else []
    simple = all(_SIMPLE_NAME.fullmatch(name) and name != "**" for name in names)
    return list(dict.fromkeys(names)) if simple else []


async def _run_ripgrep(ctx: ToolContext, arguments: list[str], cwd: RealPath, query: SearchQuery) -> SearchResult:
    result = await ctx.env.run(arguments, cwd=cwd, timeout=TIME_LIMIT, signal=ctx.signal, limits=_LIMITS)
    problems = await parse_unreadable(ctx, cwd, result.stderr.text)
    problems += ["cancelled"] if ctx.is_aborted else _check_result(result, bool(problems))
    found = await asyncio.to_thread(_parsed, result.stdout.data)
    wrong = await disproved(ctx, cwd, found)
    if wrong:  # their names may belong to files outside the folder
        problems.append(f"{len(wrong)} file{'' if len(wrong) == 1 else 's'} changed during the search")
        found = {name: rows for name, rows in found.items() if name not in wrong}
    return await asyncio.to_thread(_hits, found, query.needs_lines, tuple(problems))


def _check_result(result: ProcessResult, is_explained: bool) -> list[str]:
    if result.timed_out:
        return [f"stopped after {TIME_LIMIT:g}s"]
    if result.overflowed:
        return ["stopped because too much matches"]
    if result.cancelled:
        return ["cancelled"]
    if result.exit_code <= 1 or is_explained:
        return []
    text = result.stderr.text.strip().removeprefix("rg: ")
    if not result.stdout.total and ("regex" in text or "PCRE2" in text or "parse error" in text):
        raise RegexError(_last_sentence(text))
    return find_violations(result)


def _last_sentence(text: str) -> str:
    """Return the last sentence of ripgrep's error output, which contains the problem."""
    lines = [line for line in text.split("\n") if line.startswith("error:") or "PCRE2" in line]
    message = lines[-1] if lines else text.split("\n")[0]
    return _PREFIX.sub("", message)


def _parsed(data: bytes) -> dict[str, list[MatchedLine]]:
    """Return the matching lines and their context lines by file name."""
    found: dict[str, list[MatchedLine]] = {}
    binary: set[str] = set()
    begun = last = b""  # begun: the start of a name with a line feed; rows begin with ./, and a name ends with a NUL
    rows: list[MatchedLine] = []
    for line in data.split(b"\n"):
        name, zero, rest = line.partition(b"\0")
        if not zero:
            match = _BINARY.match(begun + line)
            if match:
                binary.add(_path(match[1]))
                begun = b""
            elif begun or line.startswith(b"./"):
                begun += line + b"\n"
            continue
        name, begun = begun + name, b""
        if name != last:
            rows, last = found.setdefault(_path(name), []), name
        match = _ROW.match(rest)
        if match:
            rows.append((int(match[1]), int(match[2] or 1) if match[3] else 0, rest[match.end() :].removesuffix(b"\r")))
    return {name: rows for name, rows in found.items() if rows and name not in binary}


def _hits(matches: Mapping[str, Sequence[MatchedLine]], with_lines: bool, problems: tuple[str, ...]) -> SearchResult:
    counts = {name: sum(column > 0 for _, column, _ in rows) for name, rows in matches.items()}
    lines = {name: [_line(*row) for row in rows] for name, rows in matches.items()} if with_lines else {}
    return SearchResult(lines, counts, problems)


def _line(number: int, column: int, data: bytes) -> Line:
    at = len(data[: column - 1].decode("utf-8", "replace")) + 1 if column else 0
    return Line(number, data.decode("utf-8", "replace"), at)


def _path(name: bytes) -> str:
    return name.removeprefix(b"./").decode("utf-8", "surrogateescape")


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
