"""The status of a chat: the facts of a status line, published when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from mainspring.agent.plugs import offered_tool_specs
from mainspring.app.chat.agent_settings import ModeSwitch
from mainspring.app.chat.conversation import CurrentConversation
from mainspring.app.chat.event_views import AgentEventView
from mainspring.app.chat.events import ChatEvent, StatusChange
from mainspring.app.chat.message_queue import MessageQueue
from mainspring.app.chat.types import Status
from mainspring.app.compose.conversation import OpenConversation
from mainspring.app.workspace.git import current_branch
from mainspring.events import ContextCompacted
from mainspring.messages import AgentMessage, Message, Usage
from mainspring.messages.token_estimate import TokenEstimator, estimate_overhead
from mainspring.policies.budgets.spending import Ledger
from mainspring.sessions import CompactionEntry, CustomEntry, Entry, IntentEntry, Kept, MessageEntry, PairEntry

_ORDER_LAST = 900


class Spending:
    """Usage of a conversation by model.

    Attributes:
        by_model: Usage by ``provider:model``; `OTHER_CALLS` is the usage of calls outside the conversation.
    """

    def __init__(self) -> None:
        self.by_model: dict[str, Usage] = {}

    def add(self, message: Message | None, usage: Usage | None) -> None:
        """Add a response, or with None a call outside the conversation."""
        if usage is None or not usage.total_tokens:
            return
        named = message is not None and message.model
        name = f"{message.provider}:{message.model}" if message is not None and named else OTHER_CALLS
        self.by_model[name] = self.by_model.get(name, Usage.zero()) + usage

    def restart(self, messages: Iterable[AgentMessage]) -> None:
        """Start again with the usage of a stored conversation."""
        self.by_model.clear()
        for message in messages:
            if isinstance(message, Message):
                self.add(message, message.usage)


OTHER_CALLS = "summaries and other calls"
"""Name of the usage of calls outside the conversation."""


_SIDE_CALL_ENTRY = "side_call"


class _SideCall(Struct, frozen=True):
    """A model call outside the conversation, as stored in its session."""

    provider: str
    model: str
    usage: Usage


class StatusReporter:
    """Publishes the status. Owns the figures that no other part has: context size, unknown prices, and git branch.

    Args:
        current: The conversation.
        mode: The mode of the agent.
        queue: The queued messages.
        view: The running subagents.
        is_running: Returns True while a run is in progress.
        publish: Publishes an event of the chat.
    """

    def __init__(
        self,
        current: CurrentConversation,
        mode: ModeSwitch,
        queue: MessageQueue,
        view: AgentEventView,
        is_running: Callable[[], bool],
        publish: Callable[[ChatEvent], None],
    ) -> None:
        self._current = current
        self._mode = mode
        self._queue = queue
        self._view = view
        self._is_running = is_running
        self._publish = publish
        self._published: Status | None = None
        self._is_paused = True
        self._branch = ""
        self._context_tokens = 0
        self._is_unpriced = False
        self.spending = Spending()
        """The usage by model."""

    @contextmanager
    def paused(self) -> Generator[None]:
        """Publish nothing inside the block."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    async def attach(self, conversation: OpenConversation) -> None:
        """Report a conversation from now on."""
        agent = conversation.agent
        agent.on(ContextCompacted, self._on_compacted, order=_ORDER_LAST)
        self._is_unpriced = any(_is_unpriced(m.usage) for m in agent.messages if isinstance(m, Message))
        self.spending.restart(agent.messages)
        session = conversation.session
        entries = session.entries() if session is not None else []
        for message in _find_compacted_messages(entries):
            if message.usage is not None:
                self.ledger.add(message.usage)
                self.spending.add(message, message.usage)
                self._is_unpriced = self._is_unpriced or _is_unpriced(message.usage)
        for entry in entries:
            if isinstance(entry, CustomEntry) and entry.custom_type == _SIDE_CALL_ENTRY:
                call = msgspec.convert(entry.data, _SideCall)
                self.ledger.add(call.usage, turns=0)
                self._count_side_call(call)
        self._branch = await asyncio.to_thread(current_branch, conversation.env.cwd)
        self.measure()

    def _on_compacted(self, hook: ContextCompacted) -> None:
        self.measure(hook.messages)

    def measure(self, messages: Sequence[AgentMessage] | None = None) -> None:
        """Estimate the context size of the next request and publish it."""
        agent = self._current.agent
        overhead = estimate_overhead(agent.context.system, offered_tool_specs(agent))
        messages = agent.messages if messages is None else messages
        self._context_tokens = TokenEstimator().tokens(messages, overhead=overhead)
        self.publish()

    async def refresh_after_run(self, usage: Usage) -> None:
        """Update the figures that a run can change.

        Args:
            usage: The usage of the run.
        """
        self._is_unpriced = self._is_unpriced or _is_unpriced(usage)
        self._branch = await asyncio.to_thread(current_branch, self._current.cwd)
        messages = (m for m in reversed(self._current.agent.messages) if isinstance(m, Message))
        response = next((m for m in messages if m.role == "assistant"), None)
        if response is not None and not (response.usage and response.usage.total_tokens):
            self.measure()  # the provider reports no usage
        self.publish()

    def status(self) -> Status:
        """Return the status now."""
        conversation = self._current.conversation
        agent, session, choice = conversation.agent, conversation.session, conversation.choice
        options = self._mode.run_options().merged_with(agent.behavior)
        ledger = self.ledger
        self._update_from_last_message(agent.context.messages)
        is_running = self._is_running()
        return Status(
            model=choice.name.spec,
            model_label=choice.name.label,
            thinking=agent.thinking,
            mode=self._mode.mode,
            sandbox=conversation.sandbox,
            running=is_running,
            context_used=self._context_tokens,
            context_window=choice.model.info.context_window or 0,
            cost=None if self._is_unpriced and not ledger.cost else round(ledger.cost, 6),
            has_unknown_prices=self._is_unpriced,
            max_cost=options.max_cost,
            tokens=ledger.tokens,
            turns=agent.ledger.turns if is_running else 0,
            max_turns=options.max_turns,
            branch=self._branch,
            cwd=conversation.env.cwd,
            session_id=session.id if session else "",
            title=session.title if session else "",
            queued=len(self._queue),
            children=self._view.running_subagents,
        )

    def _update_from_last_message(self, messages: list[AgentMessage]) -> None:
        last = messages[-1] if messages else None
        if isinstance(last, Message) and last.role == "user" and last.tool_results and len(messages) > 1:
            last = messages[-2]
        if isinstance(last, Message) and last.role == "assistant" and last.usage is not None:
            self._context_tokens = last.usage.total_tokens or self._context_tokens
            self._is_unpriced = self._is_unpriced or _is_unpriced(last.usage)

    def add_spending(self, message: Message | None, usage: Usage | None, is_stored: bool) -> None:
        """Show and store the usage of a model call, which the ledger of the conversation includes already.

        Args:
            message: The response; None if it is unknown.
            usage: Its usage.
            is_stored: Whether the response joins the conversation, which stores its usage.
        """
        if usage is None or not usage.total_tokens:
            return
        if is_stored:
            self.spending.add(message, usage)
            return
        message = message or Message("assistant", ())
        call = _SideCall(message.provider or "", message.model or "", usage)
        session = self._current.session
        if session is not None and session.writable:
            session.add_custom(_SIDE_CALL_ENTRY, msgspec.to_builtins(call))
        self._count_side_call(call)
        self.publish()

    def _count_side_call(self, call: _SideCall) -> None:
        self.spending.add(Message("assistant", (), provider=call.provider, model=call.model), call.usage)
        self._is_unpriced = self._is_unpriced or _is_unpriced(call.usage)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the conversation with all its runs and subagents."""
        ledger = self._current.agent.ledger
        while ledger.parent is not None:
            ledger = ledger.parent
        return ledger

    def publish(self) -> None:
        """Publish the status if it changed."""
        if self._is_paused or not self._current.is_open:
            return
        status = self.status()
        if status != self._published:
            self._published = status
            self._publish(StatusChange(status))


def _find_compacted_messages(entries: Sequence[Entry]) -> list[Message]:
    """Return the messages that the last compaction removed from the conversation."""
    last = max((i for i, entry in enumerate(entries) if isinstance(entry, CompactionEntry)), default=-1)
    compaction = entries[last] if last >= 0 else None
    if not isinstance(compaction, CompactionEntry):
        return []
    before = entries[:last]
    kept = {item.entry for item in compaction.history if isinstance(item, Kept)}
    kept |= {entry.intent for entry in before if isinstance(entry, PairEntry) and entry.id in kept}
    messages = [e.message for e in before if isinstance(e, MessageEntry | IntentEntry) and e.id not in kept]
    return [message for message in messages if isinstance(message, Message)]


def _is_unpriced(usage: Usage | None) -> bool:
    """Return True if tokens were used whose price is unknown."""
    return usage is not None and usage.count_unpriced() > 0
