"""Saved conversations."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mainspring.runtime.build import load
from mainspring.runtime.options import Place
from mainspring.sessions import SessionInfo, list_sessions


def saved_sessions(
    place: Place, *, everywhere: bool = False, environ: Mapping[str, str] = os.environ
) -> list[SessionInfo]:
    """The sessions of the folder, or of all folders, last used first.

    Raises:
        ConfigError: If the folder is none.
    """
    cwd, settings = load(place, {}, environ)
    return list_sessions(cwd, home=settings.home.root, everywhere=everywhere) if settings.home else []
