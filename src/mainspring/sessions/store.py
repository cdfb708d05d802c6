"""The protocol of session stores, and the store in memory."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Protocol
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.errors import SessionError
from mainspring.sessions.entries import LabelEntry, MessageEntry, SessionEntry, try_decode_entry
from mainspring.sessions.history import prompt_preview
from mainspring.sessions.paths import validate_session_id

SessionWarningKind = Literal["damaged", "torn", "unknown", "newer", "locked", "unsaved", "saved", "memory"]
"""The kind of a warning:

- ``damaged``: a line cannot be read and was skipped,
- ``torn``: the last line is incomplete,
- ``unknown``: an entry of a newer version was ignored,
- ``newer``: the whole session uses a newer version,
- ``locked``: another process has the session open,
- ``unsaved``: writing failed; ``saved``: it works again,
- ``memory``: the session is in memory only.
"""


class Problem(Struct, frozen=True):
    """A problem of a session, for the user."""

    kind: SessionWarningKind
    text: str

    def __str__(self) -> str:
        return self.text


class StoredLine(Struct, frozen=True):
    """A line as stored.

    Attributes:
        number: Counted from 1; 0 if unknown.
        position: Its position, for `SessionLog.read`.
        data: The line, without its end.
        complete: Whether it has an end. The last line of a killed program may not.
    """

    number: int
    position: int
    data: bytes
    complete: bool = True


class SessionInfo(Struct, frozen=True, kw_only=True):
    """The metadata of a session for lists.

    Attributes:
        id: ID of the session.
        place: Where it is stored, for users.
        cwd: Its folder.
        title: Title for users.
        preview: Beginning of its first prompt.
        created: When it was created.
        updated: When it was last written.
        size: In bytes.
        problem: Why it cannot be read. Empty if it can.
    """

    id: str
    place: str
    cwd: str = ""
    title: str = ""
    preview: str = ""
    created: datetime | None = None
    updated: datetime | None = None
    size: int = 0
    problem: str = ""


class ReadableLog(Protocol):
    """The lines of one session.

    Attributes:
        place: Where it is stored, for users.
    """

    place: str

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first, while they are read."""
        ...

    def read(self, position: int) -> bytes:
        """Return the line at the position of a stored line."""
        ...


