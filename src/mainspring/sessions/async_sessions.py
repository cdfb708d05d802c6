"""The sessions of an asynchronous store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from mainspring.errors import SessionError
from mainspring.sessions.async_log import AsyncSessionLog, AsyncSessionStore, AsyncStoreFolder
from mainspring.sessions.journal import SessionOptions
from mainspring.sessions.loader import decode_header_row
from mainspring.sessions.paths import resolve_session_folder, validate_session_id
from mainspring.sessions.session import Session, fork_if_locked, load_session, new_header
from mainspring.sessions.store import SessionInfo, header_info, update_info

_EARLIEST = datetime.min.replace(tzinfo=UTC)


class AsyncSessions:
    """Creates, opens, lists, and deletes the sessions of an asynchronous store.

    An error of the store while a run saves is reported in `Session.problems`, and saving is retried; everywhere else, the exception of
    the store is raised. An open session has its lines in memory.

    ```python
    sessions = AsyncSessions(store)
    async with await sessions.create(title="Trip") as session:
        await Agent(model, session=session).run("Where should I go?")
    ```

    Args:
        store: The store.
        options: Options for writing.
    """

    def __init__(self, store: AsyncSessionStore, *, options: SessionOptions | None = None) -> None:
        self._store = store
        self._options = options or SessionOptions()
        self._folder = AsyncStoreFolder(store)

    async def create(self, cwd: str | os.PathLike[str] | None = None, *, id: str = "", title: str = "") -> Session:
        """Create a session. It is stored with its first message; close it with `Session.aclose` or ``async with``.

        Args:
            cwd: Its folder (default: the current one).
            id: Its ID (default: generated).
            title: A title for users.

        Raises:
            SessionError: If a session with this ID exists, or another process has just created one.
        """
        header = new_header(self._options.clock(), resolve_session_folder(cwd), id=id, title=title)
        if id:  # A generated ID is unique: its first write reserves it.
            error = SessionError(f"Session {validate_session_id(id)} already exists. Open it, or choose another ID.")
            if not await self._store.acquire(id):
                raise error
            try:
                if await self._store.read(id):
                    raise error
            except BaseException:
                await self._store.release(id)
                raise
        log = AsyncSessionLog(self._store, header_info(header, self._folder.place_of(header.id)), has_lock=bool(id))
        session = Session(self._folder, log, header, self._options)
        session.journal.begin()
        return session

    async def open(self, name: str, *, write: bool = True, if_locked: Literal["read", "fork"] = "read") -> Session:
        """Open a stored session. Close it with `Session.aclose` or ``async with``.

        Args:
            name: Its ID, or a unique prefix of the ID.
            write: Whether to continue it. If False, nothing is written or reserved.
            if_locked: What to do if it is already open, in this or another process: ``read`` continues in memory only, ``fork``
                continues in a copy without the unfinished run, which `Session.problems` reports.

        Raises:
            SessionError: If the session is unknown, the name is ambiguous, or it is not a session.
        """
        id = await self._find(name)
        has_lock = write and await self._store.acquire(id)
        try:
            lines = await self._store.read(id)  # after the reservation: nothing is written in between
            session = self._load(id, lines, has_lock=has_lock, write=write)
        except BaseException:
            if has_lock:
                await self._store.release(id)
            raise
        return fork_if_locked(session) if if_locked == "fork" else session

    async def latest(
        self, cwd: str | os.PathLike[str] | None = None, *, if_locked: Literal["read", "fork"] = "read"
    ) -> Session:
        """Open the most recent session of a folder (default: the current one).

        Raises:
            SessionError: If the folder has no session.
        """
        folder = resolve_session_folder(cwd)
        found = await self.list(folder)
        if not found:
            raise SessionError(f"No sessions in {folder} yet.")
        return await self.open(found[0].id, if_locked=if_locked)

    async def list(self, cwd: str | os.PathLike[str] | None = None) -> list[SessionInfo]:
        """List the sessions of a folder, or all, most recent first."""
        found = await self._store.list(None if cwd is None else resolve_session_folder(cwd))
        return sorted(found, key=lambda info: (info.updated or _EARLIEST, info.id), reverse=True)

    async def delete(self, name: str) -> None:
        """Delete a session permanently.

        Args:
            name: Its ID, or a unique prefix of the ID.

        Raises:
            SessionError: If it is unknown or open for writing.
        """
        id = await self._find(name)
        if not await self._store.acquire(id):
            raise SessionError(f"Cannot delete session {id}: it is open for writing")
        try:
            await self._store.delete(id)
        finally:
            await self._store.release(id)

    def _load(self, id: str, lines: Sequence[bytes], *, has_lock: bool, write: bool) -> Session:
        stored = SessionInfo(id=id, place=self._folder.place_of(id))
        log = AsyncSessionLog(self._store, stored, lines, has_lock=has_lock, write=write)
        if not lines:
            raise SessionError(f"Unknown session: {id}")
        header = decode_header_row(log, next(log.rows()))
        log.info = update_info(header_info(header, log.place), lines)
        return load_session(Session, self._folder, log, self._options)

    async def _find(self, name: str) -> str:
        """Return the ID for an ID or a unique prefix."""
        name = name.removeprefix(self._folder.place_of(""))
        found = [info.id for info in await self.list() if info.id.startswith(name)]
        match [name] if name in found else found:
            case []:
                raise SessionError(f"Unknown session: {name}")
            case [id]:
                return id
            case several:
                raise SessionError(f"{name} matches {len(several)} sessions: {', '.join(several[:5])}")
