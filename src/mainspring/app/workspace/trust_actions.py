"""Trusting folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.app.run.options import Place
from mainspring.app.workspace.acting import Act, acts_below
from mainspring.app.workspace.load import working_folder
from mainspring.app.workspace.paths import user_home
from mainspring.app.workspace.trust import Trusted, TrustStore
from mainspring.errors import ConfigError


def trusted_folders(environ: Mapping[str, str] = os.environ) -> tuple[Trusted, ...]:
    """The folders that are trusted.

    Raises:
        ConfigError: If the file is broken.
    """
    return TrustStore(user_home(environ)).list()


def what_acts(folder: str | None, place: Place, environ: Mapping[str, str] = os.environ) -> tuple[Act, ...]:
    """What acts in a folder and those below it, or would if it were trusted. Blocks.

    Raises:
        ConfigError: If there is no such folder.
    """
    path = Path(os.path.realpath(_named(folder, place, environ)))
    if not path.is_dir():
        raise ConfigError(f"there is no folder {path}")
    return tuple(acts_below(path))


def trust(folder: str | None, place: Place, environ: Mapping[str, str] = os.environ) -> Path:
    """Trust a folder, the one to work in if none is named; its real path.

    Raises:
        ConfigError: If it cannot be trusted.
    """
    return TrustStore(user_home(environ)).add(_named(folder, place, environ))


def distrust(folder: str | None, place: Place, environ: Mapping[str, str] = os.environ) -> tuple[Path, bool]:
    """Trust a folder no more; its real path, and whether it was trusted.

    Raises:
        ConfigError: If the file is broken or cannot be written.
    """
    path = Path(os.path.realpath(_named(folder, place, environ)))
    return path, TrustStore(user_home(environ)).remove(path)


def _named(folder: str | None, place: Place, environ: Mapping[str, str]) -> str:
    base = working_folder(place.cwd, environ)[0]
    return os.path.join(base, os.path.expanduser(folder)) if folder else base
