"""The files of a skill: what is inside its folder, and nothing else."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import lru_cache

from mainspring.env import ExecutionEnv, RealPath
from mainspring.permissions.sensitive_paths import SensitivePaths

MOST_LISTED = 60
"""Files that are named to the model."""

_DEPTH = 4
_MOST_WALKED = 2_000
_standard = lru_cache(1)(SensitivePaths.standard)


class OutsideError(ValueError):
    """A path that does not stay in the skill's folder; the text says what to do."""


def within(folder: str, root: str) -> bool:
    """Whether a folder is another one, or lies in it; both are real paths."""
    return folder == root or folder.startswith(root.rstrip("/") + "/")


async def locate(env: ExecutionEnv, folder: str, path: str) -> RealPath:
    """The real path of a file of a skill.

    Args:
        env: Where the folder is.
        folder: The skill's folder.
        path: As a model wrote it: relative to the folder, with ``/``.

    Raises:
        OutsideError: If it leads out of the folder, by itself or by a link, or to what may hold secrets.
        OSError: If it cannot be looked at.
    """
    parts = path.replace("\\", "/").split("/")
    if not path.strip() or "\0" in path or path.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0]:
        raise OutsideError(f"{path!r} is no path in the skill's folder; give one like references/guide.md")
    root = await env.realpath(folder)
    real = await env.realpath(posixpath.join(root, *[p for p in parts if p not in ("", ".")]))
    if not within(real, root):
        raise OutsideError(f"{path!r} is a link that leads out of the skill's folder; it is not followed")
    inner = tuple(part.casefold() for part in real[len(root) :].split("/") if part)
    if _is_secret(inner):
        raise OutsideError(f"{path!r} may hold keys or passwords, so it is not read as part of a skill")
    return RealPath(real)


async def listed(env: ExecutionEnv, folder: str) -> tuple[Sequence[str], int]:
    """The files of a skill beside its own text, sorted, as far as there is room, and how many there are.

    Hidden ones, links, and what may hold secrets are left out.
    """
    try:
        walk = await env.walk(folder, depth=_DEPTH, limit=_MOST_WALKED)
    except OSError:
        return (), 0
    found: list[str] = []
    for entry in walk.entries:
        parts = tuple(entry.path.split("/"))
        if entry.kind != "file" or any(p.startswith((".", "__")) for p in parts):
            continue
        if entry.path in ("SKILL.md", "skill.md") or entry.path.endswith(".skill.md"):
            continue
        if not _is_secret(tuple(p.casefold() for p in parts)):
            found.append(entry.path)
    return sorted(found)[:MOST_LISTED], len(found)


def _is_secret(parts: tuple[str, ...]) -> bool:
    """Whether a path may hold keys or passwords. A guide about them is none, whatever its name."""
    if parts and parts[-1].endswith((".md", ".markdown", ".rst")):
        parts = parts[:-1]
    return bool(parts) and bool(_standard().why(parts, parts, changes=False))
