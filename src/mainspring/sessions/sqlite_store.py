"""Sessions in one SQLite file: for many sessions on one machine, or to avoid a folder full of files.

The lines are those of session files. The metadata for lists is stored in addition, so that listing reads no session. As with files,
a session has one writer, which has a lock that the system releases when the process ends.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mainspring.errors import SessionError
from mainspring.locks import describe_lock_owner, lock_directory, try_lock
from mainspring.messages import Message
from mainspring.sessions.entries import (
    VERSION,
    LabelEntry,
    MessageEntry,
    SessionEntry,
    decode_session_header,
    encode_entry,
    try_decode_entry,
)
from mainspring.sessions.history import prompt_preview
from mainspring.sessions.jsonl_store import JsonlStore
from mainspring.sessions.paths import event_log_path, remove_event_logs, remove_index, validate_session_id
from mainspring.sessions.store import Problem, SessionInfo, SessionLog, StoredLine
from mainspring.state_files import make_private_folder

APPLICATION_ID = 0x6D737072
"""``application_id`` of the file ("mspr").

A database without it belongs to another program and is never written to.
"""

_LAYOUT = 1
_BUSY_SECONDS = 5.0
_PREVIEW = 80
_PAGE = 500
_LAST = (1 << 63) - 1
_MARKS = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {_LAYOUT};"
_TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, cwd TEXT NOT NULL, title TEXT NOT NULL, preview TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL, updated REAL NOT NULL, size INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_of_a_folder ON sessions (cwd, updated);
CREATE TABLE lines (position INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX lines_of_a_session ON lines (session, position);
"""


