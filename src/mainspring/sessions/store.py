"""The interface of a session store.

Above: the journal that writes a session, the loader that reads it, and lists of sessions. Below: files (`JsonlStore`), SQLite, or
the memory of the process (`MemoryStore`). A store knows lines, IDs, and parents, but not their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from mainspring.sessions.entries import SessionEntry

SessionWarningKind = Literal["damaged", "torn", "unknown", "newer", "locked", "unsaved", "saved", "memory"]
"""The reason of a warning:

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


class SessionLog(Protocol):
    """One session in its store, opened for reading or writing.

    Attributes:
        place: Where it is stored, for users.
        writable: Whether this opener may write.
        problems: Problems of the opening itself.
        quick: Whether a small append takes microseconds, so that it can happen in the event loop.
    """

    place: str
    writable: bool
    quick: bool
    problems: list[Problem]

    @property
    def exists(self) -> bool:
        """Whether anything is stored yet. The first `append` creates a new session."""
        ...

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs of this session, if any. The first `append` creates it."""
        ...

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Append lines in one write. After a crash, all are there, or only the first of them, complete.

        Args:
            lines: Without line ends. The first line of a new session is its header.
            sync: Whether to wait until they would survive a power failure.

        Raises:
            OSError: If they could not be stored. Then none of them is.
        """
        ...

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first, while they are read."""
        ...

    def back(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first, while they are read. The header comes last."""
        ...

    def read(self, position: int) -> bytes:
        """Return the line at a position from `rows` or `back`."""
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
