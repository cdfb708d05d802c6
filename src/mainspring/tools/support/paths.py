"""Resolve paths that a model wrote to existing files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from mainspring.env import FileStat, RealPath, explain
from mainspring.env.paths import (
    composed_variants,
    display_path,
    is_inside,
    is_lookalike_name,
    is_system_refusal,
    path_variants,
)
from mainspring.tools.tool import Access, Scope, ToolContext, ToolErrorCode, ToolResult

_MAX_SUGGESTED = 5
_MAX_WALKED = 20_000


class ResolvedFile(Struct, frozen=True):
    """An existing file.

    Attributes:
        path: Real path, as approved.
        name: Display name.
        stat: Status of the file.
    """

    path: RealPath
    name: str
    stat: FileStat


def failure(code: ToolErrorCode, text: str, **metadata: Any) -> ToolResult:
    """Return an error result."""
    return ToolResult(output=text, is_error=True, code=code, metadata=metadata)


def os_error_result(what: str, name: str, error: OSError) -> ToolResult:
    """Return the result for an operating system error."""
    code = ToolErrorCode.IO_ERROR
    if isinstance(error, FileNotFoundError):
        code = ToolErrorCode.NOT_FOUND
    elif isinstance(error, PermissionError) and not is_system_refusal(error):
        code = ToolErrorCode.PERMISSION_DENIED
    return failure(code, f"Cannot {what} {name}: {explain(error)}.")


def file_accesses(scope: Scope, arguments: Mapping[str, Any]) -> list[Access]:
    """Return accesses for the path of a call and for its alternative spellings."""
    path = str(arguments.get("path", ""))
    return [Access(scope, p) for p in (path, *path_variants(path))]


async def resolve_spelling(ctx: ToolContext, path: str) -> RealPath:
    """Return the real path of what exists with the accents of the path composed in any way, or else of what can be made in a folder that exists.

    Raises:
        OSError: If the path cannot be resolved.
    """
    real = RealPath(await ctx.resolve(path))
    variants = [RealPath(await ctx.resolve(variant)) for variant in composed_variants(path)]
    if variants:
        for part in (str, posixpath.dirname):
            for spelling in (real, *variants):
                if await _exists(ctx, RealPath(part(spelling))):
                    return spelling
    return real


async def _exists(ctx: ToolContext, path: RealPath) -> bool:
    try:
        await ctx.env.stat(path)
    except OSError:
        return False
    return True


async def resolve_file(ctx: ToolContext, path: str, what: str) -> ResolvedFile | ToolResult:
    """Return the regular file at ``path``, or an error result that describes the problem.

    Candidates, in this order: the path unchanged, alternative spellings, and look-alike names in the folder.
    """
    try:
        real = RealPath(await ctx.resolve(path))
    except OSError as e:
        return os_error_result(what, display_path(path), e)
    try:
        return await _check_regular_file(ctx, real, what)
    except FileNotFoundError:
        pass
    except OSError as e:
        return os_error_result(what, display_path(path), e)
    for spelling in path_variants(path):
        try:
            return await _check_regular_file(ctx, RealPath(await ctx.resolve(spelling)), what)
        except OSError:
            continue
    above, name = posixpath.split(real)
    folder = RealPath(above)
    names = await _list_names(ctx, folder)
    alike = [n for n in names if is_lookalike_name(n, name)]
    if len(alike) == 1:
        return await _check_regular_file(ctx, folder / alike[0], what)
    similar = [posixpath.join(folder, n) for n in get_close_matches(name, names, _MAX_SUGGESTED, 0.6)]
    return await _not_found(ctx, path, real, similar)


async def _check_regular_file(ctx: ToolContext, real_path: RealPath, subject: str) -> ResolvedFile | ToolResult:
    stat = await ctx.env.stat(real_path)
    name = display_path(real_path, ctx.env.cwd)
    if stat.kind == "file":
        return ResolvedFile(real_path, name, stat)
    if stat.kind == "directory":
        return failure(
            ToolErrorCode.VALIDATION_ERROR, f"Cannot {subject} {name}: it is a folder. list_files shows what is in it."
        )
    return failure(
        ToolErrorCode.VALIDATION_ERROR, f"Cannot {subject} {name}: it is not a regular file but a {stat.kind}."
    )


async def _list_names(ctx: ToolContext, folder: RealPath) -> list[str]:
    try:
        return [entry.name for entry in await ctx.env.list_dir(folder)]
    except OSError:
        return []


async def _not_found(ctx: ToolContext, path: str, real_path: str, similar: list[str]) -> ToolResult:
    cwd = ctx.env.cwd
    if is_inside(real_path, cwd):
        name = posixpath.basename(real_path).lower()
        try:
            walk = await ctx.env.walk(cwd, limit=_MAX_WALKED, signal=ctx.signal)
        except OSError as e:  # the project folder itself does not exist
            text = f"{display_path(path)} does not exist, and the project folder {cwd} cannot be listed: {explain(e)}."
            return failure(ToolErrorCode.NOT_FOUND, text)
        same = [e.path for e in walk.entries if e.kind == "file" and posixpath.basename(e.path).lower() == name]
        similar = [*[posixpath.join(cwd, p) for p in same], *similar]
    suggestions = [display_path(p, cwd) for p in dict.fromkeys(similar)][:_MAX_SUGGESTED]
    text = f"{display_path(path)} does not exist (resolved path: {display_path(real_path)})."
    if suggestions:
        text += " Did you mean: " + ", ".join(suggestions) + "?"
    else:
        text += " glob finds files by name."
    return failure(ToolErrorCode.NOT_FOUND, text)
