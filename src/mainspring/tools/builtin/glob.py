"""`glob`: find files by name."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainspring.env import RealPath, explain
from mainspring.env.beneath import PathChangedError
from mainspring.env.paths import composed_variants, display_path
from mainspring.globs import GlobError, compile_glob, max_depth, split_at_wildcard
from mainspring.tools.support.paths import failure
from mainspring.tools.support.search.file_list import FileList, list_files_below
from mainspring.tools.support.search.paths import (
    changed,
    filter_paths,
    filter_visible,
    hidden_files_note,
    join_pattern,
    resolve_checked,
)
from mainspring.tools.tool import Access, Tool, ToolContext, ToolErrorCode, ToolResult

_LIMIT = 250


async def _execute(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
    pattern, path = arguments["pattern"], arguments.get("path") or "."
    include_ignored = bool(arguments.get("include_ignored", False))
    if not pattern.strip():
        return failure(ToolErrorCode.VALIDATION_ERROR, "pattern is empty. Use ** for all files, *.py for Python files.")
    start, rest = _split(path, pattern)
    try:
        real = await resolve_checked(ctx, start)
        stat = await ctx.env.stat(real)
    except PathChangedError as e:
        raise changed("search", start, e) from None
    except FileNotFoundError:
        return failure(ToolErrorCode.NOT_FOUND, f"No files match {pattern}: {display_path(start)} does not exist.")
    except OSError as e:
        return failure(ToolErrorCode.IO_ERROR, f"Cannot search {display_path(start)}: {explain(e)}.")
    if stat.kind != "directory":
        return failure(
            ToolErrorCode.VALIDATION_ERROR, f"{display_path(start)} is not a folder, so it contains no files."
        )
    try:
        matches = compile_glob(rest)
    except GlobError as e:
        return failure(ToolErrorCode.VALIDATION_ERROR, f"{e}.")
    limit = max_depth(rest)
    listing = await list_files_below(ctx, real, include_ignored=include_ignored, depth=limit)
    found = await asyncio.to_thread(filter_paths, listing.paths, [matches])
    if not found and limit is not None:  # The contents of directories may be deeper.
        listing = await list_files_below(ctx, real, include_ignored=include_ignored)
        found = await asyncio.to_thread(filter_paths, listing.paths, [matches])
    if not found:  # Directories count only if no file matches.
        found = await asyncio.to_thread(_matching_folders, listing.paths, matches)
    if not found and await _is_file(ctx, real / rest):
        found = [rest]  # a literal name with brackets
    found, withheld = await filter_visible(ctx, real, found)
    return _report(arguments, ctx, real, found, listing, withheld)


def _split(path: str, pattern: str) -> tuple[str, str]:
    """Return the folder where a pattern starts, and the pattern to match below it."""
    start, rest = split_at_wildcard(join_pattern(path, pattern))
    is_about_names = "/" not in pattern.rstrip("/") or "/" in rest.rstrip("/")
    return start, (rest if is_about_names else "./" + rest) or "**"


def _matching_folders(paths: Sequence[str], matches: Callable[[str], bool]) -> list[str]:
    folders: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    return [folder + "/" for folder in sorted(folders) if matches(folder)]


async def _is_file(ctx: ToolContext, path: RealPath) -> bool:
    try:
        return (await ctx.env.stat(path)).kind == "file"
    except OSError:
        return False


def _report(
    arguments: Mapping[str, Any],
    ctx: ToolContext,
    root: RealPath,
    names: Sequence[str],
    listing: FileList,
    withheld: int,
) -> ToolResult:
    limit, offset = int(arguments.get("limit", _LIMIT)), int(arguments.get("offset", 0))
    shown = names[offset : offset + limit] if limit else names[offset:]
    page = [display_path(posixpath.join(root, name), ctx.env.cwd) for name in shown]
    what = ("folder" if names and names[0].endswith("/") else "file") + ("" if len(names) == 1 else "s")
    if not names:
        head = f"No files match {arguments['pattern']}."
    elif len(page) < len(names):
        more = f"; continue with offset={offset + len(page)}" if offset + len(page) < len(names) else ""
        head = f"({what} {offset + 1}-{offset + len(page)} of {len(names)}{more})"
    else:
        head = f"({len(names)} {what})"
    notes = [head]
    if not names and not arguments.get("include_ignored"):
        notes.append("(not searched: ignored files and .git; include_ignored=true adds ignored files)")
    if withheld:
        notes.append(f"({hidden_files_note(withheld)})")
    if listing.problems:
        notes.append(f"(incomplete: {'; '.join(listing.problems[:5])})")
    outcome = "incomplete" if listing.problems else "matches" if names else "none"
    return ToolResult(
        output="\n".join([*page, *notes]),
        title=f"{arguments['pattern']}: {len(names)} {what}",
        metadata={
            "outcome": outcome,
            "total": len(names),
            "shown": len(page),
            "withheld": withheld,
            "problems": list(listing.problems),
        },
        is_error=bool(listing.problems) and not names,
        code=ToolErrorCode.IO_ERROR if listing.problems and not names else None,
    )


def _access(arguments: Mapping[str, Any]) -> list[Access]:
    path = str(arguments.get("path") or ".")
    start = _split(path, str(arguments.get("pattern", "")))[0]
    return [Access("fs-read", p) for p in (start, *composed_variants(start))]


glob = Tool(
    name="glob",
    description=(
        "Find files by name, sorted by path. *.py matches in all folders, src/*.py in src alone, src/**/*.{ts,tsx} below src. "
        "Files that .gitignore leaves out are not listed unless include_ignored."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "path": {"type": "string", "default": ".", "description": "The folder to look in."},
            "include_ignored": {"type": "boolean", "default": False},
            "limit": {"type": "integer", "minimum": 0, "default": _LIMIT, "description": "Most files; 0: all."},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "How many to skip."},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    },
    execute=_execute,
    label="Glob",
    source="builtin",
    idempotent=True,
    access=_access,
    path_params=("path",),
)
"""Find files by name."""
