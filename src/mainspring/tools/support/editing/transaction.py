"""Making the changes of a patch: all of them, or none that can be undone."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from mainspring.env import RealPath
from mainspring.env.paths import is_inside
from mainspring.tools.tool import ToolContext


class WriteStep(Struct, frozen=True):
    """A file gets new content.

    Attributes:
        path: Its real path.
        data: The content.
        before: What it held; ``None`` if there was none.
    """

    path: RealPath
    data: bytes
    before: bytes | None


class MoveStep(Struct, frozen=True):
    """A file gets another name, and whatever had that name goes."""

    path: RealPath
    target: RealPath
    replaces: bool = False


class RemoveStep(Struct, frozen=True):
    """A file goes."""

    path: RealPath


FileStep = WriteStep | MoveStep | RemoveStep


async def apply_steps(ctx: ToolContext, steps: Sequence[FileStep]) -> None:
    """Do all steps. If one fails, those before it are undone.

    A removed file only gets a hidden name until all went well, so that it can come back as it was.

    Raises:
        OSError: What the step that failed met.
    """
    undo: list[Callable[[], Awaitable[None]]] = []
    set_aside: list[RealPath] = []
    try:
        for step in steps:
            await _apply_step(ctx, step, undo, set_aside)
    except BaseException:
        for back in reversed(undo):
            await _quietly(back)
        raise
    for path in set_aside:
        await _quietly(lambda path=path: ctx.env.remove(path))


async def _apply_step(
    ctx: ToolContext, step: FileStep, undo: list[Callable[[], Awaitable[None]]], set_aside: list[RealPath]
) -> None:
    env = ctx.env
    match step:
        case WriteStep(path, data, before):
            if before is None:
                undo.append(lambda: env.remove(path))
            else:
                undo.append(lambda: env.write_bytes(path, before))
            await env.write_bytes(path, data, parents=is_inside(path, env.cwd))
        case MoveStep(path, target, replaces):
            if replaces:
                await _set_aside(ctx, target, undo, set_aside)
            await env.rename(path, target, parents=is_inside(target, env.cwd))
            undo.append(lambda: env.rename(target, path))
        case RemoveStep(path):
            await _set_aside(ctx, path, undo, set_aside)


async def _set_aside(
    ctx: ToolContext, path: RealPath, undo: list[Callable[[], Awaitable[None]]], set_aside: list[RealPath]
) -> None:
    folder, name = posixpath.split(path)
    hidden = RealPath(folder) / f".{name[:100]}.{secrets.token_hex(4)}.removed"
    await ctx.env.rename(path, hidden)
    undo.append(lambda: ctx.env.rename(hidden, path))
    set_aside.append(hidden)


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except OSError:
        pass  # What cannot be undone or tidied up stays; the failure that is told is the first one.
