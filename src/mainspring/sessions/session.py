"""A session: one conversation that outlives the process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from mainspring.errors import ConfigError, SessionError, format_exception
from mainspring.events import ContextCompacted
from mainspring.loop import PendingCalls, Plugin
from mainspring.loop.hooks import (
    BeforeToolRun,
    MessagesAdded,
    RunPaused,
    SessionEnd,
    SessionStart,
    ToolCallsReceived,
    ToolFinished,
    ToolResultsAfter,
)
from mainspring.messages import AgentMessage, Message, ToolResultBlock
from mainspring.sessions.blob_store import BlobStore
from mainspring.sessions.entries import (
    VERSION,
    BranchEntry,
    CallStartedEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    IntentEntry,
    Kept,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    PairEntry,
    PauseEntry,
    ResultEntry,
    RunEndEntry,
    RunStartEntry,
    SessionEntry,
)
from mainspring.sessions.history import SessionTurn, UnfinishedCalls, to_stored_messages
from mainspring.sessions.home import HomeOrStore, list_sessions, resolve_store
from mainspring.sessions.journal import SessionOptions, SessionWriter
from mainspring.sessions.lifetime import SessionLifetime
from mainspring.sessions.loader import decode_header_row
from mainspring.sessions.paths import new_session_id, resolve_session_folder
from mainspring.sessions.store import MemorySessionStore, Problem, SessionLog, SessionStates, SessionStore

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


_HOOK_ORDER = 100
"""After all other plugins: it stores final decisions.

