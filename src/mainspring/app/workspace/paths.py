"""The paths of the user's and the project's files. Nothing is created here."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.state_files import user_home

PROJECT_FOLDER = ".agent"
SETTINGS_FILE = "settings.json"


class UserPaths(Struct, frozen=True):
    """The user's folder. Its parts exist once something is stored there."""

    root: Path

    @property
    def settings(self) -> Path:
        """Settings file of the user."""
        return self.root / SETTINGS_FILE

    @property
    def sessions(self) -> Path:
        """Sessions, by project."""
        return self.root / "sessions"

    @property
    def exports(self) -> Path:
        """Exported sessions for which the user named no file."""
        return self.root / "exports"

    @property
    def context(self) -> Path:
        """Large outputs that were offloaded."""
        return self.root / "context"

    @property
    def extensions(self) -> Path:
        """Extensions of the user."""
        return self.root / "extensions"

    @property
    def skills(self) -> Path:
        """Skills of the user."""
        return self.root / "skills"


def find_user_paths(environ: Mapping[str, str]) -> UserPaths | None:
    """Return the user's folder: ``$MAINSPRING_HOME``, or ``~/.agent``; None without a home directory."""
    root = user_home(environ)
    return UserPaths(root) if root else None


def find_project_settings(cwd: str, user: UserPaths | None) -> Path | None:
    """Return the project's settings file: of the folder, or of the closest parent folder in the same repository.

    A run that starts in a subfolder must not lose the rules of its project.
    """
    root = find_project_root(cwd, SETTINGS_FILE, user)
    return root / PROJECT_FOLDER / SETTINGS_FILE if root else None


def find_project_root(cwd: str, name: str, user: UserPaths | None) -> Path | None:
    """Return the folder, or the closest parent folder in the same repository, whose ``.agent`` has an entry with this name. The
    user's own folder is not a project.
    """
    folder = Path(cwd)
    inside = find_repository(folder)
    for place in (folder, *folder.parents):
        own = place / PROJECT_FOLDER / name
        is_found = os.path.lexists(own) or (name == SETTINGS_FILE and is_inaccessible_folder(own.parent))
        if is_found and not (user and _is_same_file(own, user.root / name)):
            return place
        if inside is None or place == inside:
            return None
    return None


def is_inaccessible_folder(path: Path) -> bool:
    """Return True for a folder whose files this user cannot open, also because of a folder above it."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode) and not os.access(path, os.X_OK)
    except PermissionError:
        return True
    except OSError:
        return False


def find_repository(folder: Path) -> Path | None:
    """Return the closest folder under version control."""
    return next((p for p in (folder, *folder.parents) if os.path.lexists(p / ".git")), None)


def _is_same_file(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def resolve_working_folder(given: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the working folder, and a warning if it no longer exists or cannot be listed.

    Raises:
        NotADirectoryError: If ``given`` is not a folder.
        ConfigError: If the current folder no longer exists and ``$PWD`` does not name it. Another folder would be a guess, and
            the files in the working folder are read without approval.
    """
    if given is not None:
        try:
            path = os.path.abspath(os.path.expanduser(given))
        except FileNotFoundError:  # a path relative to a deleted folder
            raise NotADirectoryError(given) from None
        if not os.path.isdir(path):
            raise NotADirectoryError(path)
        return _with_access_warning(os.path.realpath(path))
    try:
        return _with_access_warning(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        deleted = environ.get("PWD", "")
        message = "The current folder no longer exists. Use --cwd DIR to choose another folder."
        if not os.path.isabs(deleted):
            raise ConfigError(message) from None
        return deleted, message


def _with_access_warning(folder: str) -> tuple[str, str]:
    if os.access(folder, os.R_OK | os.X_OK):
        return folder, ""
    return (
        folder,
        f"Cannot read the working folder {folder} (Permission denied). Use --cwd DIR to choose another folder.",
    )
