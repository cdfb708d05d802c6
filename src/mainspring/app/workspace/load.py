"""Find the folder to work in, and load its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.paths import find_project_settings, find_user_paths, resolve_working_folder
from mainspring.app.workspace.settings import Settings, load_settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function

if TYPE_CHECKING:
    from mainspring.sessions import SqliteSessionStore
    from mainspring.sessions.home import HomeOrStore
else:
    SqliteSessionStore = lazy_function("mainspring.sessions", "SqliteSessionStore")


def broad_folder_warnings(cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings about a working folder that contains much more than a project, because project rules apply to all of it."""
    home = environ.get("HOME", "").strip()
    if cwd == os.path.dirname(cwd):
        what = "the whole file system"
    elif os.path.isabs(home) and os.path.realpath(home) == cwd:
        what = "your home folder"
    else:
        return ()
    return (
        f"The working folder is {what}, so the agent can read all of it without approval. Use --cwd DIR to choose another folder.",
    )


def _has_working_folder() -> bool:
    """Return False if the current folder of this process was deleted: programs cannot start there."""
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def session_store(settings: Settings) -> HomeOrStore | None:
    """Return the place of saved sessions: the user's folder or the database in it; None without a home directory."""
    if settings.home is None:
        return None
    if settings.config.sessions.store == "sqlite":
        return SqliteSessionStore(settings.home.root / "sessions.db")
    return settings.home.root


def load_rules(
    place: WorkspaceOptions, flags: Mapping[tuple[str, ...], object] = {}, environ: Mapping[str, str] = os.environ
) -> tuple[str, Settings]:
    """Find the working folder, and load its settings.

    Raises:
        ConfigError: If the folder does not exist, or the settings are invalid.
    """
    try:
        cwd, warning = resolve_working_folder(place.cwd, environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {place.cwd}: Folder not found: {error}") from None
    home = find_user_paths(environ)
    file = find_project_settings(cwd, home)
    trusted = file is not None and TrustStore(home).covers(file.parent.parent)
    settings = load_settings(cwd, environ=environ, flags=flags, trusted=trusted)
    if not _has_working_folder():
        os.chdir(os.sep)
    if warning:
        settings = replace(settings, warnings=(warning, *settings.warnings))
    return cwd, settings