A tool is recorded as started only once no plugin blocks it.
"""


class SessionPlug(Plugin):
    """Stores every turn of an agent as it happens, and provides the stored history.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.session_states = session.states
        self._journal = session.journal
        self._run: RunStartEntry | None = None
        self._first = self._last = ""
        self._intent_saved = False
        self._foreign_pending: Message | None = None

    def install(self, agent: CoreAgent) -> None:
        """Load the history from the session, and register the hooks."""
        history = self._journal.history
        if history.messages and agent.context.messages:
            raise ConfigError("Give the agent either a history or a session that has one, not both.")
        self._agent = agent
        agent.session_id = self.session.id
        if history.messages or history.open:
            agent.context.messages[:] = self.session.messages
            agent.context.pending = pending = self.session.pending
            if pending is not None and not self._journal.is_saving:
                self._foreign_pending = pending.message
        self._journal.agents.add(agent)
        agent.on(SessionStart, self._on_session_start, order=_HOOK_ORDER)
        agent.on(MessagesAdded, self._on_session_turns, order=_HOOK_ORDER)
        agent.on(ToolCallsReceived, self._on_tool_intent, order=_HOOK_ORDER)
        agent.on(BeforeToolRun, self._on_tool_start, order=_HOOK_ORDER)
        agent.on(ToolFinished, self._on_tool_after, order=_HOOK_ORDER)
        agent.on(ToolResultsAfter, self._on_tool_results, order=_HOOK_ORDER)
        agent.on(RunPaused, self._on_run_pause, order=_HOOK_ORDER)
        agent.on(ContextCompacted, self._on_context_compacted, order=_HOOK_ORDER)
        agent.on(SessionEnd, self._end, order=_HOOK_ORDER)

    def for_child(self) -> Plugin | None:
        """Return None: a subagent has its own conversation."""
        return None

    def check_run(self) -> None:
        """Reject a run in a closed session: it would be lost.

        Raises:
            SessionError: If the session is closed.
        """
        self._journal.check_open()

    # --- a run ------------------------------------------------------------------------------------------------------

    def _on_session_start(self, hook: SessionStart) -> None:
        """Record the start. Nothing is stored yet: an empty run leaves no trace."""
        self._sync_with_agent(self._agent.context.messages)
        self._first = self._last = ""
        self._intent_saved = self._journal.is_saving
        self._run = self._journal.record(
            RunStartEntry,
            run=hook.run_id,
            agent=hook.agent,
            resumed=hook.resumed,
            pid=os.getpid(),
            host=socket.gethostname(),
        )

    async def _end(self, hook: SessionEnd) -> None:
        run, self._run = self._run, None
        if run is not None and self._journal.undo_last(run):
            return
        self._journal.repeat_title()
        self._journal.record(
            RunEndEntry,
            run=hook.run_id,
            status=hook.status,
            turns=hook.turns,
            usage=hook.usage,
            first=self._first,
            last=self._last,
            error=format_exception(hook.error) if hook.error else "",
        )
        await self._journal.flush(durable=True)

    async def _on_session_turns(self, hook: MessagesAdded) -> None:
        for message in hook.messages:
            self._track_entry(self._journal.record(MessageEntry, message=message, source=hook.source, run=hook.run_id))
        await self._journal.flush()

    async def _on_context_compacted(self, hook: ContextCompacted) -> None:
        self._record_replacement(hook.messages, hook.reason)
        await self._journal.flush()

    # --- calls ------------------------------------------------------------------------------------------------------

    async def _on_tool_intent(self, hook: ToolCallsReceived) -> None:
        self._track_entry(self._journal.record(IntentEntry, message=hook.message, run=hook.run_id))
        self._intent_saved = await self._journal.flush()

    async def _on_tool_start(self, hook: BeforeToolRun) -> None:
        calls = self._find_pending(hook.call_id)
        if calls is None:
            return
        if calls.message is self._foreign_pending:
            hook.block = "the session is open elsewhere or for reading only, and the call may be made there, too; open the session to write"
            return
        call = next(c for c in calls.message.tool_uses if c.id == hook.call_id)
        self._journal.record(
            CallStartedEntry,
            intent=calls.entry.id,
            call=hook.call_id,
            tool=hook.name,
            idempotent=hook.idempotent,
            input=None if call.raw_input is None and hook.input == call.input else hook.input,
        )
        saved = await self._journal.flush(durable=not hook.idempotent)
        if self._intent_saved and not saved:
            # A reader of the file would see the call without its start, and conclude that it never ran.
            hook.block = "the session can no longer be saved and is in memory only from now on, so make the call again"

    async def _on_tool_after(self, hook: ToolFinished) -> None:
        calls = self._find_pending(hook.call_id)
        if calls is not None:
            self._record_result(calls, hook.result, hook.seconds)
            await self._journal.flush()

    async def _on_tool_results(self, hook: ToolResultsAfter) -> None:
        calls = self._journal.history.find(hook.message)
        if calls is None:  # An interrupted response: its calls were never checked.
            self._track_entry(self._journal.record(IntentEntry, message=hook.message, run=hook.run_id))
            calls = self._journal.history.find(hook.message)
            assert calls is not None
        refs = tuple([self._record_result(calls, block) for block in hook.results.tool_results])
        pair = self._journal.record(
            PairEntry, hook.results, intent=calls.entry.id, results=refs, message=hook.results.id
        )
        self._track_entry(pair)
        await self._journal.flush()

    async def _on_run_pause(self, hook: RunPaused) -> None:
        calls = self._journal.history.find(hook.message)
        if calls is None:
            return
        for block in hook.results.values():
            self._record_result(calls, block)
        self._journal.record(PauseEntry, intent=calls.entry.id, reasons=dict(hook.reasons))
        await self._journal.flush(durable=True)

    def _record_result(self, calls: UnfinishedCalls, block: ToolResultBlock, seconds: float = 0.0) -> str:
        """Return the entry of a result, which is created if missing."""
        known = calls.results.get(block.tool_use_id)
        if known is not None and known[1] is block:
            return known[0]
        entry = self._journal.record(
            ResultEntry, intent=calls.entry.id, call=block.tool_use_id, result=block, seconds=seconds
        )
        return entry.id

    def _find_pending(self, call_id: str) -> UnfinishedCalls | None:
        for calls in reversed(self._journal.history.open.values()):
            if any(c.id == call_id for c in calls.message.tool_uses):
                return calls
        return None

    # --- the history in the agent -----------------------------------------------------------------------------------

    def _sync_with_agent(self, theirs: list[AgentMessage]) -> None:
        """Record changes of the agent's history between runs: set, cleared (`reset`), or edited."""
        ours = self._journal.history.messages
        common = len(ours) if len(theirs) >= len(ours) else -1
        if common < 0 or any(a is not b for a, b in zip(ours, theirs, strict=False)):
            if theirs:
                self._record_replacement(theirs, "replaced")
            else:
                self._journal.branch(None)
            return
        for message in theirs[common:]:
            self._journal.record(MessageEntry, message=message, source="given")

    def _record_replacement(self, messages: tuple[AgentMessage, ...] | list[AgentMessage], reason: str) -> None:
        places = self._journal.history.entries_by_message()
        items: list[Kept | AgentMessage] = [Kept(places[id(m)]) if id(m) in places else m for m in messages]
        self._journal.record(CompactionEntry, history=tuple(items), reason=reason)

    def _track_entry(self, entry: Entry) -> None:
        self._first = self._first or entry.id
        self._last = entry.id


