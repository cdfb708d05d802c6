"""The protocol of asynchronous session stores, and the log of a session in one."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

from msgspec.structs import replace

from mainspring.errors import SessionError, format_exception
from mainspring.sessions.entries import SessionEntry
from mainspring.sessions.store import Problem, SessionInfo, StoredLine, header_info, update_info

logger = logging.getLogger("mainspring.sessions")


class AsyncSessionStore(Protocol):
    """Stores sessions through asynchronous calls, for example, in a database. `AsyncSessions` opens sessions in it.

    A call may be slow and may fail: an exception of `append` means that none of the lines is stored, and the same lines come again.
    """

    async def read(self, id: str) -> Sequence[bytes]:
        """Return the lines of a session, oldest first. Empty if it is not stored."""
        ...

    async def append(self, id: str, lines: Sequence[bytes], info: SessionInfo) -> None:
        """Add lines to a session, all of them or none, and replace its metadata. The first call creates the session.

        The next step of the run begins only when it returns, so return when the lines are stored.
        """
        ...

    async def list(self, cwd: str | None) -> Sequence[SessionInfo]:
        """Return the metadata of the sessions of a folder, or all, in any order, as `append` got it."""
        ...

    async def delete(self, id: str) -> None:
        """Delete a session permanently."""
        ...

    async def acquire(self, id: str) -> bool:
        """Reserve an ID, stored or not, for one writer. Return False if it has one.

        Let the reservation of a killed process expire, or no process can write to the session again.
        """
        ...

    async def release(self, id: str) -> None:
        """Release an ID that `acquire` reserved."""
        ...


class AsyncSessionLog:
    """One session in an `AsyncSessionStore`: its lines are in memory and written asynchronously.

    Args:
        store: The store.
        info: The metadata of the session.
        lines: Its stored lines.
        has_lock: Whether its ID is reserved for this log.
        write: Whether to write to it.
    """

    has_fast_append = False

    def __init__(
        self,
        store: AsyncSessionStore,
        info: SessionInfo,
        lines: Sequence[bytes] = (),
        *,
        has_lock: bool,
        write: bool = True,
    ) -> None:
        self.place = info.place
        self.writable = write and (has_lock or not lines)
        self.problems: list[Problem] = []
        if write and not self.writable:
            text = f"session {info.id} is open elsewhere: new messages are not saved; fork it to continue in a copy"
            self.problems.append(Problem("locked", text))
        self._store = store
        self.info = info
        self._lines = list(lines)
        self._has_lock = has_lock

    @property
    def exists(self) -> bool:
        """Whether it is stored."""
        return bool(self._lines)

    @property
    def context_folder(self) -> None:
        """Always ``None``: large outputs are in memory."""
        return None

    async def append_lines(self, lines: Sequence[bytes]) -> None:
        """Append lines in one write.

        Raises:
            OSError: If they could not be stored. Then none of them is.
        """
        if not self.writable:
            raise OSError(errno.EROFS, "the session is open for reading only", self.place)
        if not lines:
            return
        info = replace(update_info(self.info, lines), updated=datetime.now(UTC))
        try:
            self._has_lock = self._has_lock or await self._store.acquire(info.id)
            if not self._has_lock:
                raise OSError(errno.EBUSY, "another process is writing to the session", self.place)
            await self._store.append(info.id, lines, info)
        except OSError:
            raise
        except Exception as error:
            raise OSError(format_exception(error)) from error
        self._lines.extend(lines)
        self.info = info

    def append(self, lines: Sequence[bytes], *, sync: bool = False) -> None:
        """Raise SessionError: see `append_lines`."""
        raise _asynchronous_error(self.place)

    def reserve(self) -> None:
        """Raise SessionError: `AsyncSessions` reserves IDs."""
        raise _asynchronous_error(self.place)

    def rows(self) -> Iterator[StoredLine]:
        """Iterate over all lines, oldest first."""
        for i, line in enumerate(self._lines):
            yield StoredLine(i + 1, i, line)

    def iter_lines_backward(self) -> Iterator[StoredLine]:
        """Iterate over all lines, newest first."""
        for i in range(len(self._lines) - 1, -1, -1):
            yield StoredLine(i + 1, i, self._lines[i])

    def read(self, position: int) -> bytes:
        """Return the line at a position."""
        return self._lines[position]

    def close(self) -> None:
        """Do nothing for a log that is read only.

        Raises:
            SessionError: If it is open for writing; see `aclose`.
        """
        self.check_blocking()

    def check_blocking(self) -> None:
        """Raise if the session cannot be written or released by a blocking call.

        Raises:
            SessionError: If it is open for writing.
        """
        if self.writable:
            raise _asynchronous_error(self.place)

    async def aclose(self) -> None:
        """Release the session for other writers. A failure is logged: the reservation expires."""
        self.writable = False
        if self._has_lock:
            self._has_lock = False
            try:
                await self._store.release(self.info.id)
            except Exception:
                logger.warning("Cannot release session %s", self.place, exc_info=True)


class AsyncStoreFolder:
    """The sessions of an asynchronous store, as a `Session` sees them: it creates forks there. A `SessionStore`.

    Args:
        store: The store.
    """

    def __init__(self, store: AsyncSessionStore) -> None:
        self.store = store

    @property
    def blobs_folder(self) -> None:
        """Always ``None``."""
        return None

    def place_of(self, id: str) -> str:
        """Return the place of a session, for users."""
        return f"{type(self.store).__name__}:{id}"

    def create(self, header: SessionEntry) -> AsyncSessionLog:
        """Create a session. Its ID is reserved by its first write."""
        return AsyncSessionLog(self.store, header_info(header, self.place_of(header.id)), has_lock=False)

    def open(self, name: str, *, write: bool = True) -> NoReturn:
        """Raise SessionError."""
        raise _asynchronous_error(self.place_of(name))

    def exists(self, name: str) -> NoReturn:
        """Raise SessionError."""
        raise _asynchronous_error(self.place_of(name))

    def delete(self, name: str) -> NoReturn:
        """Raise SessionError."""
        raise _asynchronous_error(self.place_of(name))

    def list(self, cwd: str | None = None) -> Any:
        """Raise SessionError."""
        raise _asynchronous_error(self.place_of("*"))


def _asynchronous_error(place: str) -> SessionError:
    return SessionError(
        f"{place} is in an asynchronous store. Use `async with`, `await session.aclose()`, `await session.asave()`, and the methods of `AsyncSessions`."
    )
