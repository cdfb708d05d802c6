"""Trust folders, and list their active content."""

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
    """List the trusted folders.

    Raises:
        ConfigError: If the file is invalid.
    """
    return TrustStore(find_user_paths(environ)).list()


def list_active_content(
    folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[ActiveContent, ...]:
    """List the active content of a folder and its subfolders, whether it is trusted or not. Blocks.

    Raises:
        ConfigError: If the folder does not exist.
    """
    path = Path(os.path.realpath(_resolve_folder(folder, place, environ)))
    if not os.path.isdir(path):
        raise ConfigError(f"Folder not found: {path}")
    return tuple(find_active_content_below(path))


def trust_folder(folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Path:
    """Trust a folder (default: the working folder), and return its real path.

    Raises:
        ConfigError: If it cannot be trusted.
    """
    return TrustStore(find_user_paths(environ)).add(_resolve_folder(folder, place, environ))


def untrust_folder(
    folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[Path, bool]:
    """Stop trusting a folder, and return its real path and whether it was trusted.

    Raises:
        ConfigError: If the file is invalid or cannot be written.
    """
    path = Path(os.path.realpath(_resolve_folder(folder, place, environ)))
    return path, TrustStore(find_user_paths(environ)).remove(path)


def _resolve_folder(folder: str | None, place: WorkspaceOptions, environ: Mapping[str, str]) -> str:
    base = resolve_working_folder(place.cwd, environ)[0]
    return os.path.join(base, os.path.expanduser(folder)) if folder else base
