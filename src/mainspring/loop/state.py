"""What a run is made of: its configuration, its conversation, and its state while it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct, field

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.env import ExecutionEnv
from mainspring.errors import AgentAbortedError
from mainspring.events import RunStatus
from mainspring.loop.hooks import ContextCompacted, Hook, HookBus, SideModelCall, ToolCallHook
from mainspring.loop.options import ResolvedRunOptions
from mainspring.loop.result import AgentStats, RunResult
from mainspring.loop.steps import LiveSteps, QueueReader, Steps
from mainspring.messages import AgentMessage, Message, ToolResultBlock, ToolUseBlock, Usage, convert_to_llm
from mainspring.models import EncodingCache, ModelProvider
from mainspring.tools import ToolRegistry

_H = TypeVar("_H", bound=Hook)

MessageConverter = Callable[[Sequence[AgentMessage]], "Sequence[Message] | Awaitable[Sequence[Message]]"]
"""Maps the history to what a model may see; application messages are mapped or dropped here. Sync or async."""

ContextTransformer = Callable[[list[AgentMessage], CancelToken], "list[AgentMessage] | Awaitable[list[AgentMessage]]"]
"""Prunes or adds before each request, still on agent messages. Sync or async."""


class Approve(Struct, frozen=True):
    """The answer that a call may be made. Rules that deny it still hold.

    Attributes:
        input: Arguments to use in place of the call's own; they are validated and judged like any.
    """

    input: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """The answer that a call may not be made.

    Attributes:
        reason: Told to the model.
        stop: Whether the run ends as ``denied`` then.
    """

    reason: str = "the user said no"
    stop: bool = False


class PendingCalls(Struct):
    """Calls of a message that were not all answered when the run paused.

    Attributes:
        message: The message with the calls.
        results: The results there are, by call id.
        reasons: What is to be answered, by call id.
        answers: What was answered, by call id; taken into account when the run goes on.
    """

    message: Message
    results: dict[str, ToolResultBlock] = field(default_factory=dict[str, ToolResultBlock])
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: dict[str, Approve | Deny] = field(default_factory=dict[str, "Approve | Deny"])

    @property
    def calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls that wait for an answer."""
        return tuple([c for c in self.message.tool_uses if c.id in self.reasons and c.id not in self.answers])


class LoopContext(Struct, kw_only=True, eq=False):
    """A conversation: what the loop reads and adds to.

    Attributes:
        system: The system prompt.
        messages: The history. The loop appends to this list and never changes what is in it.
        tools: What the model may call.
        pending: Calls that wait for an answer since a pause; taken up before anything else.
        scratch: What providers keep between requests of this conversation.
        side_call: Asks a model beside the conversation, while a run is going on.
        spend: Counts what was used beside the conversation, a sub-agent's say, in the run that is going on: usage, purpose.
    """

    system: str = ""
    messages: list[AgentMessage] = field(default_factory=list[AgentMessage])
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    pending: PendingCalls | None = None
    scratch: EncodingCache = field(default_factory=EncodingCache)
    side_call: SideModelCall | None = None
    spend: Callable[[Usage, str], None] | None = None


class LoopConfig(Struct, kw_only=True, eq=False):
    """What a run works with; one object may serve many runs.

    Attributes:
        model: The model to ask.
        env: Where tools work.
        behavior: Limits and options.
        bus: Who is asked and told.
        steps: By which the run touches the outside.
        convert_to_llm: See `Convert`. Default: application messages are dropped.
        transform_context: See `Transform`. Default: none.
        get_steering: Hands out messages that are to be seen at the next tool boundary.
        get_follow_up: Hands out messages that are to be seen when the run would stop.
        agent: Name of the agent.
        session_id: Name of the session, also given to the provider's prompt cache.
        extra: Handed to every tool in its context.
        aliases: The names under which the model knows tools, by their own; see `AliasedModel`.
        has_custom_system_prompt: Whether the system prompt is this run's own; `system:before` fires then.
    """

    model: ModelProvider
    env: ExecutionEnv
    behavior: ResolvedRunOptions = ResolvedRunOptions()
    bus: HookBus = field(default_factory=HookBus)
    steps: Steps = field(default_factory=LiveSteps)
    convert_to_llm: MessageConverter = convert_to_llm
    transform_context: ContextTransformer | None = None
    get_steering: QueueReader | None = None
    get_follow_up: QueueReader | None = None
    agent: str = ""
    session_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    has_custom_system_prompt: bool = False


