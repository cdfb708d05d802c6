"""Where the user's and the project's files are. Nothing here creates anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

FOLDER = ".agent"
SETTINGS = "settings.json"


class Home(Struct, frozen=True):
    """The user's folder; its parts exist once something is stored there."""

    root: Path

    @property
    def settings(self) -> Path:
        """The user's settings."""
        return self.root / SETTINGS

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


def user_home(environ: Mapping[str, str]) -> Home | None:
    """The user's folder: ``$MAINSPRING_HOME``, else ``~/.agent``; ``None`` where there is no home folder."""
    given = environ.get("MAINSPRING_HOME", "").strip()
    if given:
        return Home(Path(os.path.abspath(os.path.expanduser(given))))
    base = environ.get("HOME", "").strip() or os.path.expanduser("~")
    return Home(Path(base) / FOLDER) if os.path.isabs(base) else None


def project_settings(cwd: str, user: Home | None) -> Path | None:
    """The project's settings file: that of the folder, or of the nearest one above it inside the same repository.

    A run that starts in a subfolder must not lose the rules of its project.
    """
    root = project_root(cwd, SETTINGS, user)
    return root / FOLDER / SETTINGS if root else None


def project_root(cwd: str, name: str, user: Home | None) -> Path | None:
    """The folder, or the nearest one above it inside the same repository, that has something of this name in its ``.agent``; what
    is the user's own is nothing of a project.
    """
    folder = Path(cwd)
    inside = repository_of(folder)
    for place in (folder, *folder.parents):
        own = place / FOLDER / name
        if os.path.lexists(own) and not (user and _same(own, user.root / name)):
            return place
        if inside is None or place == inside:
            return None
    return None


def repository_of(folder: Path) -> Path | None:
    """The nearest folder that is under version control."""
    return next((p for p in (folder, *folder.parents) if os.path.lexists(p / ".git")), None)


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
