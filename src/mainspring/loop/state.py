"""The configuration, the conversation, and the state of a run."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.env import ExecutionEnv
from mainspring.errors import AgentAbortedError, AgentError
from mainspring.events import (
    AgentStats,
    ContextCompacted,
    Event,
    MessageEnd,
    MessageSource,
    MessageStart,
    RunStatus,
    ToolExecutionEnd,
    TurnEnd,
)
from mainspring.loop.hooks import (
    BeforeInject,
    Handler,
    Hook,
    HookBus,
    MessagesAdded,
    SideModelCall,
    ToolCallHook,
    ToolResultsAfter,
)
from mainspring.loop.options import LoopOptions
from mainspring.loop.result import RunResult
from mainspring.loop.steps import LiveSteps, QueueReader, Steps
from mainspring.messages import (
    AgentMessage,
    Message,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    convert_to_llm,
    to_messages,
)
from mainspring.models import EncodingCache, ModelProvider
from mainspring.models.auth.credentials import ApiKeyProvider
from mainspring.models.port import with_api_key
from mainspring.tools import ToolRegistry, replace_images

_HookT = TypeVar("_HookT", bound=Hook)

MessageConverter = Callable[[Sequence[AgentMessage]], "Sequence[Message] | Awaitable[Sequence[Message]]"]
"""Converts the history to messages for the model; maps or drops application messages.

Sync or async.
"""

ContextTransformer = Callable[[list[AgentMessage], CancelToken], "list[AgentMessage] | Awaitable[list[AgentMessage]]"]
"""Removes or adds messages before each request, before they are converted. Sync or async."""


class Approve(Struct, frozen=True):
    """An approval of a tool call. A rule that denies the call still applies.

    Attributes:
        input: Arguments that replace those of the call; they are validated and checked like any others.
    """

    input: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """A denial of a tool call.

    Attributes:
        reason: The reason that the model gets.
        stop: Whether the run ends as ``denied``.
    """

    reason: str = "the user denied it"
    stop: bool = False


class PendingCalls(Struct):
    """The tool calls of one message, some of which have no result yet.

    Attributes:
        message: The message with the tool calls.
        results: The results so far, by call ID.
        reasons: Why calls need an approval, by call ID.
        answers: The approvals and denials so far, by call ID; the next run applies them.
    """

    message: Message
    results: dict[str, ToolResultBlock] = field(default_factory=dict[str, ToolResultBlock])
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: dict[str, Approve | Deny] = field(default_factory=dict[str, "Approve | Deny"])

    @property
    def calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls that still need an approval."""
        return tuple([c for c in self.message.tool_uses if c.id in self.reasons and c.id not in self.answers])

    def add_answers(self, answers: Approve | Deny | Mapping[str, Approve | Deny]) -> None:
        """Add one approval or denial for all waiting calls, or one for each call ID; see `CoreAgent.answer`."""
        decisions = answers if isinstance(answers, Mapping) else dict.fromkeys([c.id for c in self.calls], answers)
        if any(type(a) not in (Approve, Deny) for a in decisions.values()):
            raise TypeError("An approval is Approve() or Deny(), for all waiting calls or by the ID of each.")
        open_calls = {c.id for c in self.message.tool_uses} - self.results.keys()
        if unknown := decisions.keys() - open_calls:
            raise AgentError(
                f"Unknown tool call: {', '.join(sorted(unknown))}. Waiting calls: {', '.join(sorted(open_calls))}."
            )
        self.answers.update(decisions)


class RunRedirect(Struct, frozen=True, kw_only=True):
    """The agent that continues a run.

    Attributes:
        agent: Its name.
        model: Its model.
        system: Its system prompt.
        tools: Its tools.
        behavior: The options of the run from then on.
        aliases: The names under which its model knows tools.
    """

    agent: str
    model: ModelProvider
    system: str
    tools: ToolRegistry
    behavior: LoopOptions
    aliases: Mapping[str, str]


class LoopContext(Struct, kw_only=True, eq=False):
    """A conversation: what the loop reads and adds to.

    Attributes:
        system: The system prompt.
        messages: The history. The loop appends to this list and never changes a message in it.
        tools: The tools that the model may call.
        pending: Tool calls that a paused run left; the next run executes them first.
        scratch: What providers cache between the requests of this conversation.
        side_call: Calls a model outside the conversation; set during a run.
        spend: Adds usage from outside the conversation (for example, of a subagent) under a purpose; set during a run.
        redirect: Continues the run with another model, system prompt, and tools; set during a run.
    """

    system: str = ""
    messages: list[AgentMessage] = field(default_factory=list[AgentMessage])
    tools: ToolRegistry = field(default_factory=ToolRegistry)
    pending: PendingCalls | None = None
    scratch: EncodingCache = field(default_factory=EncodingCache)
    side_call: SideModelCall | None = None
    spend: Callable[[Usage, str], None] | None = None
    redirect: Callable[[RunRedirect], None] | None = None


