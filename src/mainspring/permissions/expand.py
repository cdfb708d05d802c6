"""What the wildcards of a shell word stand for right now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mainspring.env import DirEntry
from mainspring.shell_analysis import wildcards

MAX_PATHS = 200
"""A word that stands for more is not expanded."""


@runtime_checkable
class Lister(Protocol):
    """An environment that can list a folder."""

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        ...


async def expand(env: object, parts: Sequence[str]) -> list[str] | None:
    """The paths that exist for a word with wildcards.

    Args:
        env: Where the command will run.
        parts: Components from the root, wildcards as unknown pieces.

    Returns:
        Absolute paths; ``None`` if there are too many, or the environment cannot say.
    """
    if not isinstance(env, Lister):
        return None
    found = [""]
    for part in parts:
        if wildcards.is_literal(part):
            found = [f"{path}/{part}" for path in found]
            continue
        following: list[str] = []
        for path in found:
            following += [f"{path}/{name}" for name in await _names(env, path or "/", part)]
            if len(following) > MAX_PATHS:
                return None
        found = following
    return found


async def _names(env: Lister, folder: str, part: str) -> list[str]:
    try:
        entries = await env.list_dir(folder)
    except OSError:
        return []
    pattern = part.replace(wildcards.ONE, wildcards.MANY)
    hidden = part.startswith(".")
    return [e.name for e in entries if (hidden or not e.name.startswith(".")) and wildcards.matches(pattern, e.name)]
