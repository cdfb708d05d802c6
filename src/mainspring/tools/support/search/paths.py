"""Where a search looks, from the arguments of a call."""

from __future__ import annotations

import inspect
import posixpath
from collections.abc import Sequence

from msgspec import Struct

from mainspring.env import FileStat, RealPath, explain
from mainspring.env.beneath import PathChangedError
from mainspring.env.paths import shown
from mainspring.errors import PermissionDeniedError
from mainspring.globs import has_magic, split
from mainspring.tools.tool import Access, ToolContext, ToolErrorCode, ToolResult


class Place(Struct, frozen=True):
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


def failure(code: ToolErrorCode, text: str) -> ToolResult:
    """An error result."""
    return ToolResult(output=text, is_error=True, code=code)


def changed(verb: str, path: str, error: PathChangedError) -> PermissionDeniedError:
    """Return the error for a place that has become a link since the call was allowed."""
    return PermissionDeniedError(f"Cannot {verb} {shown(path)}: {explain(error)}.")


def start_of(path: str) -> str:
    """The part of a path argument that names a folder or file; what follows is a glob."""
    return split(path)[0] if has_magic(path) else path


def joined(path: str, pattern: str) -> str:
    """A pattern that starts at a path, as one path."""
    if not path or path == "." or pattern.startswith(("/", "~/")):
        return pattern
    return posixpath.join(path, pattern.removeprefix("./"))


async def place(ctx: ToolContext, path: str, verb: str = "search") -> Place | ToolResult:
    """What a path argument means: a file, a folder, or a folder and a glob below it; ``verb`` says what for."""
    start = path
    try:
        real = await settled(ctx, path)
        try:
            stat = await ctx.env.stat(real)
        except FileNotFoundError:
            if not has_magic(path):
                raise
            start = start_of(path)
            real = await settled(ctx, start)
            stat = await ctx.env.stat(real)
    except PathChangedError as e:
        raise changed(verb, start, e) from None
    except OSError as e:
        code = ToolErrorCode.NOT_FOUND if isinstance(e, FileNotFoundError) else ToolErrorCode.IO_ERROR
        return failure(code, f"Cannot {verb} {shown(start)}: {explain(e)}.")
    name = shown(real, ctx.env.cwd)
    if stat.kind not in ("file", "directory"):
        return failure(ToolErrorCode.VALIDATION_ERROR, f"Cannot {verb} {name}: it is a {stat.kind}.")
    return Place(real, name, stat, "" if start == path else split(path)[1])


def accesses(path: str) -> list[Access]:
    """What a path argument makes a call read: the path, and the folder before its first wildcard."""
    return [Access("fs-read", p) for p in dict.fromkeys((path, start_of(path)))]


async def shown_of(ctx: ToolContext, root: str, paths: Sequence[str]) -> tuple[list[str], int]:
    """Those of the paths below a folder that the permission rules let a search show, and how many they do not."""
    guard = ctx.env.guard
    if guard is None:
        return list(paths), 0
    kept: list[str] = []
    for path in paths:
        answer = guard(posixpath.join(root, path.rstrip("/")))
        if await answer if inspect.isawaitable(answer) else answer:
            kept.append(path)
    return kept, len(paths) - len(kept)


def withheld_note(count: int) -> str:
    """Tells that names were left out."""
    return f"{count} name{'' if count == 1 else 's'} withheld by the permission rules"


async def settled(ctx: ToolContext, path: str) -> RealPath:
    """The real path of where to search, as it was judged."""
    return RealPath(await ctx.resolve(path))