class LoopConfig(Struct, kw_only=True, eq=False):
    """What a run works with. Several runs may share one configuration.

    Attributes:
        model: The model to call.
        env: Where tools work.
        behavior: Limits and options.
        bus: The hook handlers and event listeners.
        steps: How the run reaches the model, tools, clock, and queues.
        convert_to_llm: Converts the history for the model. Default: application messages are dropped.
        transform_context: Removes or adds messages before each request. Default: none.
        get_steering: Returns steering messages, to inject at the next tool boundary.
        get_follow_up: Returns follow-up messages, to inject when the run would stop.
        get_api_key: Returns the API key of a provider by name, for each request; ``None`` leaves the key of the model. Requires a
            model with `HttpModel.with_api_key`.
        agent: Name of the agent.
        session_id: Name of the session; also a key of the provider's prompt cache.
        extra: Application data that every tool gets in its context.
        deps: Dependencies of the run, which tools and handlers get in their context.
        aliases: The names under which the model knows tools, by the tool's own name; see `ToolAliasModel`.
        has_custom_system_prompt: Whether the system prompt belongs to this run only; `system:before` fires then.
        finalize_result: Adds to the result of a run, for example its structured output.
        add_late_usage: Adds the usage of a side call that ends after the run, which is not in its result.
    """

    model: ModelProvider
    env: ExecutionEnv
    behavior: LoopOptions = LoopOptions()
    bus: HookBus = field(default_factory=HookBus)
    steps: Steps = field(default_factory=LiveSteps)
    convert_to_llm: MessageConverter = convert_to_llm
    transform_context: ContextTransformer | None = None
    get_steering: QueueReader | None = None
    get_follow_up: QueueReader | None = None
    get_api_key: ApiKeyProvider | None = None
    agent: str = ""
    session_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    deps: Any = None
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    has_custom_system_prompt: bool = False
    finalize_result: Callable[[RunResult], RunResult] | None = None
    add_late_usage: Callable[[Usage], None] | None = None

    def __post_init__(self) -> None:
        if self.get_api_key is not None:
            self.model = with_api_key(self.model, self.get_api_key)


