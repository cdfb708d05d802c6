"""What a run is made of: its configuration, its conversation, and its state while it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from mainspring.env import ExecutionEnv
from mainspring.errors import AgentAbortedError
from mainspring.events import CancelToken, RunStatus
from mainspring.loop.behavior import Settled
from mainspring.loop.bus import HookBus
from mainspring.loop.steps import Getter, LiveSteps, Steps
from mainspring.messages import AgentMessage, Message, ToolResultBlock, Usage, convert_to_llm
from mainspring.models import ModelProvider, Scratch
from mainspring.tools import ToolRegistry

Convert = Callable[[Sequence[AgentMessage]], "Sequence[Message] | Awaitable[Sequence[Message]]"]
"""Maps the history to what a model may see; application messages are mapped or dropped here. Sync or async."""

Transform = Callable[[list[AgentMessage], CancelToken], "list[AgentMessage] | Awaitable[list[AgentMessage]]"]
"""Prunes or adds before each request, still on agent messages. Sync or async."""


class Pending(Struct):
    """Calls of a message that were not all answered when the run paused, and the results there are."""

    message: Message
    results: dict[str, ToolResultBlock] = field(default_factory=dict[str, ToolResultBlock])


class LoopContext(Struct, kw_only=True, eq=False):
    """A conversation: what the loop reads and adds to.

    Attributes:
        system: The system prompt.
        messages: The history. The loop appends to this list and never changes what is in it.
        tools: What the model may call.
        pending: Calls that wait for an answer since a pause; taken up before anything else.
        scratch: What providers keep between requests of this conversation.
    """

    system: str = ""
    messages: list[AgentMessage] = field(default_factory=list[AgentMessage])
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    pending: Pending | None = None
    scratch: Scratch = field(default_factory=Scratch)


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
    """

    model: ModelProvider
    env: ExecutionEnv
    behavior: Settled = Settled()
    bus: HookBus = field(default_factory=HookBus)
    steps: Steps = field(default_factory=LiveSteps)
    convert_to_llm: Convert = convert_to_llm
    transform_context: Transform | None = None
    get_steering: Getter | None = None
    get_follow_up: Getter | None = None
    agent: str = ""
    session_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


class LoopResult(Struct, frozen=True, eq=False):
    """How a run ended.

    Attributes:
        run_id: Name of the run.
        status: ``completed``, a limit, ``denied`` or ``paused``. (A failed or aborted run raises.)
        messages: What it added to the history.
        usage: Tokens of all its model calls.
        turns: How many model calls were answered.
        turn_usage: Tokens of each of them.
        tool_counts: How often each tool was called.
        seconds: How long it took.
    """

    run_id: str
    status: RunStatus
    messages: tuple[AgentMessage, ...]
    usage: Usage
    turns: int
    turn_usage: tuple[Usage, ...]
    tool_counts: dict[str, int]
    seconds: float


class Run:
    """The state of one run. Lives as long as the run does, and is shared with nobody."""

    __slots__ = (
        "added",
        "config",
        "context",
        "counts",
        "id",
        "llm",
        "repairs",
        "signal",
        "started",
        "status",
        "turn",
        "turn_id",
        "turn_usage",
        "usage",
    )

    def __init__(self, context: LoopContext, config: LoopConfig, signal: CancelToken) -> None:
        self.context = context
        self.config = config
        self.signal = signal
        self.id = config.steps.new_id()
        self.started = config.steps.elapsed()
        self.status: RunStatus | None = None
        self.turn = 0
        self.turn_id = ""
        self.usage = Usage.zero()
        self.turn_usage: list[Usage] = []
        self.counts: dict[str, int] = {}
        self.repairs = 0
        self.added: list[AgentMessage] = []
        # The history as the default conversion sees it, kept up to date so that a turn need not walk over all of it.
        self.llm: list[Message] | None = None
        if config.convert_to_llm is convert_to_llm:
            self.llm = convert_to_llm(context.messages)

    def append(self, messages: Sequence[AgentMessage]) -> None:
        """Let messages join the history."""
        self.context.messages.extend(messages)
        self.added.extend(messages)
        if self.llm is not None:
            self.llm.extend([m for m in messages if type(m) is Message])

    def replace(self, messages: Sequence[AgentMessage]) -> None:
        """Put other messages in place of the history (a compaction)."""
        self.context.messages[:] = messages
        if self.llm is not None:
            self.llm = convert_to_llm(messages)

    def result(self) -> LoopResult:
        """How it ended, or how far it got."""
        status, messages, usages = self.status or "error", tuple(self.added), tuple(self.turn_usage)
        return LoopResult(self.id, status, messages, self.usage, self.turn, usages, dict(self.counts), self.seconds)

    def over_limit(self) -> RunStatus | None:
        """The limit that forbids another model call, if one does."""
        limits = self.config.behavior
        if limits.max_turns is not None and self.turn >= limits.max_turns:
            return "max_turns"
        if limits.max_total_tokens is not None and self.usage.total_tokens >= limits.max_total_tokens:
            return "max_tokens"
        if limits.max_cost is not None and self.cost >= limits.max_cost:
            return "max_cost"
        if limits.max_seconds is not None and self.seconds >= limits.max_seconds:
            return "max_seconds"
        return None

    @property
    def cost(self) -> float:
        """US dollars so far, as far as prices are known."""
        return sum(u.cost.total for u in self.turn_usage if u.cost)

    @property
    def seconds(self) -> float:
        """How long it has been going."""
        return self.config.steps.elapsed() - self.started


class Interrupt:
    """``async with Interrupt(signal)``: when the signal is set, what runs inside is cancelled and AgentAbortedError raised.

    Costs one callback, no task. A cancellation that comes from elsewhere passes through untouched.
    """

    __slots__ = ("_cancelling", "_hit", "_remove", "_signal", "_task")

    def __init__(self, signal: CancelToken) -> None:
        self._signal = signal
        self._hit = False

    async def __aenter__(self) -> None:
        if self._signal.cancelled:
            raise AgentAbortedError(self._signal.reason)
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        loop = asyncio.get_running_loop()
        self._remove = self._signal.on_cancel(lambda: loop.call_soon_threadsafe(self._fire))

    def _fire(self) -> None:
        if self._remove is not None:
            self._hit = True
            self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()
        if not self._hit:
            return
        if kind is None:
            try:  # The cancellation is on its way: take it here, not in whatever is awaited next.
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                kind = asyncio.CancelledError
        if self._task.uncancel() <= self._cancelling and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise AgentAbortedError(self._signal.reason) from None