class SqliteSessionLog:
    """One session in a `SqliteStore`."""

    has_fast_append = False

    def __init__(self, store: SqliteSessionStore, header: SessionEntry, *, exists: bool, write: bool = True) -> None:
        self.place = f"{store.path}#{header.id}"
        self.writable = write
        self.problems: list[Problem] = []
        self._store = store
        self._header = header
        self._restored = b""  # the header, if its line cannot be read
        self._exists = exists
        self._lock: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._guard = threading.Lock()
        if exists and write:
            self._acquire_lock()

    def __del__(self) -> None:
        self.close()

    @property
    def exists(self) -> bool:
        """True if it is stored."""
        return self._exists

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs."""
        return str(self._store.path.parent / "context" / self._header.id)

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Append lines in one transaction; see `SessionLog.append`."""
        if not self.writable:
            raise OSError(errno.EROFS, "the session is open for reading only", self.place)
        if not self._exists and self._lock is None:
            self._acquire_lock()
            if not self.writable:
                raise OSError(errno.EAGAIN, "another process has created a session with this ID", self.place)
        with self._guard:
            try:
                self._insert(self._open(create=True), lines, sync)
            except sqlite3.Error as error:
                code = errno.ENOSPC if "full" in str(error) else errno.EIO
                raise OSError(code, f"database error: {error}", self.place) from error
        if not self._exists:
            self._exists = True
            with suppress(OSError):
                make_private_folder(Path(self.context_folder or ""))

    def _insert(self, connection: sqlite3.Connection, lines: Sequence[bytes], sync: bool) -> None:
        connection.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        now = datetime.now(UTC).timestamp()
        header = self._header
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._exists:
                row = (header.id, header.cwd, header.title, header.timestamp.isoformat(), now)
                connection.execute(
                    "INSERT INTO sessions (id, cwd, title, created, updated) VALUES (?, ?, ?, ?, ?)", row
                )
            size = sum(map(len, lines)) + len(lines)
            connection.execute("UPDATE sessions SET updated = ?, size = size + ? WHERE id = ?", (now, size, header.id))
            for name, value in _list_fields(header.id, lines):
                empty = " AND preview = ''" if name == "preview" else ""
                connection.execute(f"UPDATE sessions SET {name} = ? WHERE id = ?{empty}", (value, header.id))
            connection.executemany(
                "INSERT INTO lines (session, data) VALUES (?, ?)", [(header.id, line) for line in lines]
            )

    def restore(self, header: SessionEntry) -> None:
        """Use a header instead of the first line, which cannot be read."""
        self._restored = encode_entry(header)
        self.problems.append(Problem("damaged", f"the first line of {self.place} cannot be read; it was restored"))

    def reserve(self) -> None:
        """Lock the new session; see `SessionLog.reserve`."""
        self._acquire_lock()
        if not self.writable or self._store.exists(self._header.id):
            raise SessionError(f"Session {self._header.id} already exists. Open it, or choose another ID.")

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first, a page at a time."""
        if not self._exists:
            return
        number, position = 0, -1
        if self._restored:
            yield StoredLine(0, position, self._restored)
        while True:
            query = "SELECT position, data FROM lines WHERE session = ? AND position > ? ORDER BY position LIMIT ?"
            page = self._query(query, (self._header.id, position, _PAGE))
            for position, data in page:
                number += 1
                if number > 1 or not self._restored or try_decode_entry(data):
                    yield StoredLine(number, position, data)
            if len(page) < _PAGE:
                return

    def iter_lines_backward(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first, a page at a time."""
        if not self._exists:
            return
        query = "SELECT position, data FROM lines WHERE session = ? AND position < ? ORDER BY position DESC LIMIT ?"
        position = _LAST
        while page := self._query(query, (self._header.id, position, _PAGE)):
            for position, data in page:
                yield StoredLine(0, position, data)
        if self._restored:
            yield StoredLine(0, -1, self._restored)

    def read(self, position: int) -> bytes:
        """Return the line at a position."""
        [(data,)] = self._query("SELECT data FROM lines WHERE position = ?", (position,))
        return data

    def close(self) -> None:
        """Release the session for other writers."""
        self.writable = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _query(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._guard:
            try:
                return self._open().execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise OSError(errno.EIO, f"database error: {error}", self.place) from error

    def _open(self, *, create: bool = False) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._store.connect(create=create)
        return self._connection

    def _acquire_lock(self) -> None:
        """Become the only writer, or report why not."""
        folder = self._store.path.parent / f"{self._store.path.name}.locks"
        try:
            make_private_folder(folder)
            handle = os.open(folder / self._header.id, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if not self._exists:  # The first append reports it, and retries.
                raise
            self.writable = False
            text = f"cannot write to {self._store.path} ({error.strerror}): new messages are not saved"
            self.problems.append(Problem("unsaved", text))
            return
        state = try_lock(handle)
        if state == "taken":
            text = f"session {self._header.id} is open {describe_lock_owner(handle)}"
            os.close(handle)
            self.writable = False
            self.problems.append(
                Problem("locked", f"{text}: new messages are not saved; fork it to continue in a copy")
            )
            return
        if state == "unsupported":
            self.problems.append(
                Problem(
                    "locked", f"the file system of {folder} does not support locks: use this session in one process"
                )
            )
        self._lock = handle


class SqliteSessionStore:
    """Sessions in a SQLite file.

    Args:
        path: The file, created with the first session and access for its owner only. Large outputs and contents of files are stored
            in folders next to it.

    Raises:
        SessionError: From any access to the file, if it is not a session store or uses a newer version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def blobs_folder(self) -> str:
        """The folder for contents of files."""
        return str(self.path.parent / "files")

    def create(self, header: SessionEntry) -> SqliteSessionLog:
        """Create a session. Nothing is stored yet."""
        if self.exists(validate_session_id(header.id)):
            raise SessionError(f"Session {header.id} already exists. Open it, or choose another ID.")
        return SqliteSessionLog(self, header, exists=False)

    def open(self, name: str, *, write: bool = True) -> SessionLog:
        """Open a stored session, or a session file by its path; see `SessionStore.open`."""
        if _is_session_file(name):
            return JsonlStore(self.path.parent).open(name, write=write)
        header, is_restored = self._header(self._find(name))
        newer = header.version > VERSION
        log = SqliteSessionLog(self, header, exists=True, write=write and not newer)
        if is_restored:
            log.restore(header)
        if newer:
            text = f"{log.place} uses version {header.version} of the format; this program writes version {VERSION}"
            log.problems.append(Problem("newer", f"{text}. It can be read, but nothing is saved to it"))
        return log

    def exists(self, name: str) -> bool:
        """Return True if it is stored."""
        return bool(self._rows("SELECT 1 FROM sessions WHERE id = ?", (validate_session_id(name),)))

    def delete(self, name: str) -> None:
        """Delete a session permanently."""
        if _is_session_file(name):
            JsonlStore(self.path.parent).delete(name)
            return
        log = self.open(name)
        try:
            if not log.writable and not any(p.kind == "newer" for p in log.problems):
                raise SessionError(f"Cannot delete session {name}: {log.problems[0]}")
            id = log.place.rpartition("#")[2]
            with closing(self.connect()) as connection, connection:
                connection.execute("DELETE FROM lines WHERE session = ?", (id,))
                connection.execute("DELETE FROM sessions WHERE id = ?", (id,))
            shutil.rmtree(log.context_folder or "", ignore_errors=True)
            remove_event_logs(event_log_path(self.path.parent, id))
            remove_index(self.path.parent)
        except sqlite3.Error as error:
            raise SessionError(f"Cannot delete session {name}: {error}") from error
        finally:
            log.close()

    def list(self, cwd: str | None = None) -> Iterable[SessionInfo]:
        """List the sessions of a folder, or all, most recent first."""
        where, values = ("", ()) if cwd is None else (" WHERE cwd = ?", (cwd,))
        query = f"SELECT id, cwd, title, preview, created, updated, size FROM sessions{where} ORDER BY updated DESC, id DESC"
        return [
            SessionInfo(
                id=id,
                place=f"{self.path}#{id}",
                cwd=folder,
                title=title,
                preview=preview,
                created=datetime.fromisoformat(created),
                updated=datetime.fromtimestamp(updated, UTC),
                size=size,
            )
            for id, folder, title, preview, created, updated, size in self._rows(query, values)
        ]

    def connect(self, *, create: bool = False) -> sqlite3.Connection:
        """Open a separate connection.

        Args:
            create: Whether to create a missing file.

        Raises:
            SessionError: If it is not a session store or uses a newer version.
            sqlite3.Error: If it cannot be opened.
        """
        if create and not self.path.exists():
            make_private_folder(self.path.parent)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            return self._connect("mode=rw")
        except sqlite3.OperationalError:
            if os.access(self.path.parent, os.W_OK):
                raise
        # The folder is read-only: read the write-ahead log if it exists; otherwise, it is not needed.
        log = self.path.with_name(f"{self.path.name}-wal")
        return self._connect("mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1")

    def _connect(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{mode}",
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if _is_empty(connection):
            with lock_directory(
                self.path.parent
            ):  # If two processes create it at the same time, the second finds it created.
                if _is_empty(connection):
                    connection.execute("PRAGMA journal_mode = WAL")
                    connection.executescript(f"BEGIN IMMEDIATE; {_MARKS} {_TABLES} COMMIT;")
        magic, layout = _read_ids(connection)
        if magic != APPLICATION_ID:
            raise SessionError(f"{self.path} is a database of another program. Choose another file.")
        if layout > _LAYOUT:
            raise SessionError(
                f"{self.path} was created by a newer version of Mainspring. Update Mainspring, or choose another file."
            )

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        if not self.path.exists():
            return []
        try:
            with closing(self.connect()) as connection:
                return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise SessionError(f"Cannot read {self.path}: {error}") from error

    def _header(self, id: str) -> tuple[SessionEntry, bool]:
        """Return the header of a session, and whether its line cannot be read and it was restored."""
        for (data,) in self._rows("SELECT data FROM lines WHERE session = ? ORDER BY position LIMIT 1", (id,)):
            with suppress(SessionError):
                return decode_session_header(data, f"{self.path}#{id}"), False
        [(cwd, title, created)] = self._rows("SELECT cwd, title, created FROM sessions WHERE id = ?", (id,))
        when = datetime.fromisoformat(created)
        return SessionEntry(id=id, parent=None, timestamp=when, version=VERSION, cwd=cwd, title=title), True

    def _find(self, name: str) -> str:
        begin = name.removeprefix(f"{self.path}#")
        found = [
            row[0]
            for row in self._rows("SELECT id FROM sessions WHERE substr(id, 1, ?) = ? ORDER BY id", (len(begin), begin))
        ]
        exact = [id for id in found if id == begin]
        match exact or found:
            case []:
                raise SessionError(f"Unknown session: {begin} (in {self.path})")
            case [id]:
                return id
            case several:
                raise SessionError(f"{begin} matches {len(several)} sessions: {', '.join(several[:5])}")


def _is_session_file(name: str) -> bool:
    return os.sep in name and os.path.isfile(name)


def _read_ids(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the application ID of the file, and the version of its layout."""
    return tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _list_fields(session: str, lines: Sequence[bytes]) -> Iterator[tuple[str, str]]:
    """Extract the metadata for lists from these lines."""
    for line in lines:
        if b'"prompt"' not in line and b'"label"' not in line:
            continue
        entry = try_decode_entry(line)
        if isinstance(entry, LabelEntry) and entry.target == session:
            yield "title", entry.label
        elif isinstance(entry, MessageEntry) and entry.source == "prompt" and isinstance(entry.message, Message):
            yield "preview", prompt_preview(entry.message.text)[:_PREVIEW]
