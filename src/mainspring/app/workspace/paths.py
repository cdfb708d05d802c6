"""Where the user's and the project's files are. Nothing here creates anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

PROJECT_FOLDER = ".agent"
SETTINGS_FILE = "settings.json"


class UserPaths(Struct, frozen=True):
    """The user's folder; its parts exist once something is stored there."""

    root: Path

    @property
    def settings(self) -> Path:
        """The user's settings."""
        return self.root / SETTINGS_FILE

    @property
    def sessions(self) -> Path:
        """Conversations, by project."""
        return self.root / "sessions"

    @property
    def context(self) -> Path:
        """Large outputs that were put aside."""
        return self.root / "context"

    @property
    def extensions(self) -> Path:
        """Extensions."""
        return self.root / "extensions"

    @property
    def skills(self) -> Path:
        """Skills."""
        return self.root / "skills"


def find_user_paths(environ: Mapping[str, str]) -> UserPaths | None:
    """The user's folder: ``$MAINSPRING_HOME``, else ``~/.agent``; ``None`` where there is no home folder."""
    given = environ.get("MAINSPRING_HOME", "").strip()
    if given:
        return UserPaths(Path(os.path.abspath(os.path.expanduser(given))))
    base = environ.get("HOME", "").strip() or os.path.expanduser("~")
    return UserPaths(Path(base) / PROJECT_FOLDER) if os.path.isabs(base) else None


def find_project_settings(cwd: str, user: UserPaths | None) -> Path | None:
    """The project's settings file: that of the folder, or of the nearest one above it inside the same repository.

    A run that starts in a subfolder must not lose the rules of its project.
    """
    root = find_project_root(cwd, SETTINGS_FILE, user)
    return root / PROJECT_FOLDER / SETTINGS_FILE if root else None


def find_project_root(cwd: str, name: str, user: UserPaths | None) -> Path | None:
    """The folder, or the nearest one above it inside the same repository, that has something of this name in its ``.agent``; what
    is the user's own is nothing of a project.
    """
    folder = Path(cwd)
    inside = find_repository(folder)
    for place in (folder, *folder.parents):
        own = place / PROJECT_FOLDER / name
        if os.path.lexists(own) and not (user and _is_same_file(own, user.root / name)):
            return place
        if inside is None or place == inside:
            return None
    return None


def find_repository(folder: Path) -> Path | None:
    """The nearest folder that is under version control."""
    return next((p for p in (folder, *folder.parents) if os.path.lexists(p / ".git")), None)


def _is_same_file(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def resolve_working_folder(given: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """The folder to work in, and a warning if it is not there any more.

    Raises:
        NotADirectoryError: If ``given`` is no folder.
    """
    if given is not None:
        path = os.path.abspath(os.path.expanduser(given))
        if not os.path.isdir(path):
            raise NotADirectoryError(path)
        return os.path.realpath(path), ""
    try:
        return os.path.realpath(os.getcwd()), ""
    except FileNotFoundError:
        gone = environ.get("PWD", "")
        folder = gone if os.path.isabs(gone) else os.sep
        return folder, "the current folder does not exist any more, so there are no files here; --cwd DIR names another"