class SessionLog(ReadableLog, Protocol):
    """One session in its store, opened for reading or writing.

    Attributes:
        writable: Whether this opener may write.
        problems: Problems of the opening itself.
        has_fast_append: Whether a small append takes microseconds, so that it can happen in the event loop.
    """

    writable: bool
    has_fast_append: bool
    problems: list[Problem]

    @property
    def exists(self) -> bool:
        """True if anything is stored yet. The first `append` creates a new session."""
        ...

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs of this session, if any. The first `append` creates it."""
        ...

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Append lines in one write.

        After a crash, all are there, or only the first of them, complete.

        Args:
            lines: Without line ends. The first line of a new session is its header.
            sync: Whether to wait until they would survive a power failure.

        Raises:
            OSError: If they could not be stored. Then none of them is.
        """
        ...

    def reserve(self) -> None:
        """Reserve the ID of a new session before its first `append`, until `close`.

        Raises:
            SessionError: If the session exists now, or another process has reserved the ID.
            OSError: If it cannot be reserved.
        """
        ...

    def iter_lines_backward(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first, while they are read. The header comes last."""
        ...

    def close(self) -> None:
        """Release the session for other writers."""
        ...


class SessionStore(Protocol):
    """Stores sessions."""

    @property
    def blobs_folder(self) -> str | None:
        """The folder for contents of files before tools changed them. ``None`` keeps them in memory."""
        ...

    def create(self, header: SessionEntry) -> SessionLog:
        """Create a session. Nothing is stored before its first `append`."""
        ...

    def open(self, name: str, *, write: bool = True) -> SessionLog:
        """Open a stored session.

        Args:
            name: Its ID, a unique prefix of the ID, or a place from the store.
            write: Whether to write to it. If it already has a writer, the log is readable only and reports that.

        Raises:
            SessionError: If the session is unknown, the name is ambiguous, or it is not a session.
        """
        ...

    def exists(self, name: str) -> bool:
        """Return True if a session with this ID is stored."""
        ...

    def delete(self, name: str) -> None:
        """Delete a session permanently.

        Raises:
            SessionError: If it is unknown or open for writing.
        """
        ...

    def list(self, cwd: str | None = None) -> Iterable[SessionInfo]:
        """List the sessions of a folder, or all, most recent first."""
        ...


class _StoredSession(Struct, eq=False, weakref=True):
    """The lines of one session, and whether it has a writer."""

    header: SessionEntry
    lines: list[bytes] = field(default_factory=list[bytes])
    has_writer: bool = False
    updated: datetime | None = None


class MemorySessionLog:
    """One session in a `MemoryStore`."""

    has_fast_append = True

    def __init__(self, store: MemorySessionStore, stored: _StoredSession, *, write: bool = True) -> None:
        self.place = f"memory:{stored.header.id}"
        self.writable = write and not stored.has_writer
        self.problems: list[Problem] = []
        if write and stored.has_writer:
            text = f"session {stored.header.id} is open elsewhere: new messages are not saved; fork it to continue in a copy"
            self.problems.append(Problem("locked", text))
        stored.has_writer = stored.has_writer or self.writable
        self._store = store
        self._stored = stored

    @property
    def exists(self) -> bool:
        """Whether it is stored."""
        return bool(self._stored.lines)

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs, if any."""
        return None

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Append lines in one write; see `SessionLog.append`."""
        if not self.writable:
            raise OSError(errno.EROFS, "the session is open for reading only", self.place)
        if not self._stored.lines:
            self._store.sessions[self._stored.header.id] = self._stored
        self._stored.lines.extend(lines)
        self._stored.updated = datetime.now(UTC)

    def reserve(self) -> None:
        """Reserve the ID; see `SessionLog.reserve`."""
        id = self._stored.header.id
        if self._store.exists(id) or self._store.reserved.setdefault(id, self._stored) is not self._stored:
            raise SessionError(f"Session {id} already exists. Open it, or choose another ID.")

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first."""
        for i, line in enumerate(self._stored.lines):
            yield StoredLine(i + 1, i, line)

    def iter_lines_backward(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first."""
        for i in range(len(self._stored.lines) - 1, -1, -1):
            yield StoredLine(i + 1, i, self._stored.lines[i])

    def read(self, position: int) -> bytes:
        """Return the line at a position."""
        return self._stored.lines[position]

    def close(self) -> None:
        """Release the session for other writers."""
        if self.writable:
            self.writable = self._stored.has_writer = False
            self._store.reserved.pop(self._stored.header.id, None)


class MemorySessionStore:
    """Sessions that end with the process.

    Attributes:
        sessions: The stored sessions, by ID.
        reserved: New sessions whose ID is in use, by ID.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, _StoredSession] = {}
        self.reserved: WeakValueDictionary[str, _StoredSession] = WeakValueDictionary()

    @property
    def blobs_folder(self) -> None:
        """Always ``None``."""
        return None

    def create(self, header: SessionEntry) -> MemorySessionLog:
        """Create a session. Nothing is stored yet."""
        if self.exists(validate_session_id(header.id)):
            raise SessionError(f"Session {header.id} already exists. Open it, or choose another ID.")
        return MemorySessionLog(self, _StoredSession(header))

    def open(self, name: str, *, write: bool = True) -> MemorySessionLog:
        """Open a stored session; see `SessionStore.open`."""
        return MemorySessionLog(self, self._find(name), write=write)

    def exists(self, name: str) -> bool:
        """Return True if it is stored."""
        return name in self.sessions

    def delete(self, name: str) -> None:
        """Delete a session permanently."""
        stored = self._find(name)
        if stored.has_writer:
            raise SessionError(f"Cannot delete session {name}: it is open for writing")
        del self.sessions[stored.header.id]

    def list(self, cwd: str | None = None) -> Iterable[SessionInfo]:
        """List the sessions of a folder, or all, most recent first."""
        found = [_info(stored) for stored in self.sessions.values() if cwd in {None, stored.header.cwd}]
        return sorted(found, key=lambda s: (s.updated is not None, s.updated, s.id), reverse=True)

    def _find(self, name: str) -> _StoredSession:
        name = name.removeprefix("memory:")
        found = [stored for key, stored in self.sessions.items() if key.startswith(name)]
        exact = [stored for stored in found if stored.header.id == name]
        match exact or found:
            case []:
                raise SessionError(f"Unknown session: {name}")
            case [stored]:
                return stored
            case several:
                names = ", ".join(stored.header.id for stored in several[:5])
                raise SessionError(f"{name} matches {len(several)} sessions: {names}")


def _info(stored: _StoredSession) -> SessionInfo:
    info = header_info(stored.header, f"memory:{stored.header.id}")
    return replace(update_info(info, stored.lines), updated=stored.updated)


def header_info(header: SessionEntry, place: str) -> SessionInfo:
    """Return the metadata of a new session."""
    return SessionInfo(id=header.id, place=place, cwd=header.cwd, title=header.title, created=header.timestamp)


def update_info(info: SessionInfo, lines: Iterable[bytes]) -> SessionInfo:
    """Return the metadata after more lines of a session."""
    title, preview, size = info.title, info.preview, info.size
    for line in lines:
        size += len(line) + 1
        match try_decode_entry(line):
            case LabelEntry(target=target, label=label) if target == info.id:
                title = label
            case MessageEntry(source="prompt", message=message) if not preview:
                preview = prompt_preview(getattr(message, "text", ""))[:80]
            case _:
                pass
    return replace(info, title=title, preview=preview, size=size)


class SessionStates(dict[object, Any]):
    """What policies remember of a session in this process, by class. All `Session` objects of the session share it.

    It ends with the last of them.
    """

    _known: ClassVar[WeakValueDictionary[tuple[int, str], SessionStates]] = WeakValueDictionary()

    @classmethod
    def of(cls, store: SessionStore, place: str) -> SessionStates:
        """Return the states of a session, by its place in a store."""
        key = (id(store) if isinstance(store, MemorySessionStore) else 0, place)
        found = cls._known.get(key)
        if found is None:
            cls._known[key] = found = cls()
        return found
