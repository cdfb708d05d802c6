"""Text search by ripgrep."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from mainspring.env import OutputLimits, ProcessResult, RealPath
from mainspring.globs import expand_braces
from mainspring.lazy import lazy_re
from mainspring.tools.support.search.file_list import TIME_LIMIT, complaints, rules_for, unreadable
from mainspring.tools.support.search.hits import Hits, Line, Query
from mainspring.tools.support.search.proof import Row, disproved
from mainspring.tools.support.search.regex import PatternError
from mainspring.tools.tool import ToolContext

_LIMITS = OutputLimits(head=32 << 20, tail=0, cap=32 << 20)
_ROW = lazy_re(rb"(\d+)(?:-|:(?:(\d+)(:))?)")
_BINARY = lazy_re(
    rb'^(.*?): (?:WARNING: stopped searching binary file after match|binary file matches) \(found ".*" byte around offset \d+\)',
    re.DOTALL,
)
_PREFIX = lazy_re(r"^(?:error: |PCRE2: error compiling pattern at offset \d+: )")
_SIMPLE_NAME = lazy_re(r"[\w.*?-]+")


async def search_folder(
    ctx: ToolContext, program: str, root: RealPath, query: Query, *, glob: str, include_ignored: bool
) -> Hits:
    """Search the files below a folder. ``glob`` may narrow it; it need not be applied in full.

    Raises:
        PatternError: If the pattern is wrong.
    """
    rules = await rules_for(ctx, root, include_ignored)
    names = _names_for(glob)
    kinds = [part for name in names for part in ("--type-add", f"wanted:{name}")] + (["-t", "wanted"] if names else [])
    return await _search(ctx, [program, *rules, *kinds, *_options(query), "-e", query.pattern, "--", "."], root, query)


async def search_file(ctx: ToolContext, program: str, folder: RealPath, name: str, query: Query) -> Hits:
    """Search one file that was named: whatever it is, it is taken for text.

    Raises:
        PatternError: If the pattern is wrong.
    """
    arguments = [program, "--no-config", "--text", *_options(query), "-e", query.pattern, "--", f"./{name}"]
    return await _search(ctx, arguments, folder, query)


def _options(query: Query) -> list[str]:
    """Lines are wanted even where they are only counted, since lines can be checked against the files."""
    options = ["--color=never", "--no-heading", "--with-filename", "--null", "--crlf", "--engine=auto"]
    options += ["--line-number", "--column", f"--context={query.context if query.with_lines else 0}"]
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


async def _search(ctx: ToolContext, arguments: list[str], cwd: RealPath, query: Query) -> Hits:
    result = await ctx.env.run(arguments, cwd=cwd, timeout=TIME_LIMIT, signal=ctx.signal, limits=_LIMITS)
    problems = await unreadable(ctx, cwd, result.stderr.text)
    problems += ["cancelled"] if ctx.aborted else _problems(result, bool(problems))
    found = await asyncio.to_thread(_parsed, result.stdout.data)
    wrong = await disproved(ctx, cwd, found)
    if wrong:  # their names may be those of files elsewhere
        problems.append(f"{len(wrong)} file{'' if len(wrong) == 1 else 's'} changed during the search")
        found = {name: rows for name, rows in found.items() if name not in wrong}
    return await asyncio.to_thread(_hits, found, query.with_lines, tuple(problems))


def _problems(result: ProcessResult, is_explained: bool) -> list[str]:
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
        raise PatternError(_told(text))
    return complaints(result)


def _told(text: str) -> str:
    """The last sentence of ripgrep's complaint, which says what is wrong."""
    lines = [line for line in text.split("\n") if line.startswith("error:") or "PCRE2" in line]
    told = lines[-1] if lines else text.split("\n")[0]
    return _PREFIX.sub("", told)


def _parsed(data: bytes) -> dict[str, list[Row]]:
    """The lines that matched and those around them, by the name of the file."""
    found: dict[str, list[Row]] = {}
    binary: set[str] = set()
    begun = last = b""  # begun: the start of a name with a line feed; rows begin with ./, and a name ends with a NUL
    rows: list[Row] = []
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


def _hits(found: Mapping[str, Sequence[Row]], with_lines: bool, problems: tuple[str, ...]) -> Hits:
    counts = {name: sum(column > 0 for _, column, _ in rows) for name, rows in found.items()}
    lines = {name: [_line(*row) for row in rows] for name, rows in found.items()} if with_lines else {}
    return Hits(lines, counts, problems)


def _line(number: int, column: int, data: bytes) -> Line:
    at = len(data[: column - 1].decode("utf-8", "replace")) + 1 if column else 0
    return Line(number, data.decode("utf-8", "replace"), at)


def _path(name: bytes) -> str:
    return name.removeprefix(b"./").decode("utf-8", "surrogateescape")
