"""Full-text search in all sessions.

An index caches the text of sessions, so that a search reads only sessions that changed since. The sessions are the source of
truth: an index that is missing, damaged, or of another version is created again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from mainspring.errors import SessionError
from mainspring.lazy import lazy_re
from mainspring.messages import Message, ToolUseBlock
from mainspring.sessions.entries import IntentEntry, MessageEntry, ResultEntry, try_decode_entry
from mainspring.sessions.home import HomeOrStore, resolve_store
from mainspring.sessions.paths import resolve_session_folder, search_index_path
from mainspring.sessions.store import SessionInfo, SessionStore
from mainspring.state_files import make_private_folder

_VERSION = 1
_MIN_WORD_CHARS = 3  # minimum characters of a word that the index can find; shorter words are searched in the results
_MAX_WORD_CHARS = 64  # maximum characters of a word in an index query, whose time is quadratic in it
_INVALID_CHARS = lazy_re("[\0\ud800-\udfff]")  # characters that an index query cannot contain
_MAX_WORDS = 16  # maximum words of an index query, the longest ones; all words are searched in the results
_SNIPPET_CHARS = 60
_TABLES = f"""
CREATE TABLE seen (session TEXT PRIMARY KEY, stamp TEXT NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5 (session UNINDEXED, entry UNINDEXED, role UNINDEXED, said UNINDEXED, text, tokenize = 'trigram');
PRAGMA user_version = {_VERSION};
"""


class SearchHit(Struct, frozen=True, kw_only=True):
    """A message that contains all words.

    Attributes:
        session: The session.
        entry: The entry.
        role: ``user``, ``assistant``, or ``tool`` for a tool's output.
        when: Time in UTC.
        text: An excerpt with the words, on one line.
    """

    session: SessionInfo
    entry: str
    role: str
    when: datetime
    text: str


def search_sessions(
    query: str,
    cwd: str | os.PathLike[str] | None = None,
    *,
    home: HomeOrStore | None = None,
    everywhere: bool = False,
    limit: int = 20,
) -> list[SearchHit]:
    """Search messages. Blocks.

    Args:
        query: Words that must all occur in one message, also as parts of words, ignoring case.
        cwd: The folder whose sessions are searched (default: the current one).
        home: See `Session.create`.
        everywhere: Whether to search the sessions of all folders.
        limit: Maximum number of hits. The most recent sessions come first.

    Raises:
        SessionError: If the query has no words.
    """
    words = query.split()
    if not words:
        raise SessionError("The search query is empty. Pass at least one word.")
    store = resolve_store(home)
    sessions = [info for info in store.list(None if everywhere else resolve_session_folder(cwd)) if not info.problem]
    hits: list[SearchHit] = []
    with _SearchIndex(store) as index:
        for info in sessions:
            if len(hits) >= limit:
                break
            with suppress(SessionError, OSError):  # Deleted in the meantime, or unreadable.
                hits += index.hits(info, words, limit - len(hits))
    return hits


class _SearchIndex:
    """The text of messages by session. Without SQLite's full-text search, every session is read."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> _SearchIndex:
        folder = self._store.blobs_folder
        path = None if folder is None else search_index_path(Path(folder).parent)
        with suppress(sqlite3.Error, OSError):
            self._connection = _open_index(path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def hits(self, info: SessionInfo, words: list[str], limit: int) -> Iterator[SearchHit]:
        """Return the hits of one session, the most recent first."""
        try:
            rows = self._query_index(info, words)
        except sqlite3.Error:
            self.__exit__()  # A damaged index is not an error: the sessions are the source of truth.
            self._connection = None
            rows = list(_iter_texts(self._store, info))
        found = 0
        for entry, role, line, text in reversed(rows):
            where = _snippet(text, words)
            if where is None:
                continue
            yield SearchHit(session=info, entry=entry, role=role, when=datetime.fromisoformat(line), text=where)
            found += 1
            if found >= limit:
                return

    def _query_index(self, info: SessionInfo, words: list[str]) -> list[tuple[str, str, str, str]]:
        connection = self._connection
        if connection is None:
            return list(_iter_texts(self._store, info))
        stamp = f"{info.size}:{info.updated.timestamp() if info.updated else 0}"
        seen = connection.execute("SELECT stamp FROM seen WHERE session = ?", (info.id,)).fetchone()
        if seen is None or seen[0] != stamp:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM texts WHERE session = ?", (info.id,))
                connection.executemany(
                    "INSERT INTO texts (session, entry, role, said, text) VALUES (?, ?, ?, ?, ?)",
                    ((info.id, *row) for row in _iter_texts(self._store, info)),
                )
                connection.execute("INSERT OR REPLACE INTO seen VALUES (?, ?)", (info.id, stamp))
        fit = [
            word[:_MAX_WORD_CHARS] for word in words if len(word) >= _MIN_WORD_CHARS and not _INVALID_CHARS.search(word)
        ]
        long = [word.replace('"', '""') for word in sorted(fit, key=len, reverse=True)[:_MAX_WORDS]]
        match, values = "", []
        if long:
            match, values = " AND texts MATCH ?", [" AND ".join(f'"{word}"' for word in long)]
        query = f"SELECT entry, role, said, text FROM texts WHERE session = ?{match} ORDER BY rowid"
        return connection.execute(query, (info.id, *values)).fetchall()


def _open_index(path: Path | None) -> sqlite3.Connection | None:
    """Open the index.

    Creates it if missing, damaged, or of another version. ``None`` if it cannot be stored.
    """
    if path is None:
        return None
    for attempt in range(2):
        make_private_folder(path.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            if version in {0, _VERSION}:
                return connection
        except sqlite3.DatabaseError as error:
            if attempt or getattr(error, "sqlite_errorcode", 0) & 0xFF in {
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_READONLY,
            }:
                connection.close()
                raise
        connection.close()
        path.unlink(missing_ok=True)
    return None


def _iter_texts(store: SessionStore, info: SessionInfo) -> Iterator[tuple[str, str, str, str]]:
    """Iterate over entry, role, time, and text of all messages in a session."""
    with closing(store.open(info.place, write=False)) as log:
        for row in log.rows():
            entry = try_decode_entry(row.data)
            role, text = _entry_text(entry)
            if entry is not None and text:
                yield entry.id, role, entry.timestamp.isoformat(), text


def _entry_text(entry: object) -> tuple[str, str]:
    match entry:
        case MessageEntry(message=message) if isinstance(message, Message):
            return message.role, message.text
        case IntentEntry(message=message):
            return "assistant", "\n".join([message.text, *_arguments(message)])
        case ResultEntry(result=result):
            return "tool", result.text
        case _:
            return "", ""


def _arguments(message: Message) -> Iterator[str]:
    for call in message.tool_uses:
        yield f"{call.name} {_flat(call)}"


def _flat(call: ToolUseBlock) -> str:
    return call.raw_input or " ".join(str(value) for value in call.input.values())


def _snippet(text: str, words: Iterable[str]) -> str | None:
    """Return an excerpt around the first of the words. ``None`` if one of them is missing."""
    folded = text.casefold()
    places = [folded.find(word.casefold()) for word in words]
    if min(places) < 0:
        return None
    start = max(min(places) - _SNIPPET_CHARS, 0)
    piece = " ".join(text[start : min(places) + _SNIPPET_CHARS * 2].split())
    return f"{'…' if start else ''}{piece}{'…' if min(places) + _SNIPPET_CHARS * 2 < len(text) else ''}"
