"""Find programs on the search path without running what a project ships, and wait for the end of killed ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process


def find_program(name: str, *, path: str | None = None, project: str | None = None) -> str | None:
    """Find a program that this process starts for itself.

    Relative and empty entries of the search path are skipped, and so are those inside the project: a project may ship a
    program of that name.

    Args:
        name: The name, without a folder.
        path: The search path; the ``PATH`` of this process by default.
        project: The project folder; the current folder by default.

    Returns:
        The absolute path of the program; None if it is not found.
    """
    import shutil

    root = os.path.realpath(project or os.getcwd())
    for folder in search_folders(os.environ.get("PATH", os.defpath) if path is None else path):
        if os.path.isabs(folder) and not _is_below(folder, root):
            found = shutil.which(name, path=folder)
            if found and not _is_below(found, root):
                return found
    return None


def explain_missing_program(name: str) -> str:
    """Return why `find_program` does not find a program, as the end of a sentence that starts with the program."""
    import shutil

    root = os.path.realpath(os.getcwd())
    for folder in search_folders(os.environ.get("PATH", os.defpath)):
        found = shutil.which(name, path=folder)
        if found and (not os.path.isabs(folder) or _is_below(folder, root)):
            place = os.path.abspath(found)
        elif found and _is_below(found, root):
            place = f"{found}, a link to {os.path.realpath(found)},"
        else:
            continue
        return (
            f"was found but not run: {place} is inside the current folder {root}, and a program inside the current folder could "
            "come from a project. Run from another folder, or move the program"
            if _is_below(found, root)
            else f"was found but not run: {place} is in {folder!r}, a relative entry of PATH. Make the entry absolute"
        )
    return "is not installed"


def search_folders(path: str) -> Sequence[str]:
    """The folders of a search path in order; an empty entry is the current folder."""
    return [folder or "." for folder in path.split(os.pathsep)]


async def wait_for_end(process: Process) -> None:
    """Wait until a killed program has ended and its pipes are closed, so that the event loop can end right afterwards.

    Waits at most a second for the pipes: a program that the killed one started may keep them open.
    """
    import asyncio
    from contextlib import suppress

    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            await process.communicate()
    await process.wait()


def _is_below(path: str, root: str) -> bool:
    """Return True if a path is in the project; nothing is if the project is the root of the file system."""
    found, folder = os.path.normcase(os.path.realpath(path)), os.path.normcase(root)
    return root != os.sep and (found == folder or found.startswith(folder.rstrip(os.sep) + os.sep))
