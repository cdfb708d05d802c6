"""Saved conversations: listed, looked through, named, removed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mainspring.app.run.options import Place
from mainspring.app.workspace.load import load
from mainspring.app.workspace.paths import Home
from mainspring.errors import SessionError
from mainspring.sessions import Hit, JsonlStore, Session, SessionInfo, find_session, list_sessions, search_sessions


def saved_sessions(
    place: Place, *, everywhere: bool = False, environ: Mapping[str, str] = os.environ
) -> list[SessionInfo]:
    """The sessions of the folder, or of all folders, last used first.

    Raises:
        ConfigError: If the folder is none.
    """
    cwd, settings = load(place, {}, environ)
    return list_sessions(cwd, home=settings.home.root, everywhere=everywhere) if settings.home else []


def search(
    words: str, place: Place, *, everywhere: bool = False, limit: int = 20, environ: Mapping[str, str] = os.environ
) -> list[Hit]:
    """Where words were said, in the sessions of the folder or of all folders.

    Raises:
        SessionError: If there are no words.
    """
    cwd, home = _home(place, environ)
    return search_sessions(words, cwd, home=home.root, everywhere=everywhere, limit=limit)


def name_session(name: str, title: str, place: Place, environ: Mapping[str, str] = os.environ) -> SessionInfo:
    """Give a session a name for people; an empty one takes it away.

    Raises:
        SessionError: If there is no such session, or another process has it open.
    """
    cwd, home = _home(place, environ)
    info = find_session(name, cwd, home=home.root)
    with Session.open(info.place, home=home.root) as session:
        if not session.writable:
            raise SessionError(f"session {info.id} cannot be named: {session.problems[-1]}")
        session.label(title)
    return info


def remove_session(name: str, place: Place, environ: Mapping[str, str] = os.environ) -> SessionInfo:
    """Remove a session for good, with the large outputs that belong to it.

    Raises:
        SessionError: If there is no such session, or another process has it open.
    """
    cwd, home = _home(place, environ)
    info = find_session(name, cwd, home=home.root)
    JsonlStore(home.root).delete(info.place)
    return info


def purge_sessions(keep: int, place: Place, environ: Mapping[str, str] = os.environ) -> list[SessionInfo]:
    """Remove all but the sessions of the folder that were used last; those that another process has open stay.

    Returns:
        The ones that were removed.
    """
    cwd, home = _home(place, environ)
    store = JsonlStore(home.root)
    removed: list[SessionInfo] = []
    for info in [i for i in list_sessions(cwd, home=store) if not i.problem][keep:]:
        try:
            store.delete(info.place)
        except SessionError:
            continue
        removed.append(info)
    return removed


def _home(place: Place, environ: Mapping[str, str]) -> tuple[str, Home]:
    cwd, settings = load(place, {}, environ)
    if settings.home is None:
        raise SessionError("there is no home folder, so there are no sessions")
    return cwd, settings.home