class RunState:
    """The state of one run. It lives as long as the run and is never shared.

    Attributes:
        status: How the run ends; ``None`` while it continues.
        has_ended: Whether the last hooks have fired, so that no more side calls are allowed.
        timed_out: Whether the time limit, and not the caller, set ``signal``.
        cost: US dollars, without calls of unknown price.
        invalid_responses: Number of invalid responses in a row.
        call_started: When the current model call began, on the clock of the steps.
        tools: The tools of the last request; before the first one, those at the start of the run.
        added: The messages that this run added to the history.
        denied: Texts of the results of denied calls.
        model_messages: The history as the default conversion returns it, updated with each message so that a turn does not
            convert all of it again; ``None`` with another conversion.
    """

    def __init__(self, context: LoopContext, config: LoopConfig) -> None:
        self.context = context
        self.config = config
        self.bus = config.bus
        self.signal = CancelToken()
        self.id = config.steps.new_id()
        self.started = config.steps.elapsed()
        self.status: RunStatus | None = None
        self.has_ended = False
        self.timed_out = False
        self.turn = 0
        self.turn_id = ""
        self.usage = Usage.zero()
        self.turn_usage: list[Usage] = []
        self.side_call: SideModelCall
        self.side_usage: dict[str, Usage] = {}
        self.cost = 0.0
        self.tool_counts: dict[str, int] = {}
        self.tools: Sequence[ToolDefinition] = context.tools.specs
        self.invalid_responses = 0
        self.call_started = 0.0
        self.added: list[AgentMessage] = []
        self.denied: list[str] = []
        self.model_messages: list[Message] | None = None
        if config.convert_to_llm is convert_to_llm:
            self.model_messages = list(self.without_unseen_images(convert_to_llm(context.messages)))

    # --- stopping ---------------------------------------------------------------------------------------------------

    @contextmanager
    def abort_scope(self, signal: CancelToken | None) -> Generator[None]:
        """Let the caller's signal and the time limit abort the run, in any wait."""
        unlink = signal.on_cancel(lambda: self.signal.cancel(signal.reason)) if signal else None
        seconds, stop_timer = self.config.behavior.max_seconds, None
        if seconds is not None:
            stop_timer = self.config.steps.call_later(seconds, self._time_out)
        try:
            yield
        finally:
            for release in (unlink, stop_timer):
                if release is not None:
                    release()

    def _time_out(self) -> None:
        self.timed_out = not self.signal.cancelled
        self.signal.cancel(f"The time limit of {self.config.behavior.max_seconds:g} seconds was reached.")

    def raise_if_aborted(self) -> None:
        """Raise AgentAbortedError if the run was aborted."""
        if self.signal.cancelled:
            raise AgentAbortedError(self.signal.reason)

    def exceeded_limit(self, *, turns: bool = True, more: Usage | None = None) -> RunStatus | None:
        """Return the limit that forbids another model call, if any.

        With ``turns=False`` ignore the limit of turns. ``more`` is usage that is not counted yet.
        """
        limits = self.config.behavior
        if turns and limits.max_turns is not None and self.turn >= limits.max_turns:
            return "max_turns"
        tokens, cost = self.usage.total_tokens, self.cost
        if more is not None:
            tokens, cost = tokens + more.total_tokens, cost + (more.cost.total if more.cost else 0.0)
        if limits.max_total_tokens is not None and tokens >= limits.max_total_tokens:
            return "max_total_tokens"
        if limits.max_cost is not None and cost >= limits.max_cost:
            return "max_cost"
        if limits.max_seconds is not None and self.seconds >= limits.max_seconds:
            return "max_seconds"
        return None

    def redirect(self, to: RunRedirect) -> None:
        """Continue as another agent from the next turn on: the history, limits, hooks, and queues stay."""
        config, context = self.config, self.context
        config.agent, config.model, config.aliases = to.agent, to.model, to.aliases
        config.behavior = to.behavior
        context.system, context.tools = to.system, to.tools
        if self.model_messages is not None:  # the other model may have no vision
            self.model_messages = list(self.without_unseen_images(convert_to_llm(context.messages)))

    # --- hooks and queues -------------------------------------------------------------------------------------------

    async def emit(self, hook: _HookT, *, only: Callable[[int, Handler[Any]], bool] | None = None) -> _HookT:
        """Call the handlers of a hook. An abort ends a gate immediately; other handlers get the grace period of tools.

        ``only`` returns True for each order and handler to call.

        Raises:
            AgentAbortedError: If an abort ended the handlers; asyncio.CancelledError for a cancellation. Not for a hook that is
                `Hook.must_finish`: all its handlers are called, and the run ends as soon as it can.
        """
        hook.side_call, hook.deps = self.side_call, self.config.deps
        if isinstance(hook, ToolCallHook):
            hook.display_name = self.config.aliases.get(hook.name, hook.name)
            tool = self.context.tools.get(hook.name)
            hook.source = tool.source if tool is not None else ""
        if hook.gate:
            self.raise_if_aborted()
        unfinished = self.bus.start(hook, only=only)
        if unfinished is not None:
            await self.await_handlers(unfinished, is_gate=hook.gate, must_finish=hook.must_finish)
        return hook

    async def notify(self, event: Event) -> None:
        """Publish an event, and await its handlers: all of them are called even if the run is being cancelled."""
        unfinished = self.bus.start_event(event)
        if unfinished is not None:
            await self.await_handlers(unfinished)

    async def await_handlers(
        self, unfinished: Coroutine[Any, Any, None], *, is_gate: bool = False, must_finish: bool = True
    ) -> None:
        """Await handlers that have started; see `emit`."""
        # Never 0: the scope of an aborted run would end before it awaits the handlers that have started.
        grace = (0 if is_gate else self.config.behavior.abort_grace) or 0.001
        try:
            async with cancel_scope(self.signal, grace):
                await unfinished
        except (AgentAbortedError, asyncio.CancelledError):
            if not must_finish:
                raise
            self.signal.cancel("cancelled")

    async def take_queued(self, topic: str, read: QueueReader | None) -> Sequence[AgentMessage]:
        """Take the messages that wait in a queue."""
        if read is None:
            return ()
        async with cancel_scope(self.signal):
            return await self.config.steps.receive(topic, read)

    # --- the history ------------------------------------------------------------------------------------------------

    async def append_messages(self, messages: str | Sequence[AgentMessage], source: MessageSource) -> None:
        """Append messages of any kind but tool calls and their results."""
        if not messages:
            return
        stamped = tuple([m if m.id else replace(m, id=self.config.steps.new_id()) for m in to_messages(messages)])
        self._extend_history(stamped)
        if source != "assistant":  # a response was published while it arrived
            for message in stamped:
                await self.notify(MessageStart(message, source))
                await self.notify(MessageEnd(message, source))
        if self.bus.has(MessagesAdded):
            await self.emit(MessagesAdded(self.id, stamped, source))

    async def append_tool_results(
        self, message: Message, results: Mapping[str, ToolResultBlock]
    ) -> Sequence[AgentMessage]:
        """Append a message and the results of its tool calls together: the history never contains one without the other.

        Returns:
            The messages that handlers want to append after them.
        """
        steps = self.config.steps
        blocks = tuple([results[call.id] for call in message.tool_uses])
        answer = Message("user", blocks, timestamp=steps.now(), id=steps.new_id())
        self._extend_history((message, answer))
        follow: Sequence[AgentMessage] = ()
        if self.bus.has(ToolResultsAfter):
            follow = (await self.emit(ToolResultsAfter(self.id, message, answer))).follow
        await self.notify(MessageStart(answer, "tool"))
        await self.notify(MessageEnd(answer, "tool"))
        await self.notify(TurnEnd(self.turn, message, blocks))
        return follow

    async def append_skipped_calls(
        self, message: Message, reason: str, results: Mapping[str, ToolResultBlock] | None = None
    ) -> None:
        """Append a message whose tool calls will not run: each call without a result gets ``reason`` as its result."""
        completed = dict(results or {})
        await self.fill_missing_results(message, completed, reason)
        await self.append_tool_results(message, completed)

    async def fill_missing_results(self, message: Message, results: dict[str, ToolResultBlock], reason: str) -> None:
        """Give each tool call that has no result yet an error with this reason."""
        for call in message.tool_uses:
            if call.id not in results:
                results[call.id] = block = ToolResultBlock(call.id, call.name, reason, True)
                await self.notify(ToolExecutionEnd(call, block, status="skipped", has_output=False))

    async def inject_messages(self, messages: Sequence[AgentMessage], kind: Literal["steer", "follow_up"]) -> bool:
        """Append queued messages; return True if there are any.

        They are never lost, even if the run is aborted now.
        """
        try:
            if messages and self.bus.has(BeforeInject):
                messages = (await self.emit(BeforeInject(kind, list(messages)))).messages
        finally:
            await self.append_messages(messages, kind)
        return bool(messages)

    async def compact(self, messages: Sequence[AgentMessage], reason: str) -> None:
        """Replace the history with a shorter one."""
        before = tuple(self.context.messages)
        self.context.messages[:] = messages
        if self.model_messages is not None:
            self.model_messages = list(self.without_unseen_images(convert_to_llm(messages)))
        if self.bus.is_heard(ContextCompacted):
            await self.notify(ContextCompacted.from_messages(reason, before, tuple(messages)))

    def _extend_history(self, messages: Sequence[AgentMessage]) -> None:
        self.context.messages.extend(messages)
        self.added.extend(messages)
        if self.model_messages is not None:
            self.model_messages.extend([m for m in messages if type(m) is Message])

    def without_unseen_images(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Replace images in the results of earlier runs if the model of this one cannot see them.

        Return the sequence itself for a model with vision. A message always has the same replacement, so that its encoded form
        stays cached.
        """
        return messages if self.config.model.info.vision else [_replace_result_images(m) for m in messages]

    # --- figures ----------------------------------------------------------------------------------------------------

    def add_usage(self, usage: Usage, purpose: str = "") -> None:
        """Add the usage of a model call.

        ``purpose`` names the use of a call outside the conversation.
        """
        self.usage += usage
        self.cost += usage.cost.total if usage.cost else 0.0
        if purpose:
            self.side_usage[purpose] = self.side_usage.get(purpose, Usage.zero()) + usage

    def count_tool(self, name: str) -> None:
        """Count a call of the tool ``name``."""
        self.tool_counts[name] = self.tool_counts.get(name, 0) + 1

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return self.config.steps.elapsed() - self.started

    def result(self) -> RunResult:
        """Return the result of the run so far."""
        stats = AgentStats(
            turns=self.turn,
            usage=self.usage,
            turn_usage=tuple(self.turn_usage),
            tool_counts=dict(self.tool_counts),
            seconds=self.seconds,
            side_usage=dict(self.side_usage),
        )
        result = RunResult.from_messages(
            self.added, run_id=self.id, agent=self.config.agent, status=self.status or "error", stats=stats
        )
        finalize = self.config.finalize_result
        return result if finalize is None else finalize(result)


_WITHOUT_IMAGES = "without_images"
"""Key of the replacement of a message, among its encoded forms."""


def _replace_result_images(message: Message) -> Message:
    cache = vars(message)
    known = cache.get(_WITHOUT_IMAGES)
    if known is None:
        known = cache[_WITHOUT_IMAGES] = _new_without_images(message)
    return known


def _new_without_images(message: Message) -> Message:
    content = [
        replace(block, content=replace_images(block.content))
        if type(block) is ToolResultBlock and not isinstance(block.content, str)
        else block
        for block in message.content
    ]
    return message if all(map(operator.is_, content, message.content)) else replace(message, content=tuple(content))
