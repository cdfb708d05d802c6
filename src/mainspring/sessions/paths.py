"""Paths of sessions: the user's folder, and a folder in it for each project."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from mainspring.errors import SessionError
from mainspring.lazy import lazy_re

_ID = lazy_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def resolve_session_folder(cwd: str | os.PathLike[str] | None = None) -> str:
    """Return the real path of a folder, the same for each spelling.

    The current folder by default.
    """
    try:
        path = os.path.realpath(os.getcwd() if cwd is None else os.path.expanduser(str(cwd)))
    except FileNotFoundError:  # The current folder was deleted.
        return os.environ.get("PWD") or os.sep
    other = path.swapcase()
    try:
        same = other != path and os.path.samefile(path, other)
    except OSError:
        same = False
    return path.casefold() if same else path


def project_folder_name(cwd: str) -> str:
    """Return the name of the folder with the sessions of ``cwd``: readable, and different for every path."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(Path(cwd).parts[-2:])).strip("-").lower()[-48:].strip("-")
    digest = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return f"{words or 'root'}-{digest}"


def new_session_id(now: datetime) -> str:
    """Create a unique ID. IDs sort by time."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def is_valid_session_id(name: str) -> bool:
    """Return True if a session may have this ID."""
    return _ID.fullmatch(name) is not None


def validate_session_id(name: str) -> str:
    """Return the ID if it is valid.

    Raises:
        SessionError: If not.
    """
    if not is_valid_session_id(name):
        raise SessionError(f"Invalid session ID: {name!r}. Use letters, digits, '.', '_', and '-'.")
    return name


def allow_blocking_writes(fd: int) -> None:
    """Declare a write as intended for tools that detect blocking calls in an event loop.

    Files never block on this flag.
    """
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(fd, False)


def event_log_path(home: Path, session: str) -> Path:
    """Return the path of a session's event log."""
    return home / "logs" / f"{session}.jsonl"


def search_index_path(home: Path) -> Path:
    """Return the path of the full-text search index."""
    return home / "search.db"


def remove_index(home: Path) -> None:
    """Delete the index, so that it keeps no text of a deleted session.

    The next search creates it again.
    """
    for file in (search_index_path(home), home / "search.db-journal"):
        with suppress(OSError):
            file.unlink()


def rotated_log_path(path: Path) -> Path:
    """Return the path of a rotated event log."""
    return path.with_name(f"{path.stem}.1.jsonl")


def remove_event_logs(path: Path) -> None:
    """Delete an event log. Files that cannot be deleted stay."""
    for file in (path, rotated_log_path(path)):
        with suppress(OSError):
            file.unlink()
