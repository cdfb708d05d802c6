"""A session: one conversation that outlives the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from mainspring.errors import SessionError
from mainspring.loop import PendingCalls
from mainspring.messages import AgentMessage
from mainspring.sessions.blob_store import BlobStore
from mainspring.sessions.entries import (
    VERSION,
    BranchEntry,
    CustomEntry,
    Entry,
    LabelEntry,
    ModelChangeEntry,
    SessionEntry,
)
from mainspring.sessions.journal import SessionOptions, SessionWriter
from mainspring.sessions.jsonl_store import JsonlStore
from mainspring.sessions.loader import decode_header_row
from mainspring.sessions.memory_store import MemorySessionStore
from mainspring.sessions.paths import new_session_id, resolve_folder, user_home
from mainspring.sessions.plug import SessionPlug
from mainspring.sessions.store import Problem, SessionInfo, SessionLog, SessionStore
from mainspring.sessions.stored_messages import SessionTurn, to_stored_messages

HomeOrStore = str | os.PathLike[str] | SessionStore
"""The place of sessions: the user's folder, or a store."""


class Session(AbstractContextManager["Session"]):
    """One conversation and its store. Pass it to an agent (``Agent(session=...)``, or its `plug`). Use it for one agent at a time.

    A new session is stored with its first message, so an unused session leaves nothing behind.

    Attributes:
        id: Its ID.
        cwd: Its folder, resolved.
        place: Where it is stored, for users.
        problems: Problems of reading and saving, for users. Grows while it is in use.
        interrupted: Whether the process of its last run was killed.
        store: The store.
        journal: Writes its entries.
        blobs: Contents of files before tools changed them.
        unread: Number of entries that were not read when it was opened because they are before its last compaction. The history is
            complete; `entries`, `branch`, and exports read them.
        closing: Called when it is closed, before the rest is stored.
    """

    def __init__(self, store: SessionStore, log: SessionLog, header: SessionEntry, options: SessionOptions) -> None:
        self.store = store
        self.blobs = BlobStore(store.blobs_folder)
        self.journal = SessionWriter(log, header, options)
        self.id = header.id
        self.cwd = header.cwd
        self.place = log.place
        self.problems: list[Problem] = self.journal.problems
        self.interrupted = False
        self.unread = 0
        self.closing: list[Callable[[], None]] = []
        self._options = options

    @classmethod
    def create(
        cls,
        cwd: str | os.PathLike[str] | None = None,
        *,
        home: HomeOrStore | None = None,
        id: str = "",
        title: str = "",
        options: SessionOptions | None = None,
    ) -> Self:
        """Create a session.

        Args:
            cwd: Its folder (default: the current one).
            home: The user's folder or a store (default: ``$MAINSPRING_HOME``, else ``~/.agent``). Without a home directory, the
                session is in memory, and `problems` says so.
            id: Its ID (default: generated).
            title: A title for users.
            options: Options for writing.

        Raises:
            SessionError: If a session with this ID exists.
        """
        options = options or SessionOptions()
        store = resolve_store(home)
        now = options.clock()
        header = SessionEntry(
            id=id or new_session_id(now),
            parent=None,
            timestamp=now,
            version=VERSION,
            cwd=resolve_folder(cwd),
            title=title,
        )
        session = cls(store, store.create(header), header, options)
        if home is None and isinstance(store, MemorySessionStore):
            session.journal.tell(
                Problem(
                    "memory",
                    "Cannot find your home directory: this session is kept in memory only. Set MAINSPRING_HOME.",
                )
            )
        session.journal.begin()
        return session

    @classmethod
    def open(
        cls,
        name: str | os.PathLike[str],
        *,
        home: HomeOrStore | None = None,
        write: bool = True,
        if_taken: Literal["read", "fork"] = "read",
        options: SessionOptions | None = None,
    ) -> Self:
        """Open a stored session.

        Args:
            name: Its ID, a prefix of the ID, or its file.
            home: See `create`.
            write: Whether to continue it. If False, nothing is written or locked.
            if_taken: What to do if it is already open, in this or another process: ``read`` continues in memory only, ``fork``
                continues in a copy. `problems` says so.
            options: Options for writing.

        Raises:
            SessionError: If the session is unknown or not a session.
        """
        options = options or SessionOptions()
        store = resolve_store(home)
        log = store.open(os.fspath(name), write=write)
        try:
            session = cls(store, log, decode_header_row(log, next(iter(log.rows()), None)), options)
            session.interrupted = session.journal.resume()
            session.unread = session.journal.unread
        except OSError as error:
            log.close()
            raise SessionError(f"Cannot read {log.place}: {error.strerror or error}") from error
        except SessionError:
            log.close()
            raise
        if if_taken == "fork" and not log.writable and any(p.kind == "locked" for p in log.problems):
            fork = session.fork()
            session.close()
            text = f"session {session.id} is already open: continuing in a copy, {fork.id}"
            fork.journal.tell(Problem("locked", text))
            return fork
        return session

    @classmethod
    def latest(
        cls,
        cwd: str | os.PathLike[str] | None = None,
        *,
        home: HomeOrStore | None = None,
        if_taken: Literal["read", "fork"] = "read",
        options: SessionOptions | None = None,
    ) -> Self:
        """Open the most recent session of a folder, for any spelling of its path.

        Raises:
            SessionError: If there is none.
        """
        skipped: list[str] = []
        for info in list_sessions(cwd, home=home):
            if info.problem:
                skipped.append(info.problem)
                continue
            session = cls.open(info.place, home=home, if_taken=if_taken, options=options)
            for text in skipped:
                session.journal.tell(Problem("damaged", f"{text}; it was skipped"))
            return session
        raise SessionError("; ".join([f"No sessions in {resolve_folder(cwd)} yet.", *skipped]))

    # --- content ----------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The history: the path to the current leaf, from the last compaction on. Each call has its result."""
        return tuple(self.journal.history.messages)

    @property
    def pending(self) -> PendingCalls | None:
        """The calls of a paused run that wait for an answer."""
        for calls in reversed(self.journal.history.open.values()):
            if calls.reasons is not None:
                results = {call: block for call, (_, block) in calls.results.items()}
                return PendingCalls(calls.message, results, dict(calls.reasons))
        return None

    @property
    def turns(self) -> tuple[SessionTurn, ...]:
        """The history as stored turns."""
        return tuple(to_stored_messages(self.journal.history.messages, self.journal.history.refs))

    @property
    def title(self) -> str:
        """Its title for users."""
        return self.journal.title

    @property
    def writable(self) -> bool:
        """Whether new messages are stored."""
        return self.journal.log.writable

    @property
    def context_folder(self) -> Path | None:
        """The folder for large outputs of this session. Exists after its first message."""
        folder = self.journal.log.context_folder
        return Path(folder) if folder else None

    def entries(self) -> list[Entry]:
        """Read the entries on the path to the current leaf again. Unknown types are skipped."""
        return [line.entry for line in self.journal.path() if line.entry is not None]

    # --- entries of other kinds -------------------------------------------------------------------------------------

    def label(self, text: str, entry: str | None = None) -> LabelEntry:
        """Label an entry, or the session itself (its title). Stored with the next message, or by `save` or `close`."""
        return self._note(LabelEntry, target=entry or self.id, label=text)

    def model_change(self, model: str, thinking: str = "") -> ModelChangeEntry:
        """Record that another model, ``provider:model``, responds from here on. Stored like `label`."""
        return self._note(ModelChangeEntry, model=model, thinking=thinking)

    def custom(self, custom_type: str, data: Any = None) -> CustomEntry:
        """Record data of the application. Stored like `label`."""
        return self._note(CustomEntry, custom_type=custom_type, data=data)

    def branch(self, entry: str | None, label: str = "", *, summary: str = "") -> BranchEntry:
        """Continue from another entry. ``None`` starts with an empty history. Earlier messages stay stored.

        Agents that use this session get the history at that entry. Stored like `label`.

        Args:
            entry: Where to continue.
            label: A reason or name.
            summary: A summary of the abandoned branch, which joins the history. `branch_with_summary` creates one.

        Raises:
            SessionError: If the entry does not exist, is between calls and their results, or the session is closed.
            AgentBusyError: If an agent is using the session.
        """
        self.journal.check_open()
        self.journal.check_idle()
        made = self.journal.branch(entry, label, summary)
        self.journal.wanted = True
        for agent in self.journal.agents:
            agent.context.messages[:] = self.messages
            agent.context.pending = self.pending
        return made

    def fork(self, *, title: str = "", whole: bool = False) -> Self:
        """Create a session that starts with the path to the current leaf. It is stored immediately.

        Args:
            title: Its title for users (default: that of this session).
            whole: Whether to copy all branches, with the labels of entries.

        Raises:
            SessionError: If this session uses a newer version of the format.
        """
        if self.journal.header.version > VERSION:
            raise SessionError(
                f"Session {self.id} uses a newer version of the format and cannot be copied. Update Mainspring."
            )
        now = self._options.clock()
        header = SessionEntry(
            id=new_session_id(now),
            parent=None,
            timestamp=now,
            version=VERSION,
            cwd=self.cwd,
            title=title or self.title,
            forked_from=self.id,
        )
        fork = type(self)(self.store, self.store.create(header), header, self._options)
        fork.journal.begin([line.data for line in self.journal.path(whole=whole)])
        return fork

    def plug(self) -> SessionPlug:
        """The plugin that adds it to an agent."""
        return SessionPlug(self)

    def save(self) -> None:
        """Store everything now, even a session without messages. Blocks.

        Raises:
            SessionError: If it is closed.
        """
        self.journal.check_open()
        self.journal.save()

    def close(self) -> None:
        """Store the rest and release it for other writers. It can still be read; new messages are refused."""
        closing, self.closing = self.closing, []
        for close in closing:
            close()
        self.journal.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _note(self, kind: type[Any], **fields: Any) -> Any:
        self.journal.check_open()
        self.journal.wanted = True
        return self.journal.record(kind, **fields)


def list_sessions(
    cwd: str | os.PathLike[str] | None = None, *, home: HomeOrStore | None = None, everywhere: bool = False
) -> list[SessionInfo]:
    """List the sessions of a folder, most recent first, without reading them completely.

    Args:
        cwd: The folder (default: the current one).
        home: See `Session.create`.
        everywhere: Whether to list the sessions of all folders.
    """
    return list(resolve_store(home).list(None if everywhere else resolve_folder(cwd)))


def resolve_store(home: HomeOrStore | None) -> SessionStore:
    """Return the store. Without a home directory, the memory of the process."""
    if home is None:
        folder = user_home()
        return JsonlStore(folder) if folder else MemorySessionStore()
    return JsonlStore(home) if isinstance(home, str | os.PathLike) else home
