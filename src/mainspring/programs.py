"""Find programs on the search path without running what a project ships."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path


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
        if os.path.isabs(folder) and not _is_below(folder, root):
            found = shutil.which(name, path=folder)
            if found and not _is_below(found, root):
                return found
    return None


def search_folders(path: str) -> Sequence[str]:
    """The folders of a search path in order; an empty entry is the current folder."""
    return [folder or "." for folder in path.split(os.pathsep)]


def _is_below(path: str, root: str) -> bool:
    """Return True if a path is in the project; nothing is if the project is the root of the file system."""
    return root != os.sep and Path(os.path.realpath(path)).is_relative_to(root)
