"""`grep`: search text in files."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mainspring.env import RealPath
from mainspring.env.paths import display_path, to_sort_key
from mainspring.globs import GlobError, compile_glob
from mainspring.lazy import lazy_function
from mainspring.tools.support.paths import failure
from mainspring.tools.support.search.engines import (
    Line,
    RegexError,
    SearchQuery,
    SearchResult,
    escape_literal_braces,
    escape_nul,
    needs_multiline,
    search_file,
    search_folder,
    truncate_line,
)
from mainspring.tools.support.search.file_list import list_files_below
from mainspring.tools.support.search.paths import (
    SearchRoot,
    filter_paths,
    filter_visible,
    resolve_search_root,
    search_accesses,
)
from mainspring.tools.support.text_files import replace_surrogates
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

if TYPE_CHECKING:
    from mainspring.tools.support.search.python_engine import search_with_python
else:
    search_with_python = lazy_function("mainspring.tools.support.search.python_engine", "search_with_python")

DEFAULT_LIMIT = 250


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    if not arguments["pattern"]:
        return failure(ToolErrorCode.VALIDATION_ERROR, "pattern is empty, so it would match everything.")
    if replace_surrogates(arguments["pattern"]) != arguments["pattern"]:
        return failure(
            ToolErrorCode.VALIDATION_ERROR, "pattern has half a surrogate pair, which no text contains. Remove it."
        )
    found = await resolve_search_root(ctx, arguments.get("path") or ".")
    if isinstance(found, ToolResult):
        return found
    globs = [g for g in (found.glob and "./" + found.glob, arguments.get("glob") or "") if g]
    query = _query(arguments)
    try:
        filters = [compile_glob(g) for g in globs]
        hits = await _search(ctx, found, query, globs, max_lines=_max_lines(arguments))
    except GlobError as e:
        return failure(ToolErrorCode.VALIDATION_ERROR, f"{e}.")
    except RegexError as e:
        text = f"pattern is not a valid regular expression: {e}. Escape it, or set literal=true to find it literally."
        return failure(ToolErrorCode.VALIDATION_ERROR, text)
    paths = sorted(filter_paths(hits.counts, filters), key=to_sort_key)
    allowed, withheld = (await filter_visible(ctx, found.path, paths)) if found.stat.kind == "directory" else (paths, 0)
    if withheld and query.needs_lines and len(hits.lines) < len(hits.counts):
        hits = await _search(ctx, found, query, globs)  # the lines to show may be in files that have only counts
        allowed = [path for path in allowed if path in hits.counts]
    return _report(arguments, ctx, found, hits, allowed, withheld)


def _query(arguments: Mapping[str, Any]) -> SearchQuery:
    pattern, literal = escape_nul(arguments["pattern"], bool(arguments.get("literal", False)))
    return SearchQuery(
        pattern if literal else escape_literal_braces(pattern),
        literal=literal,
        ignore_case=bool(arguments.get("ignore_case", False)),
        multiline=bool(arguments.get("multiline", False)) or needs_multiline(pattern),
        context=int(arguments.get("context", 0)),
        output=arguments.get("output_mode", "content"),
        include_ignored=bool(arguments.get("include_ignored", False)),
    )


def _max_lines(arguments: Mapping[str, Any]) -> int | None:
    limit = int(arguments.get("head_limit", DEFAULT_LIMIT))
    return limit + int(arguments.get("offset", 0)) if limit else None


async def _search(
    ctx: ToolContext,
    search_root: SearchRoot,
    query: SearchQuery,
    globs: Sequence[str],
    *,
    max_lines: int | None = None,
) -> SearchResult:
    program = await ctx.env.find_program("rg")
    above, name = posixpath.split(search_root.path)
    folder = RealPath(above)
    if search_root.stat.kind == "file" and program:
        return await _decode(ctx, folder, query, await search_file(ctx, program, folder, name, query), as_text=True)
    if program:
        glob = globs[0] if len(globs) == 1 else ""
        hits = await search_folder(ctx, program, search_root.path, query, glob=glob)
        return await _decode(ctx, search_root.path, query, hits, as_text=False)
    if search_root.stat.kind == "file":
        return await search_with_python(ctx, [(search_root.path, name)], query, as_text=True)
    listing = await list_files_below(ctx, search_root.path, include_ignored=query.include_ignored)
    paths = await asyncio.to_thread(filter_paths, listing.paths, [compile_glob(g) for g in globs])
    files = [(search_root.path / p, p) for p in paths]
    hits = await search_with_python(ctx, files, query, as_text=False, max_lines=max_lines)
    return replace(hits, problems=(*listing.problems, *hits.problems))


async def _decode(
    ctx: ToolContext, root: RealPath, query: SearchQuery, hits: SearchResult, *, as_text: bool
) -> SearchResult:
    """Search the files again that ripgrep cannot decode."""
    if not hits.undecoded:
        return hits
    try:
        found = await search_with_python(ctx, [(root / p, p) for p in hits.undecoded], query, as_text=as_text)
    except RegexError:  # only ripgrep supports the pattern, so the other files have to do
        return hits
    again = set(hits.undecoded)
    counts = {name: count for name, count in hits.counts.items() if name not in again} | found.counts
    lines = {name: rows for name, rows in hits.lines.items() if name not in again} | found.lines
    return SearchResult(lines, counts, (*hits.problems, *found.problems), {**hits.encodings, **found.encodings})


def _report(
    arguments: Mapping[str, Any],
    ctx: ToolContext,
    search_root: SearchRoot,
    hits: SearchResult,
    paths: Sequence[str],
    withheld: int,
) -> ToolResult:

    def name_of(path: str) -> str:
        return display_path(posixpath.join(base, path), ctx.env.cwd)

    mode = arguments.get("output_mode", "content")
    limit, offset = int(arguments.get("head_limit", DEFAULT_LIMIT)), int(arguments.get("offset", 0))
    is_file = search_root.stat.kind == "file"
    base = posixpath.dirname(search_root.path) if is_file else search_root.path
    total = sum(hits.counts[p] for p in paths)
    if mode == "content":
        lines, count = _format_matches(
            hits,
            paths,
            None if is_file else name_of,
            offset=offset,
            limit=limit,
            context=int(arguments.get("context", 0)),
        )
        size = total
    else:
        page = paths[offset : offset + limit] if limit else paths[offset:]
        lines = [name_of(p) if mode == "files" else f"{name_of(p)}:{hits.counts[p]}" for p in page]
        count, size = len(page), len(paths)
    summary = f"{total} matching line{'' if total == 1 else 's'} in {len(paths)} file{'' if len(paths) == 1 else 's'}"
    if not paths:
        summary = f"no matches in {search_root.name}"
    elif count < size:
        unit = "lines" if mode == "content" else "files"
        summary = f"{unit} {offset + 1}-{offset + count} of {summary}"
        if offset + count < size:
            summary += f"; continue with offset={offset + count}"
    notes = [summary, *_format_encodings(hits, paths, name_of)]
    notes += _format_notes(arguments, search_root, hits, withheld, bool(paths))
    outcome = "incomplete" if hits.problems else "matches" if paths else "none"
    return ToolResult(
        output=replace_surrogates("\n".join([*lines, f"({'; '.join(notes)})"])),
        title=f"{arguments['pattern']}: {summary}",
        metadata={
            "outcome": outcome,
            "matches": total,
            "files": len(paths),
            "shown": count,
            "withheld": withheld,
            "problems": list(hits.problems),
        },
        is_error=bool(hits.problems) and not paths,
        code=ToolErrorCode.IO_ERROR if hits.problems and not paths else None,
    )


def _format_notes(
    arguments: Mapping[str, Any], search_root: SearchRoot, hits: SearchResult, withheld: int, any_found: bool
) -> list[str]:
    notes: list[str] = []
    if search_root.stat.kind == "directory":
        left_out = (
            "binary files and .git" if arguments.get("include_ignored") else "ignored files, binary files and .git"
        )
        hint = "" if any_found or arguments.get("include_ignored") else "; include_ignored=true adds ignored files"
        notes.append(f"not searched: {left_out}{hint}")
    if withheld:
        notes.append(f"{withheld} file{'' if withheld == 1 else 's'} with matches withheld by the permission rules")
    if hits.problems:
        more = f" and {len(hits.problems) - 5} more" if len(hits.problems) > 5 else ""
        notes.append(f"INCOMPLETE: {'; '.join(hits.problems[:5])}{more}")
    return notes


def _format_encodings(hits: SearchResult, paths: Sequence[str], name_of: Callable[[str], str]) -> list[str]:
    """Return which files with matches are not UTF-8, with their encoding."""
    read = [f"{name_of(path)} as {hits.encodings[path]}" for path in paths if path in hits.encodings]
    more = f" and {len(read) - 5} more" if len(read) > 5 else ""
    return [f"decoded {', '.join(read[:5])}{more}"] if read else []


def _format_matches(
    hits: SearchResult,
    paths: Sequence[str],
    name_of: Callable[[str], str] | None,
    *,
    offset: int,
    limit: int,
    context: int,
) -> tuple[list[str], int]:
    """Return the requested matching lines with context, under their file names, and the number of lines."""
    out: list[str] = []
    seen = count = 0
    for path in paths:
        if limit and count >= limit:
            break
        lines = hits.lines[path]
        matching = [line.number for line in lines if line.column]
        page = matching[max(0, offset - seen) :][: limit - count if limit else None]
        seen += len(matching)
        count += len(page)
        if page and name_of:
            out += ([""] if out else []) + [name_of(path)]
        out += _lines_with_context(lines, page, context)
    return out, count


def _lines_with_context(lines: Sequence[Line], page: Sequence[int], context: int) -> list[str]:
    """Return the lines of one file within ``context`` lines of the requested lines; ``--`` marks gaps."""
    requested = {n for number in page for n in range(number - context, number + context + 1)}
    chosen = set(page)
    out: list[str] = []
    before = 0
    for line in lines:
        if line.number in requested:
            if context and before and line.number > before + 1:
                out.append("--")
            before = line.number
            out.append(f"{line.number}{':' if line.number in chosen else '-'}{truncate_line(line)}")
    return out


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    return search_accesses(str(arguments.get("path") or "."))


grep = Tool(
    name="grep",
    description=(
        "Search file contents with a regular expression (ripgrep's dialect), sorted by path. Files that .gitignore leaves "
        "out are not searched unless include_ignored; a path that is named always is."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string", "default": ".", "description": "File or folder."},
            "glob": {"type": "string", "description": "Only files like this, for example *.py or src/**/*.{ts,tsx}."},
            "output_mode": {
                "type": "string",
                "enum": ["content", "files", "count"],
                "default": "content",
                "description": "Matching lines, names of files, or lines per file.",
            },
            "ignore_case": {"type": "boolean", "default": False},
            "literal": {"type": "boolean", "default": False, "description": "pattern is plain text."},
            "context": {"type": "integer", "minimum": 0, "default": 0, "description": "Lines around a match."},
            "multiline": {
                "type": "boolean",
                "default": False,
                "description": "Matches may span lines; . is any character.",
            },
            "include_ignored": {"type": "boolean", "default": False},
            "head_limit": {
                "type": "integer",
                "minimum": 0,
                "default": DEFAULT_LIMIT,
                "description": "Most matching lines or files; 0: all.",
            },
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "How many to skip."},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Grep",
    source="builtin",
    idempotent=True,
    access=_access,
    path_params=("path",),
)
"""Search file contents."""
