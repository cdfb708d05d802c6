"""Find the folder to work in, and load its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec.structs import replace

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.paths import find_project_settings, find_user_paths, resolve_working_folder
from mainspring.app.workspace.settings import Settings, load_settings
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError


def broad_folder_warnings(cwd: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What has to be said where the folder to work in is much more than a project: rules that hold in the project hold in all of it."""
    home = environ.get("HOME", "").strip()
    if cwd == os.path.dirname(cwd):
        what = "the whole file system"
    elif os.path.isabs(home) and os.path.realpath(home) == cwd:
        what = "your home folder"
    else:
        return ()
    return (f"the project is {what}, so that the agent may read all of it unasked; --cwd DIR names another folder",)


def load_rules(
    place: WorkspaceOptions, flags: Mapping[tuple[str, ...], object], environ: Mapping[str, str]
) -> tuple[str, Settings]:
    """The folder to work in, and the settings there.

    Raises:
        ConfigError: If the folder is none, or the settings are broken.
    """
    try:
        cwd, warning = resolve_working_folder(place.cwd, environ)
    except NotADirectoryError as error:
        raise ConfigError(f"--cwd {place.cwd}: there is no folder {error}") from None
    home = find_user_paths(environ)
    file = find_project_settings(cwd, home)
    trusted = file is not None and TrustStore(home).covers(file.parent.parent)
    settings = load_settings(cwd, environ=environ, flags=flags, trusted=trusted)
    if warning:
        os.chdir(os.sep)  # a process has to stand somewhere
        settings = replace(settings, warnings=(warning, *settings.warnings))
    return cwd, settings