_S = TypeVar("_S", bound="Session")


class Session(SessionLifetime):
    """One conversation and its store.

    Pass it to an agent (``Agent(session=...)``, or its `plug`). Use it for one agent at a time.

    A new session is stored with its first message, so an unused session is never stored.

    Attributes:
        id: Its ID.
        cwd: Its folder, resolved.
        location: Where it is stored, for users.
        problems: Problems of reading and saving, for users. Grows while it is in use.
        was_interrupted: Whether the process of its last run was killed.
        store: The store.
        journal: Writes its entries.
        blobs: Contents of files before tools changed them.
        unread_entries: Number of entries that were not read when it was opened because they are before its last compaction. The history is
            complete; `entries`, `branch`, and exports read them.
        on_close: Called when it is closed, before the rest is stored.
        states: What policies remember of it, not stored.
    """

    def __init__(self, store: SessionStore, log: SessionLog, header: SessionEntry, options: SessionOptions) -> None:
        self.store = store
        self.blobs = BlobStore(store.blobs_folder)
        self.journal = SessionWriter(log, header, options)
        self.id = header.id
        self.cwd = header.cwd or resolve_session_folder()  # empty if the header was damaged
        self.location = log.place
        self.problems: list[Problem] = self.journal.problems
        self.was_interrupted = False
        self.unread_entries = 0
        self.on_close: list[Callable[[], None]] = []
        self.states = SessionStates.of(store, log.place)
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
                session is in memory, and `problems` contains the reason.
            id: Its ID (default: generated).
            title: A title for users.
            options: Options for writing.

        Raises:
            SessionError: If a session with this ID exists, or another process has just created one.
        """
        options = options or SessionOptions()
        store = resolve_store(home)
        header = new_header(options.clock(), resolve_session_folder(cwd), id=id, title=title)
        log = store.create(header)
        if id:  # Two processes may choose the same one. A generated ID is unique.
            with suppress(OSError):  # The first write reports it.
                log.reserve()
        session = cls(store, log, header, options)
        if home is None and isinstance(store, MemorySessionStore):
            session.journal.add_warning(
                Problem(
                    "memory",
                    "Cannot find your home directory: this session is in memory only. Set MAINSPRING_HOME.",
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
        if_locked: Literal["read", "fork"] = "read",
        options: SessionOptions | None = None,
    ) -> Self:
        """Open a stored session.

        Args:
            name: Its ID, a prefix of the ID, or its file.
            home: See `create`.
            write: Whether to continue it. If False, nothing is written or locked.
            if_locked: What to do if it is already open, in this or another process: ``read`` continues in memory only, ``fork``
                continues in a copy without the unfinished run, which `problems` reports.
            options: Options for writing.

        Raises:
            SessionError: If the session is unknown or not a session.
        """
        options = options or SessionOptions()
        store = resolve_store(home)
        log = store.open(os.fspath(name), write=write)
        try:
            session = load_session(cls, store, log, options)
        except OSError as error:
            log.close()
            raise SessionError(f"Cannot read {log.place}: {error.strerror or error}") from error
        except SessionError:
            log.close()
            raise
        return fork_if_locked(session) if if_locked == "fork" else session

    @classmethod
    def latest(
        cls,
        cwd: str | os.PathLike[str] | None = None,
        *,
        home: HomeOrStore | None = None,
        if_locked: Literal["read", "fork"] = "read",
        options: SessionOptions | None = None,
    ) -> Self:
        """Open the most recent session of a folder, for any spelling of its path.

        Raises:
            SessionError: If the folder has no session.
        """
        skipped: list[str] = []
        for info in list_sessions(cwd, home=home):
            if info.problem:
                skipped.append(info.problem)
                continue
            session = cls.open(info.place, home=home, if_locked=if_locked, options=options)
            for text in skipped:
                session.journal.add_warning(Problem("damaged", f"{text}; it was skipped"))
            return session
        raise SessionError("; ".join([f"No sessions in {resolve_session_folder(cwd)} yet.", *skipped]))

    # --- content ----------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The history: the path to the current leaf, from the last compaction on.

        Each call has its result.
        """
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
        return tuple(to_stored_messages(self.journal.history.messages, self.journal.history.entry_ids))

    @property
    def title(self) -> str:
        """Its title for users."""
        return self.journal.title

    @property
    def writable(self) -> bool:
        """True if new messages are stored."""
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
        """Label an entry, or the session itself (its title).

        Stored with the next message, or by `save` or `close`.
        """
        return self._record(LabelEntry, target=entry or self.id, label=text)

    def record_model(self, model: str, thinking: str = "") -> ModelChangeEntry:
        """Record that another model, ``provider:model``, responds from here on. Stored like `label`."""
        return self._record(ModelChangeEntry, model=model, thinking=thinking)

    def add_custom(self, custom_type: str, data: Any = None) -> CustomEntry:
        """Record data of the application. Stored like `label`."""
        return self._record(CustomEntry, custom_type=custom_type, data=data)

    def branch(self, entry: str | None, label: str = "", *, summary: str = "") -> BranchEntry:
        """Continue from another entry.

        ``None`` starts with an empty history. Earlier messages stay stored.

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
        summary_entry = self.journal.branch(entry, label, summary)
        self.journal.save_without_message = True
        for agent in self.journal.agents:
            agent.context.messages[:] = self.messages
            agent.context.pending = self.pending
        return summary_entry

    def fork(self, *, title: str = "", whole: bool = False, unfinished: bool = True) -> Self:
        """Create a session that starts with the path to the current leaf. It is stored with its next message, or by `save`.

        Args:
            title: Its title for users (default: that of this session).
            whole: Whether to copy all branches, with the labels of entries.
            unfinished: Whether to copy the run that another process may still be executing.

        Raises:
            SessionError: If this session uses a newer version of the format.
        """
        if self.journal.header.version > VERSION:
            raise SessionError(
                f"Session {self.id} uses a newer version of the format and cannot be copied. Update Mainspring."
            )
        header = new_header(self._options.clock(), self.cwd, title=title or self.title, forked_from=self.id)
        fork = type(self)(self.store, self.store.create(header), header, self._options)
        lines = list(self.journal.path(whole=whole))
        run = self.journal.history.run
        if run is not None and not unfinished and _may_be_running(run):
            start = next((i for i, line in enumerate(lines) if _is_start(line.entry, run)), len(lines))
            del lines[start:]
        fork.journal.begin([line.data for line in lines])
        return fork

    def plug(self) -> SessionPlug:
        """The plugin that adds it to an agent."""
        return SessionPlug(self)

    def _record(self, kind: type[Any], **fields: Any) -> Any:
        self.journal.check_open()
        self.journal.save_without_message = True
        return self.journal.record(kind, **fields)


def new_header(now: datetime, cwd: str, *, id: str = "", title: str = "", forked_from: str = "") -> SessionEntry:
    """Return the header of a new session in a resolved folder; without an ID, it gets a unique one."""
    return SessionEntry(
        id=id or new_session_id(now),
        parent=None,
        timestamp=now,
        version=VERSION,
        cwd=cwd,
        title=title,
        forked_from=forked_from,
    )


def load_session(kind: type[_S], store: SessionStore, log: SessionLog, options: SessionOptions) -> _S:
    """Return the session of a stored log.

    Raises:
        SessionError: If it is not a session.
        OSError: If it cannot be read.
    """
    session = kind(store, log, decode_header_row(log, next(iter(log.rows()), None)), options)
    session.was_interrupted = session.journal.resume()
    session.unread_entries = session.journal.unread_entries
    return session


def fork_if_locked(session: _S) -> _S:
    """Return a copy of a session that is already open elsewhere, without its unfinished run; else the session."""
    log = session.journal.log
    if log.writable or not any(p.kind == "locked" for p in log.problems):
        return session
    fork = session.fork(unfinished=False)
    session.close()
    text = f"Session {session.id} is already open. Continuing in a copy: {fork.id}."
    fork.journal.add_warning(Problem("locked", text))
    return fork


def _is_start(entry: Entry | None, run: RunStartEntry) -> bool:
    return isinstance(entry, RunStartEntry) and entry.run == run.run


def _may_be_running(run: RunStartEntry) -> bool:
    """Return False if the process of a run has certainly ended."""
    if run.host == socket.gethostname() and os.name == "posix":
        try:
            os.kill(run.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # a process of another user
            pass
    return True
