"""Text search by ripgrep."""

from __future__ import annotations

import asyncio
import re

from mainspring.env import OutputLimits, ProcessResult
from mainspring.lazy import lazy_re
from mainspring.tools.builtin.search.dialect import PatternError
from mainspring.tools.builtin.search.globs import expand_braces
from mainspring.tools.builtin.search.hits import Hits, Line, Query
from mainspring.tools.builtin.search.listing import TIME_LIMIT, rules_for, unreadable
from mainspring.tools.tool import ToolContext

_LIMITS = OutputLimits(head=32 << 20, tail=0, cap=32 << 20)
_MATCH = lazy_re(rb"(\d+):(?:(\d+):)?")
_AROUND = lazy_re(rb"(\d+)-")
_BINARY = lazy_re(
    rb'^(.*?): (?:WARNING: stopped searching binary file after match|binary file matches) \(found ".*" byte around offset \d+\)',
    re.DOTALL,
)
_PREFIX = lazy_re(r"^(?:error: |PCRE2: error compiling pattern at offset \d+: )")
_SIMPLE_NAME = lazy_re(r"[\w.*?-]+")


async def search_folder(
    ctx: ToolContext, program: str, root: str, query: Query, *, glob: str, include_ignored: bool
) -> Hits:
    """Search the files below a folder. ``glob`` may narrow it; it need not be applied in full.

    Raises:
        PatternError: If the pattern is wrong.
    """
    rules = await rules_for(ctx, root, include_ignored)
    names = _names_for(glob)
    kinds = [part for name in names for part in ("--type-add", f"wanted:{name}")] + (["-t", "wanted"] if names else [])
    return await _search(ctx, [program, *rules, *kinds, *_options(query), "-e", query.pattern, "--", "."], root, query)


async def search_file(ctx: ToolContext, program: str, folder: str, name: str, query: Query) -> Hits:
    """Search one file that was named: whatever it is, it is taken for text.

    Raises:
        PatternError: If the pattern is wrong.
    """
    arguments = [program, "--no-config", "--text", *_options(query), "-e", query.pattern, "--", f"./{name}"]
    return await _search(ctx, arguments, folder, query)


def _options(query: Query) -> list[str]:
    options = ["--color=never", "--no-heading", "--with-filename", "--null", "--crlf", "--engine=auto"]
    if query.with_lines:
        options += ["--line-number", "--column", f"--context={query.context}"]
    else:
        options.append("--count")
    if query.literal:
        options.append("--fixed-strings")
    if query.ignore_case:
        options.append("--ignore-case")
    if query.multiline:
        options += ["--multiline", "--multiline-dotall"]
    return options


def _names_for(glob: str) -> list[str]:
    """File names that every match of a glob has, where that is simple to say."""
    names = [part.rpartition("/")[2] for part in expand_braces(glob)] if glob else []
    simple = all(_SIMPLE_NAME.fullmatch(name) and name != "**" for name in names)
    return list(dict.fromkeys(names)) if simple else []


async def _search(ctx: ToolContext, arguments: list[str], cwd: str, query: Query) -> Hits:
    result = await ctx.env.run(arguments, cwd=cwd, timeout=TIME_LIMIT, signal=ctx.signal, limits=_LIMITS)
    problems = ("cancelled",) if ctx.aborted else _problems(result)
    hits = await asyncio.to_thread(_parsed, result.stdout.data, query.with_lines)
    return Hits(hits.lines, hits.counts, problems)


def _problems(result: ProcessResult) -> tuple[str, ...]:
    messages = result.stderr.text
    problems = unreadable(messages)
    if result.timed_out:
        problems.append(f"stopped after {TIME_LIMIT:g}s")
    elif result.overflowed:
        problems.append("stopped because too much matches")
    elif result.cancelled:
        problems.append("cancelled")
    elif result.exit_code > 1 and not problems:
        text = messages.strip().removeprefix("rg: ")
        if not result.stdout.total and ("regex" in text or "PCRE2" in text or "parse error" in text):
            raise PatternError(_told(text))
        problems.append(text[:300] or f"ripgrep ended with status {result.exit_code}")
    return tuple(problems)


def _told(text: str) -> str:
    """The last sentence of ripgrep's complaint, which says what is wrong."""
    lines = [line for line in text.split("\n") if line.startswith("error:") or "PCRE2" in line]
    told = lines[-1] if lines else text.split("\n")[0]
    return _PREFIX.sub("", told)


def _parsed(data: bytes, with_lines: bool) -> Hits:
    lines: dict[str, list[Line]] = {}
    counts: dict[str, int] = {}
    binary: set[str] = set()
    begun = b""  # The start of a name that holds a line feed: rows begin with ./, and a name ends with a NUL.
    for row in data.split(b"\n"):
        name, zero, rest = row.partition(b"\0")
        if not zero:
            found = _BINARY.match(begun + row)
            if found:
                binary.add(_path(found[1]))
                begun = b""
            elif begun or row.startswith(b"./"):
                begun += row + b"\n"
            continue
        name, begun = begun + name, b""
        path = _path(name)
        if not with_lines:
            counts[path] = int(rest)
            continue
        line = _line(rest)
        if line:
            lines.setdefault(path, []).append(line)
            counts[path] = counts.get(path, 0) + (line.column > 0)
    for path in binary:
        lines.pop(path, None)
        counts.pop(path, None)
    return Hits(lines, counts)


def _line(rest: bytes) -> Line | None:
    match = _MATCH.match(rest)
    if match:
        data = rest[match.end() :].removesuffix(b"\r")
        at = int(match[2] or 1)
        column = len(data[: at - 1].decode("utf-8", "replace")) + 1
        return Line(int(match[1]), data.decode("utf-8", "replace"), column)
    around = _AROUND.match(rest)
    if around:
        return Line(int(around[1]), rest[around.end() :].removesuffix(b"\r").decode("utf-8", "replace"), 0)
    return None


def _path(name: bytes) -> str:
    return name.removeprefix(b"./").decode("utf-8", "surrogateescape")
