"""Resolve the root of a search from the arguments of a call."""

from __future__ import annotations

import inspect
import posixpath
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from mainspring.env import FileStat, RealPath, explain
from mainspring.env.beneath import PathChangedError
from mainspring.env.paths import composed_variants, display_path
from mainspring.errors import PermissionDeniedError
from mainspring.globs import has_wildcard, split_at_wildcard
from mainspring.tools.support.paths import failure, resolve_spelling
from mainspring.tools.tool import Access, ToolContext, ToolErrorCode, ToolResult


class SearchRoot(Struct, frozen=True):
    """A file or folder to search.

    Attributes:
        path: Real path.
        name: Display name.
        stat: Status of the file or folder.
        glob: Pattern in the path argument for paths below the root; empty if none.
    """

    path: RealPath
    name: str
    stat: FileStat
    glob: str = ""


def changed(verb: str, path: str, error: PathChangedError) -> PermissionDeniedError:
    """Return the error for a path that became a symbolic link after the call was approved."""
    return PermissionDeniedError(f"Cannot {verb} {display_path(path)}: {explain(error)}.")


def path_before_wildcard(path: str) -> str:
    """Return the part of a path argument before its first wildcard; the rest is a glob."""
    return split_at_wildcard(path)[0] if has_wildcard(path) else path


def join_pattern(path: str, pattern: str) -> str:
    """Return a pattern that starts at a path as a single path."""
    if not path or path == "." or pattern.startswith(("/", "~/")):
        return pattern
    return posixpath.join(path, pattern.removeprefix("./"))


async def resolve_search_root(ctx: ToolContext, path: str, verb: str = "search") -> SearchRoot | ToolResult:
    """Resolve a path argument to a file, a folder, or a folder and a glob below it; ``verb`` names the action in errors."""
    start = path
    try:
        real = await resolve_checked(ctx, path)
        try:
            stat = await ctx.env.stat(real)
        except FileNotFoundError:
            if not has_wildcard(path):
                raise
            start = path_before_wildcard(path)
            real = await resolve_checked(ctx, start)
            stat = await ctx.env.stat(real)
    except PathChangedError as e:
        raise changed(verb, start, e) from None
    except OSError as e:
        code = ToolErrorCode.NOT_FOUND if isinstance(e, FileNotFoundError) else ToolErrorCode.IO_ERROR
        return failure(code, f"Cannot {verb} {display_path(start)}: {explain(e)}.")
    name = display_path(real, ctx.env.cwd)
    if stat.kind not in ("file", "directory"):
        return failure(ToolErrorCode.VALIDATION_ERROR, f"Cannot {verb} {name}: it is a {stat.kind}.")
    return SearchRoot(real, name, stat, "" if start == path else split_at_wildcard(path)[1])


def search_accesses(path: str) -> list[Access]:
    """Return the read accesses of a path argument: the path, and the folder before its first wildcard, with all accents."""
    paths = (path, path_before_wildcard(path))
    return [Access("fs-read", p) for p in dict.fromkeys((*paths, *[v for p in paths for v in composed_variants(p)]))]


def filter_paths(paths: Iterable[str], filters: Sequence[Callable[[str], bool]]) -> list[str]:
    """Return the paths that all filters match."""
    found = list(paths)
    for matches in filters:
        found = [path for path in found if matches(path)]
    return found


async def filter_visible(ctx: ToolContext, root: str, paths: Sequence[str]) -> tuple[list[str], int]:
    """Return the paths below a folder that permission rules allow to show, and the number of hidden paths."""
    guard = ctx.env.path_filter
    if guard is None:
        return list(paths), 0
    visible: list[str] = []
    for path in paths:
        answer = guard(posixpath.join(root, path.rstrip("/")))
        if await answer if inspect.isawaitable(answer) else answer:
            visible.append(path)
    return visible, len(paths) - len(visible)


def hidden_files_note(count: int) -> str:
    """Return the note that names were omitted."""
    return f"{count} name{'' if count == 1 else 's'} withheld by the permission rules"


async def resolve_checked(ctx: ToolContext, path: str) -> RealPath:
    """Return the approved real path of the search root."""
    return await resolve_spelling(ctx, path)
