"""What a session needs of the place where it is kept.

Above: the journal that writes a session, the loader that reads it, and whatever lists sessions. Below: files
(`JsonlStore`), or the memory of the process (`MemoryStore`). A store knows lines, ids and parents, and no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from mainspring.sessions.entries import SessionEntry

SessionWarningKind = Literal["damaged", "torn", "unknown", "newer", "locked", "unsaved", "saved", "memory"]
"""Why people are told:

- ``damaged``: a line cannot be read and was left out,
- ``torn``: the last line is incomplete,
- ``unknown``: an entry of a newer version was left alone,
- ``newer``: the whole session is of a newer version,
- ``locked``: another process has the session open,
- ``unsaved``: writing failed; ``saved``: it works again,
- ``memory``: the session is kept in memory only.
"""


class Problem(Struct, frozen=True):
    """Something about a session that people should be told."""

    kind: SessionWarningKind
    text: str

    def __str__(self) -> str:
        return self.text


class StoredLine(Struct, frozen=True):
    """A line as it is stored.

    Attributes:
        number: Counted from 1; 0 where that is not known.
        position: Where it is, for `SessionLog.read`.
        data: The line, without its end.
        complete: Whether it has an end; the last line of a stopped program may not.
    """

    number: int
    position: int
    data: bytes
    complete: bool = True


class SessionInfo(Struct, frozen=True, kw_only=True):
    """What a list of sessions shows.

    Attributes:
        id: Id of the session.
        place: Where it is kept, for people.
        cwd: The folder it belongs to.
        title: Name for people.
        preview: How its first prompt begins.
        created: When it was made.
        updated: When it was last written.
        size: In bytes.
        problem: Why it cannot be read; empty where it can.
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
    """One session in its store, opened for reading or for writing.

    Attributes:
        place: Where it is kept, for people.
        writable: Whether this opener may write.
        problems: What to tell about the opening itself.
        quick: Whether a small append takes microseconds, so that it may be made in the event loop.
    """

    place: str
    writable: bool
    quick: bool
    problems: list[Problem]

    @property
    def exists(self) -> bool:
        """Whether anything is stored yet; a new session is made by its first `append`."""
        ...

    @property
    def context_folder(self) -> str | None:
        """The folder for large outputs of this session, where it has one; made by the first `append`."""
        ...

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Add lines in one write: after a crash they are all there, or only the first of them, whole.

        Args:
            lines: Without line ends. The first line of a new session is its header.
            sync: Whether to wait until they would survive a power failure.

        Raises:
            OSError: If they could not be stored; then none of them is.
        """
        ...

    def rows(self) -> Iterator[StoredLine]:
        """All lines, oldest first, while they are read."""
        ...

    def back(self) -> Iterator[StoredLine]:
        """All lines, newest first, while they are read; the header is the last one."""
        ...

    def read(self, position: int) -> bytes:
        """The line at a position that `rows` or `back` gave."""
        ...

    def close(self) -> None:
        """Let others write."""
        ...


class SessionStore(Protocol):
    """Where sessions are kept."""

    @property
    def blobs_folder(self) -> str | None:
        """The folder for contents of files from before tools changed them; ``None`` keeps them in memory."""
        ...

    def create(self, header: SessionEntry) -> SessionLog:
        """A new session. Nothing is stored before its first `append`."""
        ...

    def open(self, name: str, *, write: bool = True) -> SessionLog:
        """A stored session.

        Args:
            name: Its id, the beginning of its id if no other begins so, or a place that the store gave.
            write: Whether to write to it. If another has it open for that, the log is readable only and says so.

        Raises:
            SessionError: If there is none, the name is ambiguous, or what is there is no session.
        """
        ...

    def exists(self, name: str) -> bool:
        """Whether a session of that id is stored."""
        ...

    def delete(self, name: str) -> None:
        """Remove a session for good.

        Raises:
            SessionError: If there is none, or it is open for writing.
        """
        ...

    def list(self, cwd: str | None = None) -> Iterable[SessionInfo]:
        """The sessions of a folder, or all; last used first."""
        ...
