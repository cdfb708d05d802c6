"""Where a search looks, from the arguments of a call."""

from __future__ import annotations

import inspect
import posixpath
from collections.abc import Sequence

from msgspec import Struct

from mainspring.env import FileStat, RealPath, explain
from mainspring.env.beneath import PathChangedError
from mainspring.env.paths import display_path
from mainspring.errors import PermissionDeniedError
from mainspring.globs import has_wildcard, split_at_wildcard
from mainspring.tools.tool import Access, ToolContext, ToolErrorCode, ToolResult


class SearchRoot(Struct, frozen=True):
    """A file or folder to search.

    Attributes:
        path: Its real path.
        name: How to show it.
        stat: What is known of it.
        glob: Pattern for paths below it that the path argument held; empty if none.
    """

    path: RealPath
    name: str
    stat: FileStat
    glob: str = ""


def search_failure(code: ToolErrorCode, text: str) -> ToolResult:
    """An error result."""
    return ToolResult(output=text, is_error=True, code=code)


def changed(verb: str, path: str, error: PathChangedError) -> PermissionDeniedError:
    """Return the error for a place that has become a link since the call was allowed."""
    return PermissionDeniedError(f"Cannot {verb} {display_path(path)}: {explain(error)}.")


def path_before_wildcard(path: str) -> str:
    """The part of a path argument that names a folder or file; what follows is a glob."""
    return split_at_wildcard(path)[0] if has_wildcard(path) else path


def join_pattern(path: str, pattern: str) -> str:
    """A pattern that starts at a path, as one path."""
    if not path or path == "." or pattern.startswith(("/", "~/")):
        return pattern
    return posixpath.join(path, pattern.removeprefix("./"))


async def resolve_search_root(ctx: ToolContext, path: str, verb: str = "search") -> SearchRoot | ToolResult:
    """What a path argument means: a file, a folder, or a folder and a glob below it; ``verb`` says what for."""
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
        return search_failure(code, f"Cannot {verb} {display_path(start)}: {explain(e)}.")
    name = display_path(real, ctx.env.cwd)
    if stat.kind not in ("file", "directory"):
        return search_failure(ToolErrorCode.VALIDATION_ERROR, f"Cannot {verb} {name}: it is a {stat.kind}.")
    return SearchRoot(real, name, stat, "" if start == path else split_at_wildcard(path)[1])


def search_accesses(path: str) -> list[Access]:
    """What a path argument makes a call read: the path, and the folder before its first wildcard."""
    return [Access("fs-read", p) for p in dict.fromkeys((path, path_before_wildcard(path)))]


async def filter_visible(ctx: ToolContext, root: str, paths: Sequence[str]) -> tuple[list[str], int]:
    """Those of the paths below a folder that the permission rules let a search show, and how many they do not."""
    guard = ctx.env.path_filter
    if guard is None:
        return list(paths), 0
    kept: list[str] = []
    for path in paths:
        answer = guard(posixpath.join(root, path.rstrip("/")))
        if await answer if inspect.isawaitable(answer) else answer:
            kept.append(path)
    return kept, len(paths) - len(kept)


def hidden_files_note(count: int) -> str:
    """Tells that names were left out."""
    return f"{count} name{'' if count == 1 else 's'} withheld by the permission rules"


async def resolve_checked(ctx: ToolContext, path: str) -> RealPath:
    """The real path of where to search, as it was judged."""
    return RealPath(await ctx.resolve(path))