class RunState:
    """The state of one run. Lives as long as the run does, and is shared with nobody."""

    __slots__ = (
        "added",
        "bus",
        "config",
        "context",
        "cost",
        "counts",
        "ended",
        "timed_out",
        "id",
        "model_messages",
        "invalid_responses",
        "side_call",
        "side_usage",
        "signal",
        "started",
        "status",
        "turn",
        "turn_id",
        "turn_usage",
        "usage",
    )

    def __init__(self, context: LoopContext, config: LoopConfig) -> None:
        self.context = context
        self.config = config
        self.bus = config.bus
        self.signal = CancelToken()
        self.id = config.steps.new_id()
        self.started = config.steps.elapsed()
        self.status: RunStatus | None = None
        self.ended = False
        self.timed_out = False
        self.turn = 0
        self.turn_id = ""
        self.usage = Usage.zero()
        self.turn_usage: list[Usage] = []
        self.side_call: SideModelCall
        self.side_usage: dict[str, Usage] = {}
        self.cost = 0.0  # US dollars, as far as prices are known
        self.counts: dict[str, int] = {}
        self.invalid_responses = 0
        self.added: list[AgentMessage] = []
        # The history as the default conversion sees it, kept up to date so that a turn need not walk over all of it.
        self.model_messages: list[Message] | None = None
        if config.convert_to_llm is convert_to_llm:
            self.model_messages = convert_to_llm(context.messages)

    @contextmanager
    def abort_scope(self, signal: CancelToken | None) -> Generator[None]:
        """While this is open, ``signal`` and the limit of seconds end the run, whatever it is waiting for."""
        remove = signal.on_cancel(lambda: self.signal.cancel(signal.reason)) if signal else None
        seconds, stop = self.config.behavior.max_seconds, None
        if seconds is not None:
            stop = self.config.steps.call_later(
                seconds, lambda: self._expire(f"the limit of {seconds:g} seconds was reached")
            )
        try:
            yield
        finally:
            for take_back in (remove, stop):
                if take_back is not None:
                    take_back()

    def _expire(self, reason: str) -> None:
        self.timed_out = not self.signal.cancelled
        self.signal.cancel(reason)

    async def emit(self, hook: _H) -> _H:
        """Ask the handlers of a hook. An abort ends a gate at once; other handlers get the grace that tools get.

        Raises:
            AgentAbortedError: If that ended it; asyncio.CancelledError likewise. Not for a hook that is `Hook.kept`: there all
                handlers are asked, and the run ends as soon as it can.
        """
        hook.side_call = self.side_call
        if self.config.aliases and isinstance(hook, ToolCallHook):
            hook.display_name = self.config.aliases.get(hook.name, hook.name)
        if hook.gate and self.signal.cancelled:
            raise AgentAbortedError(self.signal.reason)
        rest = self.bus.start(hook)
        if rest is None:
            return hook
        try:
            async with cancel_scope(self.signal, (0 if hook.gate else self.config.behavior.abort_grace) or 0.001):
                await rest
        except (AgentAbortedError, asyncio.CancelledError):
            if not hook.kept:
                raise
            self.signal.cancel("cancelled")
        return hook

    async def take_queued(self, topic: str, getter: QueueReader | None) -> Sequence[AgentMessage]:
        """What is waiting."""
        if getter is None:
            return ()
        async with cancel_scope(self.signal):
            return await self.config.steps.receive(topic, getter)

    def append(self, messages: Sequence[AgentMessage]) -> None:
        """Let messages join the history."""
        self.context.messages.extend(messages)
        self.added.extend(messages)
        if self.model_messages is not None:
            self.model_messages.extend([m for m in messages if type(m) is Message])

    async def compact(self, messages: Sequence[AgentMessage], reason: str) -> None:
        """Put a shorter history in place of the old one, and tell."""
        before = tuple(self.context.messages)
        self.context.messages[:] = messages
        if self.model_messages is not None:
            self.model_messages = convert_to_llm(messages)
        if self.bus.has(ContextCompacted):
            await self.emit(ContextCompacted(before, tuple(messages), reason))

    def add_usage(self, usage: Usage, purpose: str = "") -> None:
        """Count what a model call used; ``purpose`` says what for, beside the conversation."""
        self.usage += usage
        self.cost += usage.cost.total if usage.cost else 0.0
        if purpose:
            self.side_usage[purpose] = self.side_usage.get(purpose, Usage.zero()) + usage

    def result(self) -> RunResult:
        """How it ended, or how far it got."""
        stats = AgentStats(
            turns=self.turn,
            usage=self.usage,
            turn_usage=tuple(self.turn_usage),
            tool_counts=dict(self.counts),
            seconds=self.seconds,
            side_usage=dict(self.side_usage),
        )
        return RunResult.from_messages(self.added, run_id=self.id, status=self.status or "error", stats=stats)

    def exceeded_limit(self, *, turns: bool = True) -> RunStatus | None:
        """The limit that forbids another model call, if one does; ``turns=False`` leaves the number of turns out."""
        limits = self.config.behavior
        if turns and limits.max_turns is not None and self.turn >= limits.max_turns:
            return "max_turns"
        if limits.max_total_tokens is not None and self.usage.total_tokens >= limits.max_total_tokens:
            return "max_tokens"
        if limits.max_cost is not None and self.cost >= limits.max_cost:
            return "max_cost"
        if limits.max_seconds is not None and self.seconds >= limits.max_seconds:
            return "max_seconds"
        return None

    @property
    def seconds(self) -> float:
        """How long it has been going."""
        return self.config.steps.elapsed() - self.started
