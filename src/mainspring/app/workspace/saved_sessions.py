"""List, search, rename, remove, export, and import saved sessions. Exports contain no secrets, and nothing is sent anywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules, session_store
from mainspring.app.workspace.paths import find_user_paths
from mainspring.app.workspace.secrets import redactor_of
from mainspring.app.workspace.settings import Settings
from mainspring.errors import SessionError
from mainspring.redaction import Redactor
from mainspring.sessions import (
    SearchHit,
    Session,
    SessionInfo,
    SessionStore,
    Transcript,
    TranscriptCall,
    TranscriptItem,
    find_session,
    import_session,
    list_sessions,
    read_raw_lines,
    read_transcript,
    resolve_store,
    search_sessions,
)

__all__ = ["Transcript", "TranscriptCall", "TranscriptItem", "export_jsonl", "export_transcript", "import_file"]


def list_saved_sessions(
    place: WorkspaceOptions, *, everywhere: bool = False, environ: Mapping[str, str] = os.environ
) -> list[SessionInfo]:
    """List the sessions of the folder, or of all folders, the most recent first.

    Raises:
        ConfigError: If the folder does not exist.
    """
    cwd, settings = load_rules(place, environ=environ)
    return list_sessions(cwd, home=session_store(settings), everywhere=everywhere) if settings.home else []


def search(
    words: str,
    place: WorkspaceOptions,
    *,
    everywhere: bool = False,
    limit: int = 20,
    environ: Mapping[str, str] = os.environ,
) -> list[SearchHit]:
    """Search for words in the sessions of the folder, or of all folders.

    Raises:
        SessionError: If no words are given.
    """
    cwd, store = _require_store(place, environ)
    return search_sessions(words, cwd, home=store, everywhere=everywhere, limit=limit)


def rename_session(name: str, title: str, place: WorkspaceOptions) -> SessionInfo:
    """Set the title of a session; an empty one removes it.

    Raises:
        SessionError: If the session is unknown, or another process is using it.
    """
    cwd, store = _require_store(place, os.environ)
    info = find_session(name, cwd, home=store)
    with Session.open(info.place, home=store) as session:
        if not session.writable:
            raise SessionError(f"Cannot rename session {info.id}: {session.problems[-1]}")
        session.label(title)
    return info


def remove_session(name: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> SessionInfo:
    """Delete a session and its large outputs.

    Raises:
        SessionError: If the session is unknown, or another process is using it.
    """
    cwd, store = _require_store(place, environ)
    info = find_session(name, cwd, home=store)
    store.delete(info.place)
    return info


def purge_sessions(keep: int, place: WorkspaceOptions) -> list[SessionInfo]:
    """Delete all but the most recent sessions of the folder, except those in use by another process.

    Returns:
        The deleted sessions.
    """
    cwd, store = _require_store(place, os.environ)
    removed: list[SessionInfo] = []
    for info in [i for i in list_sessions(cwd, home=store) if not i.problem][keep:]:
        try:
            store.delete(info.place)
        except SessionError:
            continue
        removed.append(info)
    return removed


def _require_store(place: WorkspaceOptions, environ: Mapping[str, str]) -> tuple[str, SessionStore]:
    cwd, settings = load_rules(place, environ=environ)
    return cwd, _open_store(settings)


def _open_store(settings: Settings) -> SessionStore:
    if settings.home is None:
        raise SessionError("No sessions found, because your home directory was not found. Set MAINSPRING_HOME.")
    return resolve_store(session_store(settings))


def export_transcript(name: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Transcript:
    """Return the transcript of a session, without secrets.

    Args:
        name: ID, beginning of the ID, title, or file (default: the most recent session of the folder).
        place: Workspace options.
        environ: Environment variables; the values of API keys are redacted.

    Raises:
        SessionError: If the session is unknown.
    """
    store, found, redactor = _find_session(name, place, environ)
    plain: Any = msgspec.to_builtins(read_transcript(store, found))
    return msgspec.convert(redactor.value(plain), Transcript)


def create_export_path(name: str, environ: Mapping[str, str] = os.environ, *, replace: bool = False) -> str:
    """Return where an export is stored if the user names no file: a free name in the user's folder, not in the project.

    Args:
        name: Name of the file.
        environ: Environment variables, which name the user's folder.
        replace: Whether an existing file may be replaced.
    """
    home = find_user_paths(environ)
    if home is None:
        return os.path.abspath(name)
    home.exports.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, number = home.exports / name, 2
    while path.exists() and not replace:
        path, number = home.exports / f"{os.path.splitext(name)[0]}-{number}{os.path.splitext(name)[1]}", number + 1
    return str(path)


def export_jsonl(name: str | None, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> list[bytes]:
    """Return a session as JSON lines, the stored form, without secrets. `import_file` imports them.

    Raises:
        SessionError: If the session is unknown.
    """
    store, found, redactor = _find_session(name, place, environ)
    lines: list[bytes] = []
    for line in read_raw_lines(store, found):
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # secrets cannot be found in a damaged line
        lines.append(msgspec.json.encode(redactor.value(value)))
    return lines


def import_file(
    path: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ
) -> tuple[str, tuple[str, ...]]:
    """Import a session from a file of JSON lines; it belongs to the folder from then on.

    Returns:
        The session ID, and problems with the file.

    Raises:
        SessionError: If the file is not a session; nothing is stored.
    """
    cwd, settings = load_rules(place, environ=environ)
    if settings.home is None:
        raise SessionError("Cannot find your home directory. Set MAINSPRING_HOME.")
    return import_session(os.path.join(cwd, os.path.expanduser(path)), cwd, home=session_store(settings))


def _find_session(
    name: str | None, place: WorkspaceOptions, environ: Mapping[str, str]
) -> tuple[SessionStore, str, Redactor]:
    cwd, settings = load_rules(place, environ=environ)
    store = _open_store(settings)
    return store, find_session(name or "", cwd, home=store).place, redactor_of(settings, environ)
