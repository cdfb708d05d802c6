"""Trusting folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.acting import ActiveContent, find_active_content_below
from mainspring.app.workspace.paths import find_user_paths, resolve_working_folder
from mainspring.app.workspace.trust import TrustedFolder, TrustStore
from mainspring.errors import ConfigError


def list_trusted_folders(environ: Mapping[str, str] = os.environ) -> tuple[TrustedFolder, ...]:
    """The folders that are trusted.

    Raises:
        ConfigError: If the file is broken.
    """
    return TrustStore(find_user_paths(environ)).list()


def list_active_content(
    folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[ActiveContent, ...]:
    """What acts in a folder and those below it, or would if it were trusted. Blocks.

    Raises:
        ConfigError: If there is no such folder.
    """
    path = Path(os.path.realpath(_resolve_folder(folder, place, environ)))
    if not path.is_dir():
        raise ConfigError(f"there is no folder {path}")
    return tuple(find_active_content_below(path))


def trust_folder(folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Path:
    """Trust a folder, the one to work in if none is named; its real path.

    Raises:
        ConfigError: If it cannot be trusted.
    """
    return TrustStore(find_user_paths(environ)).add(_resolve_folder(folder, place, environ))


def untrust_folder(
    folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[Path, bool]:
    """Trust a folder no more; its real path, and whether it was trusted.

    Raises:
        ConfigError: If the file is broken or cannot be written.
    """
    path = Path(os.path.realpath(_resolve_folder(folder, place, environ)))
    return path, TrustStore(find_user_paths(environ)).remove(path)


def _resolve_folder(folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str]) -> str:
    base = resolve_working_folder(place.cwd, environ)[0]
    return os.path.join(base, os.path.expanduser(folder)) if folder else base
