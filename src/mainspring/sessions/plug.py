"""The plugin that stores an agent's conversation in a session. It depends only on hooks."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from mainspring.errors import ConfigError
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
from mainspring.sessions.entries import (
    CallStartedEntry,
    CompactionEntry,
    Entry,
    IntentEntry,
    Kept,
    MessageEntry,
    PairEntry,
    PauseEntry,
    ResultEntry,
    RunEndEntry,
    RunStartEntry,
)
from mainspring.sessions.history import PendingCalls

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent
    from mainspring.sessions.session import Session

HOOK_ORDER = 100
"""After all other plugins: it stores final decisions. A tool is recorded as started only once no plugin blocks it."""


class SessionPlug(Plugin):
    """Stores every turn of an agent as it happens, and provides the stored history.

    Args:
        session: The session.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
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
            if pending is not None and not self._journal.saved:
                self._foreign_pending = pending.message
        self._journal.agents.add(agent)
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
        """Return None: a subagent has a conversation of its own."""
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
            # A reader of the file would see the call without its start, and conclude that it never ran.
            hook.block = "the session can no longer be saved; from here on it is in memory only, so make the call again"

    async def _on_tool_after(self, hook: ToolFinished) -> None:
        calls = self._find_pending(hook.call_id)
        if calls is not None:
            self._record_result(calls, hook.result, hook.seconds)
            await self._journal.flush()

    async def _on_tool_results(self, hook: ToolResultsAfter) -> None:
        calls = self._journal.history.find(hook.message)
        if calls is None:  # An interrupted response: its calls were never checked.
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
        """Return the entry of a result, which is created if missing."""
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
        """Record changes of the agent's history between runs: set, cleared (`reset`), or edited."""
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
