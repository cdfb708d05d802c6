"""Sessions in the memory of the process: for tests, and for systems where nothing can be stored."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct, field

from mainspring.errors import SessionError
from mainspring.sessions.entries import LabelEntry, MessageEntry, SessionEntry, decode_entry
from mainspring.sessions.paths import validate_session_id
from mainspring.sessions.store import Problem, SessionInfo, StoredLine
from mainspring.sessions.stored_messages import prompt_preview


class _StoredSession(Struct, eq=False):
    """The lines of one session, and whether it has a writer."""

    header: SessionEntry
    lines: list[bytes] = field(default_factory=list[bytes])
    taken: bool = False
    updated: datetime | None = None


class MemorySessionLog:
    """One session in a `MemoryStore`."""

    quick = True

    def __init__(self, store: MemorySessionStore, kept: _StoredSession, *, write: bool = True) -> None:
        self.place = f"memory:{kept.header.id}"
        self.writable = write and not kept.taken
        self.problems: list[Problem] = []
        if write and kept.taken:
            text = (
                f"session {kept.header.id} is open elsewhere: new messages are not saved; fork it to continue in a copy"
            )
            self.problems.append(Problem("locked", text))
        kept.taken = kept.taken or self.writable
        self._store = store
        self._kept = kept

    @property
    def exists(self) -> bool:
        """Whether it is stored."""
        return bool(self._kept.lines)

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs, if any."""
        return None

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Append lines in one write; see `SessionLog.append`."""
        if not self.writable:
            raise OSError(errno.EROFS, "the session is open for reading only", self.place)
        if not self._kept.lines:
            self._store.sessions[self._kept.header.id] = self._kept
        self._kept.lines.extend(lines)
        self._kept.updated = datetime.now(UTC)

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first."""
        for i, line in enumerate(self._kept.lines):
            yield StoredLine(i + 1, i, line)

    def back(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first."""
        for i in range(len(self._kept.lines) - 1, -1, -1):
            yield StoredLine(i + 1, i, self._kept.lines[i])

    def read(self, position: int) -> bytes:
        """Return the line at a position."""
        return self._kept.lines[position]

    def close(self) -> None:
        """Release the session for other writers."""
        if self.writable:
            self.writable = self._kept.taken = False


class MemorySessionStore:
    """Sessions that end with the process.

    Attributes:
        sessions: The stored sessions, by ID.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, _StoredSession] = {}

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
        kept = self._find(name)
        if kept.taken:
            raise SessionError(f"Cannot delete session {name}: it is open for writing")
        del self.sessions[kept.header.id]

    def list(self, cwd: str | None = None) -> Iterable[SessionInfo]:
        """List the sessions of a folder, or all, most recent first."""
        found = [_info(kept) for kept in self.sessions.values() if cwd in {None, kept.header.cwd}]
        return sorted(found, key=lambda s: (s.updated is not None, s.updated, s.id), reverse=True)

    def _find(self, name: str) -> _StoredSession:
        name = name.removeprefix("memory:")
        found = [kept for key, kept in self.sessions.items() if key.startswith(name)]
        exact = [kept for kept in found if kept.header.id == name]
        match exact or found:
            case []:
                raise SessionError(f"Unknown session: {name}")
            case [kept]:
                return kept
            case several:
                names = ", ".join(kept.header.id for kept in several[:5])
                raise SessionError(f"{name} matches {len(several)} sessions: {names}")


def _info(kept: _StoredSession) -> SessionInfo:
    title, preview = kept.header.title, ""
    for line in kept.lines:
        match decode_entry(line):
            case LabelEntry(target=target, label=label) if target == kept.header.id:
                title = label
            case MessageEntry(source="prompt", message=message) if not preview:
                preview = prompt_preview(getattr(message, "text", ""))[:80]
            case _:
                pass
    return SessionInfo(
        id=kept.header.id,
        place=f"memory:{kept.header.id}",
        cwd=kept.header.cwd,
        title=title,
        preview=preview,
        created=kept.header.timestamp,
        updated=kept.updated,
        size=sum(map(len, kept.lines)) + len(kept.lines),
    )
