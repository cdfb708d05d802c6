"""Saved conversations: listed, looked through, named, removed.

Sessions out of the program and into it: what is handed out holds no secrets, and nothing is sent anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.secrets import redactor_of
from mainspring.errors import SessionError
from mainspring.redaction import Redactor
from mainspring.sessions import (
    JsonlStore,
    SearchHit,
    Session,
    SessionInfo,
    Transcript,
    TranscriptCall,
    TranscriptItem,
    find_session,
    import_session,
    list_sessions,
    read_raw_lines,
    read_transcript,
    search_sessions,
)

__all__ = ["Transcript", "TranscriptCall", "TranscriptItem", "export_jsonl", "export_transcript", "import_file"]


def list_saved_sessions(
    place: WorkspaceOptions, *, everywhere: bool = False, environ: Mapping[str, str] = os.environ
) -> list[SessionInfo]:
    """The sessions of the folder, or of all folders, last used first.

    Raises:
        ConfigError: If the folder is none.
    """
    cwd, settings = load_rules(place, {}, environ)
    return list_sessions(cwd, home=settings.home.root, everywhere=everywhere) if settings.home else []


def search(
    words: str,
    place: WorkspaceOptions,
    *,
    everywhere: bool = False,
    limit: int = 20,
    environ: Mapping[str, str] = os.environ,
) -> list[SearchHit]:
    """Where words were said, in the sessions of the folder or of all folders.

    Raises:
        SessionError: If there are no words.
    """
    cwd, home = _require_home(place, environ)
    return search_sessions(words, cwd, home=home.root, everywhere=everywhere, limit=limit)


def rename_session(
    name: str, title: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> SessionInfo:
    """Give a session a name for people; an empty one takes it away.

    Raises:
        SessionError: If there is no such session, or another process has it open.
    """
    cwd, home = _require_home(place, environ)
    info = find_session(name, cwd, home=home.root)
    with Session.open(info.place, home=home.root) as session:
        if not session.writable:
            raise SessionError(f"session {info.id} cannot be named: {session.problems[-1]}")
        session.label(title)
    return info


def remove_session(name: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> SessionInfo:
    """Remove a session for good, with the large outputs that belong to it.

    Raises:
        SessionError: If there is no such session, or another process has it open.
    """
    cwd, home = _require_home(place, environ)
    info = find_session(name, cwd, home=home.root)
    JsonlStore(home.root).delete(info.place)
    return info


def purge_sessions(keep: int, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> list[SessionInfo]:
    """Remove all but the sessions of the folder that were used last; those that another process has open stay.

    Returns:
        The ones that were removed.
    """
    cwd, home = _require_home(place, environ)
    store = JsonlStore(home.root)
    removed: list[SessionInfo] = []
    for info in [i for i in list_sessions(cwd, home=store) if not i.problem][keep:]:
        try:
            store.delete(info.place)
        except SessionError:
            continue
        removed.append(info)
    return removed


def _require_home(place: WorkspaceOptions, environ: Mapping[str, str]) -> tuple[str, UserPaths]:
    cwd, settings = load_rules(place, {}, environ)
    if settings.home is None:
        raise SessionError("there is no home folder, so there are no sessions")
    return cwd, settings.home


def export_transcript(name: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Transcript:
    """A session for people, without secrets.

    Args:
        name: Its id, the beginning of its id, its title or its file; the folder's last one if not given.
        place: The folder.
        environ: The environment; the values of its keys are masked.

    Raises:
        SessionError: If there is no such session.
    """
    store, found, redactor = _find_session(name, place, environ)
    plain: Any = msgspec.to_builtins(read_transcript(store, found))
    return msgspec.convert(redactor.value(plain), Transcript)


def export_jsonl(name: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> list[bytes]:
    """A session as lines of JSON, the form that it is stored in, without secrets. `import_file` takes them back.

    Raises:
        SessionError: If there is no such session.
    """
    store, found, redactor = _find_session(name, place, environ)
    lines: list[bytes] = []
    for line in read_raw_lines(store, found):
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a damaged line cannot be looked through for secrets
        lines.append(msgspec.json.encode(redactor.value(value)))
    return lines


def import_file(
    path: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[str, tuple[str, ...]]:
    """Take a session in from a file of lines; it belongs to the folder from then on.

    Returns:
        Its id, and what could not be read.

    Raises:
        SessionError: If the file is no session; nothing is stored then.
    """
    cwd, settings = load_rules(place, {}, environ)
    if settings.home is None:
        raise SessionError("there is no home folder to keep sessions in; set MAINSPRING_HOME to one")
    return import_session(os.path.join(cwd, os.path.expanduser(path)), cwd, home=settings.home.root)


def _find_session(
    name: str | None, place: WorkspaceOptions, environ: Mapping[str, str]
) -> tuple[JsonlStore, str, Redactor]:
    cwd, settings = load_rules(place, {}, environ)
    if settings.home is None:
        raise SessionError("there is no home folder, so there are no sessions")
    store = JsonlStore(settings.home.root)
    return store, find_session(name or "", cwd, home=store).place, redactor_of(settings, environ)
