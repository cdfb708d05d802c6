"""Find programs on the search path without running what a project ships."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence


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
    root = os.path.realpath(project or os.getcwd())
    for folder in search_folders(os.environ.get("PATH", os.defpath) if path is None else path):
        if os.path.isabs(folder) and not is_below(os.path.realpath(folder), root):
            found = shutil.which(name, path=folder)
            if found and not is_below(os.path.realpath(found), root):
                return found
    return None


def search_folders(path: str) -> Sequence[str]:
    """The folders of a search path in order; an empty entry is the current folder."""
    return [folder or "." for folder in path.split(os.pathsep)]


def is_below(path: str, folder: str) -> bool:
    """Return True if a path is a folder or lies below it; both are absolute."""
    return folder != os.sep and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))
