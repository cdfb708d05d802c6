"""Where sessions are: the user's folder, and a folder in it for each project."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from mainspring.errors import SessionError
from mainspring.lazy import lazy_re

_ID = lazy_re(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def user_home(environ: Mapping[str, str] | None = None) -> Path | None:
    """``$MAINSPRING_HOME``, else ``~/.agent``; ``None`` where there is no home folder."""
    environ = os.environ if environ is None else environ
    given = environ.get("MAINSPRING_HOME", "").strip()
    if given:
        return Path(os.path.abspath(os.path.expanduser(given)))
    base = environ.get("HOME", "").strip() or os.path.expanduser("~")
    return Path(base) / ".agent" if os.path.isabs(base) else None


def resolve_folder(cwd: str | os.PathLike[str] | None = None) -> str:
    """The real path of a folder, the same however it is spelled; the current folder if none is given."""
    try:
        path = os.path.realpath(os.getcwd() if cwd is None else os.path.expanduser(str(cwd)))
    except FileNotFoundError:  # the current folder was deleted
        return os.environ.get("PWD") or os.sep
    other = path.swapcase()
    try:
        same = other != path and os.path.samefile(path, other)
    except OSError:
        same = False
    return path.casefold() if same else path


def project_folder_name(cwd: str) -> str:
    """The name of the folder that holds the sessions of ``cwd``: readable, and different for every path."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(Path(cwd).parts[-2:])).strip("-").lower()[-48:].strip("-")
    digest = hashlib.sha256(cwd.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return f"{words or 'root'}-{digest}"


def new_session_id(now: datetime) -> str:
    """An id that no other session has; ids sort by time."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def validate_session_id(name: str) -> str:
    """The id, if it can be one.

    Raises:
        SessionError: If not.
    """
    if not _ID.fullmatch(name):
        raise SessionError(f"{name!r} cannot be the id of a session: use letters, digits, '.', '_' and '-'")
    return name


def allow_blocking_writes(fd: int) -> None:
    """Files never block on this flag; to tools that look for blocking calls in an event loop it says: on purpose."""
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(fd, False)


def event_log_path(home: Path, session: str) -> Path:
    """Where the event log of a session is."""
    return home / "logs" / f"{session}.jsonl"


def search_index_path(home: Path) -> Path:
    """Where the index of the full-text search is."""
    return home / "search.db"


def remove_index(home: Path) -> None:
    """Remove the index, so that no text of a session that was deleted stays in it. The next search makes it anew."""
    for file in (search_index_path(home), home / "search.db-journal"):
        with suppress(OSError):
            file.unlink()


def rotated_log_path(path: Path) -> Path:
    """Where an event log goes that has become too large."""
    return path.with_name(f"{path.stem}.1.jsonl")


def remove_event_logs(path: Path) -> None:
    """Remove an event log; what cannot be removed stays."""
    for file in (path, rotated_log_path(path)):
        with suppress(OSError):
            file.unlink()
