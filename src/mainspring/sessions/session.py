"""A session: one conversation that outlives the process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from mainspring.errors import ConfigError, SessionError
from mainspring.loop import PendingCalls as LoopPendingCalls
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    BeforeToolRun,
    ContextCompacted,
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
from mainspring.sessions.history import PendingCalls
from mainspring.sessions.journal import SessionOptions, SessionWriter
from mainspring.sessions.jsonl_store import JsonlStore
from mainspring.sessions.loader import decode_header_row
from mainspring.sessions.memory_store import MemorySessionStore
from mainspring.sessions.paths import new_session_id, resolve_folder, user_home
from mainspring.sessions.store import Problem, SessionInfo, SessionLog, SessionStore
from mainspring.sessions.stored_messages import SessionTurn, to_stored_messages

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


HOOK_ORDER = 100
"""After everybody else: what is stored is what was decided. A tool is noted as started only once nobody objects."""


class SessionPlug(Plugin):
    """Stores every turn of an agent as it happens, and gives it the history that is stored already.

    Args:
        session: Where to.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._journal = session.journal
        self._run: RunStartEntry | None = None
        self._first = self._last = ""
        self._intent_saved = False
        self._foreign_pending: Message | None = None

    def install(self, agent: CoreAgent) -> None:
        """Fill the history from the session, and listen."""
        history = self._journal.history
        if history.messages and agent.context.messages:
            raise ConfigError("give the agent a history or a session that has one, not both")
        self._agent = agent
        agent.session_id = self.session.id
        if history.messages or history.open:
            agent.context.messages[:] = self.session.messages
            agent.context.pending = pending = self.session.pending
            if pending is not None and not self._journal.saved:
                self._foreign_pending = pending.message
        self._journal.agents.add(agent)
        agent.run_checks.append(self._journal.check_open)  # such a run would be lost
        agent.on(SessionStart, self._on_session_start, order=HOOK_ORDER)
        agent.on(MessagesAdded, self._on_session_turns, order=HOOK_ORDER)
        agent.on(ToolCallsReceived, self._on_tool_intent, order=HOOK_ORDER)
        agent.on(BeforeToolRun, self._start, order=HOOK_ORDER)
        agent.on(ToolFinished, self._on_tool_after, order=HOOK_ORDER)
        agent.on(ToolResultsAfter, self._on_tool_results, order=HOOK_ORDER)
        agent.on(RunPaused, self._pause, order=HOOK_ORDER)
        agent.on(ContextCompacted, self._on_context_compacted, order=HOOK_ORDER)
        agent.on(SessionEnd, self._end, order=HOOK_ORDER)

    def for_child(self) -> Plugin | None:
        """Nothing: a sub-agent has a conversation of its own."""
        return None

    # --- a run ------------------------------------------------------------------------------------------------------

    def _on_session_start(self, hook: SessionStart) -> None:
        """Nothing is stored yet: a run that comes to nothing leaves no trace."""
        self._sync_with_agent(self._agent.context.messages)
        self._first = self._last = ""
        self._intent_saved = self._journal.saved
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
        if run is not None and self._journal.take_back(run):
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
            error=f"{type(hook.error).__name__}: {hook.error}" if hook.error else "",
        )
        await self._journal.flush(durable=True)

    async def _on_session_turns(self, hook: MessagesAdded) -> None:
        for message in hook.messages:
            self._seen(self._journal.record(MessageEntry, message=message, source=hook.source, run=hook.run_id))
        await self._journal.flush()

    async def _on_context_compacted(self, hook: ContextCompacted) -> None:
        self._replace(hook.after, hook.reason)
        await self._journal.flush()

    # --- calls ------------------------------------------------------------------------------------------------------

    async def _on_tool_intent(self, hook: ToolCallsReceived) -> None:
        self._seen(self._journal.record(IntentEntry, message=hook.message, run=hook.run_id))
        self._intent_saved = await self._journal.flush()

    async def _start(self, hook: BeforeToolRun) -> None:
        calls = self._find_pending(hook.call_id)
        if calls is None:
            return
        if calls.message is self._foreign_pending:
            hook.block = "the session is open elsewhere or for reading only, and there the call may be made too; open it to write"
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
            # A reader of the file would see the call and no start, and take it for one that never ran.
            hook.block = "the session can no longer be saved; from here on it is in memory only, so make the call again"

    async def _on_tool_after(self, hook: ToolFinished) -> None:
        calls = self._find_pending(hook.call_id)
        if calls is not None:
            self._record_result(calls, hook.result, hook.seconds)
            await self._journal.flush()

    async def _on_tool_results(self, hook: ToolResultsAfter) -> None:
        calls = self._journal.history.find(hook.message)
        if calls is None:  # an answer that broke off: its calls were never looked at
            self._seen(self._journal.record(IntentEntry, message=hook.message, run=hook.run_id))
            calls = self._journal.history.find(hook.message)
            assert calls is not None
        refs = tuple([self._record_result(calls, block) for block in hook.results.tool_results])
        pair = self._journal.record(
            PairEntry, hook.results, intent=calls.entry.id, results=refs, message=hook.results.id
        )
        self._seen(pair)
        await self._journal.flush()

    async def _pause(self, hook: RunPaused) -> None:
        calls = self._journal.history.find(hook.message)
        if calls is None:
            return
        for block in hook.results.values():
            self._record_result(calls, block)
        self._journal.record(PauseEntry, intent=calls.entry.id, reasons=dict(hook.reasons))
        await self._journal.flush(durable=True)

    def _record_result(self, calls: PendingCalls, block: ToolResultBlock, seconds: float = 0.0) -> str:
        """The entry of a result, which is made unless there is one."""
        known = calls.results.get(block.tool_use_id)
        if known is not None and known[1] is block:
            return known[0]
        entry = self._journal.record(
            ResultEntry, intent=calls.entry.id, call=block.tool_use_id, result=block, seconds=seconds
        )
        return entry.id

    def _find_pending(self, call_id: str) -> PendingCalls | None:
        for calls in reversed(self._journal.history.open.values()):
            if any(c.id == call_id for c in calls.message.tool_uses):
                return calls
        return None

    # --- the history as the agent has it ----------------------------------------------------------------------------

    def _sync_with_agent(self, theirs: list[AgentMessage]) -> None:
        """Follow the agent where its history was changed between runs: given, forgotten (`reset`) or edited."""
        ours = self._journal.history.messages
        common = len(ours) if len(theirs) >= len(ours) else -1
        if common < 0 or any(a is not b for a, b in zip(ours, theirs, strict=False)):
            if theirs:
                self._replace(theirs, "replaced")
            else:
                self._journal.branch(None)
            return
        for message in theirs[common:]:
            self._journal.record(MessageEntry, message=message, source="given")

    def _replace(self, messages: tuple[AgentMessage, ...] | list[AgentMessage], reason: str) -> None:
        places = self._journal.history.places()
        items: list[Kept | AgentMessage] = [Kept(places[id(m)]) if id(m) in places else m for m in messages]
        self._journal.record(CompactionEntry, history=tuple(items), reason=reason)

    def _seen(self, entry: Entry) -> None:
        self._first = self._first or entry.id
        self._last = entry.id


