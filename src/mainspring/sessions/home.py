"""The store that a ``home`` names: the user's folder, or a store."""

from __future__ import annotations

import os

from mainspring.errors import ConfigError
from mainspring.sessions.jsonl_store import JsonlStore
from mainspring.sessions.paths import resolve_session_folder
from mainspring.sessions.store import MemorySessionStore, SessionInfo, SessionStore
from mainspring.state_files import user_home

HomeOrStore = str | os.PathLike[str] | SessionStore
"""The place of sessions: the user's folder, or a store."""


def list_sessions(
    cwd: str | os.PathLike[str] | None = None, *, home: HomeOrStore | None = None, everywhere: bool = False
) -> list[SessionInfo]:
    """List the sessions of a folder, most recent first, without reading them completely.

    Args:
        cwd: The folder (default: the current one).
        home: See `Session.create`.
        everywhere: Whether to list the sessions of all folders.
    """
    return list(resolve_store(home).list(None if everywhere else resolve_session_folder(cwd)))


def resolve_store(home: HomeOrStore | None) -> SessionStore:
    """Return the store. Without a home directory, the memory of the process.

    Raises:
        ConfigError: If it is an asynchronous store.
    """
    if home is None:
        return JsonlStore(folder) if (folder := user_home()) else MemorySessionStore()
    if isinstance(home, str | os.PathLike):
        return JsonlStore(home)
    if not hasattr(home, "create"):
        name = type(home).__name__
        raise ConfigError(
            f"{name} is not a SessionStore. If it is asynchronous, use `await AsyncSessions(store).open(...)`."
        )
    return home
