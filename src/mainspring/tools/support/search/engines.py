"""Text search in files: queries, results, and the search with ripgrep."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mainspring.env import OutputLimits, ProcessResult, RealPath
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
from mainspring.tools.support.text_files import detect_bom, is_utf8
from mainspring.tools.tool import ToolContext

_LITERAL_BRACE = lazy_re(r"\\.|\{(?!\d+(?:,\d*)?\})|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*(?:\]|\Z)", re.DOTALL)


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
        include_ignored: Whether to search ignored files too.
    """

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    output: OutputMode = "content"
    include_ignored: bool = False

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
        encodings: The encoding of files with matches that are not UTF-8, by path.
        undecoded: Files that are neither UTF-8 nor UTF-16, or whose lines end in CR alone, which ripgrep cannot read.
    """

    lines: dict[str, list[Line]]
    counts: dict[str, int]
    problems: tuple[str, ...] = ()
    encodings: Mapping[str, str] = {}
    undecoded: tuple[str, ...] = ()


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
_NOT_UTF8 = (
    r"(?-u:[\xc0\xc1\xf5-\xff]|[\xc2-\xf4](?:[^\x80-\xbf]|$)|(?:^|[\x00-\x7f])[\x80-\xbf]"
    r"|[\xe0-\xf4][\x80-\xbf](?:[^\x80-\xbf]|$)|[\xf0-\xf4][\x80-\xbf]{2}(?:[^\x80-\xbf]|$)"
    r"|[\xc2-\xdf][\x80-\xbf]{2}|[\xe0-\xef][\x80-\xbf]{3}|[\x80-\xbf]{4})"
)
"""Regular expression of ripgrep for bytes that are not UTF-8."""
_ASCII_ESCAPE = lazy_re(r"\\[^\WwWdDsSbBpPxuUk]|\\[^\w]")
_ANY_CHARACTER = lazy_re(r"[.\\]|\[\^|\(\?")
_SIMPLE_NAME = lazy_re(r"[\w.*?-]+", re.ASCII)


async def search_folder(
    ctx: ToolContext, program: str, root: RealPath, query: SearchQuery, *, glob: str
) -> SearchResult:
    """Search the files below a folder.

    ``glob`` may narrow the search, but need not be applied completely.

    Raises:
        RegexError: The pattern is invalid.
    """
    rules = await ripgrep_ignore_options(ctx, root, query.include_ignored)
    names = _glob_file_names(glob)
    kinds = [part for name in names for part in ("--type-add", f"wanted:{name}")] + (["-t", "wanted"] if names else [])
    return await _run_ripgrep(ctx, [program, *rules, *kinds], ".", root, query)


async def search_file(ctx: ToolContext, program: str, folder: RealPath, name: str, query: SearchQuery) -> SearchResult:
    """Search a file that the caller named; any content is searched as text.

    Raises:
        RegexError: The pattern is invalid.
    """
    if detect_bom(await ctx.env.read_bytes(folder / name, limit=4))[1].startswith("utf-32"):
        return SearchResult({}, {}, undecoded=(name,))  # ripgrep knows neither this encoding nor its mark
    return await _run_ripgrep(ctx, [program, "--no-config", "--text"], f"./{name}", folder, query)


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


async def _run_ripgrep(
    ctx: ToolContext, program: Sequence[str], target: str, cwd: RealPath, query: SearchQuery
) -> SearchResult:
    def run(*options: str) -> Awaitable[ProcessResult]:
        arguments = [*program, *options, "--", target]
        return ctx.env.run(arguments, cwd=cwd, timeout=TIME_LIMIT, signal=ctx.signal, limits=_LIMITS)

    search = run(*_options(query), "-e", query.pattern)
    if _needs_decoding(
        query
    ):  # a match may contain characters that other encodings than UTF-8 represent in another way
        result, scan = await asyncio.gather(search, run("--files-with-matches", "--null", "-e", _NOT_UTF8))
    else:
        result, scan = await search, None
    problems = await parse_unreadable(ctx, cwd, result.stderr.text)
    problems += ["cancelled"] if ctx.is_aborted else _check_result(result, bool(problems))
    if scan is not None:
        problems += [problem for problem in _check_result(scan, True) if problem not in problems]
    found = await asyncio.to_thread(_parsed, result.stdout.data)
    undecoded = {name: None for name, rows in found.items() if not _can_show(rows)}
    undecoded |= dict.fromkeys(_path(name) for name in (scan.stdout.data if scan else b"").split(b"\0")[:-1])
    wrong, encodings = await disproved(ctx, cwd, {name: rows for name, rows in found.items() if name not in undecoded})
    if wrong:  # their names may belong to files outside the folder
        problems.append(f"{len(wrong)} file{'' if len(wrong) == 1 else 's'} changed during the search")
        found = {name: rows for name, rows in found.items() if name not in wrong}
    hits = await asyncio.to_thread(_hits, found, query.needs_lines, tuple(problems))
    return replace(hits, encodings=encodings, undecoded=tuple(undecoded))


def _can_show(rows: Sequence[MatchedLine]) -> bool:
    """Return True if ripgrep decoded the lines, and split them: a single line with a CR may be a file whose lines end in CR alone."""
    return all(is_utf8(text) for _, _, text in rows) and not (rows[-1][0] == 1 and b"\r" in rows[-1][2])


def _needs_decoding(query: SearchQuery) -> bool:
    """Return True if a match may contain other characters than ASCII."""
    text = query.pattern if query.literal else _ASCII_ESCAPE.sub("", query.pattern)
    return not text.isascii() or (not query.literal and _ANY_CHARACTER.search(text) is not None)


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