HomeOrStore = str | os.PathLike[str] | SessionStore
"""Where sessions are: the user's folder, or a store."""


class Session(AbstractContextManager["Session"]):
    """One conversation and where it is kept. Give it to an agent (``Agent(session=...)``, or its `plug`); use it for one agent at a time.

    A new session is stored with its first message, so one that is only looked at or never used leaves nothing behind.

    Attributes:
        id: Its id.
        cwd: The folder it belongs to, resolved.
        place: Where it is kept, for people.
        problems: What people should be told about reading and saving it; grows while it is used.
        interrupted: Whether the process of its last run was killed.
        store: Where it is kept.
        journal: Writes its entries.
        blobs: Contents of files from before tools changed them.
        unread: How many entries were not read when it was opened, since they lie before its last compaction. Nothing of the
            history is missing; `entries`, `branch` and exports read them.
        closing: Called when it is closed, before what is left is stored.
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
        """A new session.

        Args:
            cwd: The folder it belongs to; the current one if left out.
            home: The user's folder or a store; ``$MAINSPRING_HOME``, else ``~/.agent``, if left out. Where there is none,
                the session is kept in memory, and `problems` says so.
            id: Its id; made up if left out.
            title: A name for people.
            options: How it is written.

        Raises:
            SessionError: If there is a session of that id.
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
            session.journal.tell(Problem("memory", "there is no home folder: this session is kept in memory only"))
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
        """A stored session, from wherever it was.

        Args:
            name: Its id, the beginning of its id, or its file.
            home: As for `create`.
            write: Whether to go on with it. If not, nothing is written and no lock is taken.
            if_taken: What to do when it is open already, in another process or in this one: ``read`` goes on in memory only,
                ``fork`` in a copy. Either way `problems` says so.
            options: How it is written.

        Raises:
            SessionError: If there is no such session, or what is there is none.
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
            raise SessionError(f"{log.place} cannot be read: {error.strerror or error}") from error
        except SessionError:
            log.close()
            raise
        if if_taken == "fork" and not log.writable and any(p.kind == "locked" for p in log.problems):
            fork = session.fork()
            session.close()
            text = f"session {session.id} is open already: this goes on in a copy of it, {fork.id}"
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
        """The session of a folder that was used last, however the folder is spelled.

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
                session.journal.tell(Problem("damaged", f"{text}; it was passed over"))
            return session
        raise SessionError("; ".join([f"there is no session of {resolve_folder(cwd)} yet", *skipped]))

    # --- what is in it ----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The history: the path to the current leaf, from the last compaction on. Every call has its result."""
        return tuple(self.journal.history.messages)

    @property
    def pending(self) -> LoopPendingCalls | None:
        """The calls that a paused run left to be answered."""
        for calls in reversed(self.journal.history.open.values()):
            if calls.reasons is not None:
                results = {call: block for call, (_, block) in calls.results.items()}
                return LoopPendingCalls(calls.message, results, dict(calls.reasons))
        return None

    @property
    def turns(self) -> tuple[SessionTurn, ...]:
        """The history as stored turns."""
        return tuple(to_stored_messages(self.journal.history.messages, self.journal.history.refs))

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.journal.title

    @property
    def writable(self) -> bool:
        """Whether what happens in it is stored."""
        return self.journal.log.writable

    @property
    def context_folder(self) -> Path | None:
        """The folder for large outputs of this session; there from its first message on."""
        folder = self.journal.log.context_folder
        return Path(folder) if folder else None

    def entries(self) -> list[Entry]:
        """The entries on the path to the current leaf, read anew; those that this version does not know are left out."""
        return [line.entry for line in self.journal.path() if line.entry is not None]

    # --- entries of other kinds -------------------------------------------------------------------------------------

    def label(self, text: str, entry: str | None = None) -> LabelEntry:
        """Name an entry, or the session itself (its title). Stored with the next message, or by `save` or `close`."""
        return self._note(LabelEntry, target=entry or self.id, label=text)

    def model_change(self, model: str, thinking: str = "") -> ModelChangeEntry:
        """Note that another model, ``provider:model``, answers from here on. Stored as by `label`."""
        return self._note(ModelChangeEntry, model=model, thinking=thinking)

    def custom(self, custom_type: str, data: Any = None) -> CustomEntry:
        """Keep something of the application's own. Stored as by `label`."""
        return self._note(CustomEntry, custom_type=custom_type, data=data)

    def branch(self, entry: str | None, label: str = "", *, summary: str = "") -> BranchEntry:
        """Go on from another entry; ``None`` starts again with an empty history. What was said before stays stored.

        Agents that use this session get the history as it was there. Stored as by `label`.

        Args:
            entry: Where to go on.
            label: Why, or a name.
            summary: What was said on the branch that is left, in short: it joins the history. `branch_with_summary` makes one.

        Raises:
            SessionError: If there is no such entry, it stands between calls and their results, or the session is closed.
            AgentBusyError: If an agent is using the session right now.
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
        """A new session that begins with what is on the path to the current leaf. It has its own file from the start.

        Args:
            title: Its name for people; that of this one if left out.
            whole: Whether to take all branches along, with the names of entries.

        Raises:
            SessionError: If this session is of a newer version of the format.
        """
        if self.journal.header.version > VERSION:
            raise SessionError(
                f"session {self.id} is of a newer version of the format and cannot be copied by this one"
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
        """What puts it into an agent."""
        return SessionPlug(self)

    def save(self) -> None:
        """Store everything now, also a session that has no message yet. Blocks meanwhile.

        Raises:
            SessionError: If it is closed.
        """
        self.journal.check_open()
        self.journal.save()

    def close(self) -> None:
        """Store what is left, and let others write. It can still be read; what would join it is refused from here on."""
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
    """The sessions of a folder, last used first, without reading the whole of them.

    Args:
        cwd: The folder; the current one if left out.
        home: As for `Session.create`.
        everywhere: Whether to list the sessions of all folders.
    """
    return list(resolve_store(home).list(None if everywhere else resolve_folder(cwd)))


def resolve_store(home: HomeOrStore | None) -> SessionStore:
    """The store that is meant; the memory of the process where there is no home folder."""
    if home is None:
        folder = user_home()
        return JsonlStore(folder) if folder else MemorySessionStore()
    return JsonlStore(home) if isinstance(home, str | os.PathLike) else home
