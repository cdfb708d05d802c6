"""The core agent: one conversation, a model, tools, plugins, and the message queues of its runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, overload, runtime_checkable

from msgspec.structs import replace

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.env import ExecutionEnv
from mainspring.errors import AgentAbortedError, AgentBusyError, AgentError, ConfigError
from mainspring.events import Event, MessageUpdate, StreamEvent
from mainspring.lazy import lazy_function
from mainspring.loop.hooks import EventListener, Handler, Hook, HookBus, HookRegistry, Hooks, reject_async
from mainspring.loop.hooks.names import resolve
from mainspring.loop.loop import agent_loop
from mainspring.loop.options import LoopOptions
from mainspring.loop.result import RunHandle, RunResult
from mainspring.loop.shared_task import SharedTask
from mainspring.loop.state import (
    Approve,
    ContextTransformer,
    Deny,
    LoopConfig,
    LoopContext,
    MessageConverter,
    PendingCalls,
)
from mainspring.loop.steps import LiveSteps, QueueReader, Steps
from mainspring.messages import AgentMessage, ContentBlock, Message, TextBlock, Usage, convert_to_llm, to_messages
from mainspring.models import ModelProvider, ModelRequest, ThinkingLevel
from mainspring.tools import LazyTool, RunContext, Tool, ToolRegistry, provider_tool_names

if TYPE_CHECKING:
    from mainspring.models import ToolAliasModel
else:
    ToolAliasModel = lazy_function("mainspring.models.wrappers.tool_aliases", "ToolAliasModel")


@runtime_checkable
class Plugin(Protocol):
    """An extension of an agent: a session, permissions, skills, telemetry, or a feature of the application."""

    def install(self, agent: CoreAgent) -> None:
        """Register hooks and tools. Called once, when the agent is created."""
        ...

    def for_child(self) -> Plugin | None:
        """Return the plugin that a subagent gets, if any.

        A conversation of the agent (`Agent.conversation`) gets the same, unless the plugin has a method ``for_conversation``.
        """
        ...


@runtime_checkable
class PreparablePlug(Protocol):
    """A plugin (or an environment) with work to do before the first run: connect, read, start."""

    async def prepare(self) -> None:
        """Prepare for runs.

        `CoreAgent.warmup` calls it concurrently with the other plugins, and calls it again only if it raised.
        """
        ...


@runtime_checkable
class RunGuard(Protocol):
    """A plugin that can reject a run before it starts, for example when its session is closed."""

    def check_run(self) -> None:
        """Raise an exception to reject the run."""
        ...


@runtime_checkable
class LatePlug(Protocol):
    """A plugin whose `prepare` may return before everything is ready, and whose connections may end between runs."""

    async def ensure_started(self) -> None:
        """Prepare again before a later run, if necessary. Raise an exception to reject the run."""
        ...

    async def settle(self) -> None:
        """Wait until everything is ready or has failed."""
        ...


@runtime_checkable
class ResettablePlug(Protocol):
    """A plugin whose state belongs to the conversation."""

    def reset(self) -> None:
        """Reset that state: a new conversation starts."""
        ...


class MessageQueue:
    """A queue of messages that a run takes one at a time or all together.

    A message stays until a run takes it.

    Args:
        mode: Whether a run takes one message at a time, or all.
        getter: Returns further messages of the application.
    """

    __slots__ = ("_getter", "_waiting", "mode")

    def __init__(self, mode: Literal["one", "all"] = "one", getter: QueueReader | None = None) -> None:
        self.mode: Literal["one", "all"] = mode
        self._getter = getter
        self._waiting: list[AgentMessage] = []  # mostly empty; an empty deque takes 0.6 KB

    def put(self, *messages: AgentMessage) -> None:
        """Add messages at the end."""
        self._waiting.extend(messages)

    def take(self) -> Sequence[AgentMessage]:
        """Take the next message, or all of them."""
        if not self._waiting:
            return ()
        if self.mode == "one":
            return (self._waiting.pop(0),)
        messages = tuple(self._waiting)
        self._waiting.clear()
        return messages

    @property
    def reader(self) -> QueueReader:
        """The function with which a run takes messages."""
        return self.take if self._getter is None else self._take_with_getter

    async def _take_with_getter(self) -> Sequence[AgentMessage]:
        assert self._getter is not None
        given = self._getter()
        return (*self.take(), *(given if isinstance(given, Sequence) else await given))

    def clear(self) -> tuple[AgentMessage, ...]:
        """Empty the queue and return its messages."""
        messages = tuple(self._waiting)
        self._waiting.clear()
        return messages

    def __len__(self) -> int:
        return len(self._waiting)


Prompt = str | AgentMessage | Sequence[AgentMessage | ContentBlock] | None
"""Text, blocks of text and images, or messages."""


_HookT = TypeVar("_HookT", bound=Hook | Event)
_HandlerT = TypeVar("_HandlerT", bound=Handler[Any])


class CoreAgent:
    """One conversation with its runs.

    Cheap to create; use it from one event loop at a time (`abort` from any thread).

    Attributes:
        context: The conversation: system prompt, history, tools.
        bus: The hook handlers and event listeners.
        env: Where tools work.
        behavior: Options for all runs of this agent.
        steps: How runs reach the model, tools, clock, and queues.
        session_id: Name of the session that stores the conversation.
        extra: Application data that every tool gets in its context.
        registrations: Functions that register the application's handlers and listeners with another agent; ``None`` while plugins are
            installed.
        tool_aliases: The names under which the model knows tools, by the tool's own name.
        swaps_context: Whether a plugin may replace the system prompt and tools of a run.
    """

    def __init__(
        self,
        model: ModelProvider,
        *,
        env: ExecutionEnv,
        name: str = "agent",
        system: str = "",
        tools: Iterable[Tool | LazyTool] = (),
        behavior: LoopOptions | None = None,
        plugs: Iterable[Plugin] = (),
        hooks: Hooks | None = None,
        messages: str | Iterable[AgentMessage] = (),
        steps: Steps | None = None,
        convert: MessageConverter = convert_to_llm,
        transform: ContextTransformer | None = None,
        get_steering: QueueReader | None = None,
        get_follow_up: QueueReader | None = None,
        extra: Mapping[str, Any] | None = None,
        tool_aliases: Mapping[str, str] | None = None,
        eager: bool = False,
    ) -> None:
        all_tools = list(tools)
        self.model = model
        self.name = name
        self.env = env
        self.behavior = behavior or LoopOptions()
        self.bus = HookBus(hooks)
        self.hooks = HookRegistry(partial(self._register, order=0, subagents=False))
        self.registrations: list[Callable[[CoreAgent], object]] | None = None
        self.steps = steps or LiveSteps()
        self.session_id = ""
        self.extra: Mapping[str, Any] = extra or {}
        self.tool_aliases: Mapping[str, str] = tool_aliases or {}
        self.context = LoopContext(
            system=system,
            messages=to_messages(messages if isinstance(messages, str) else list(messages)),
            tools=ToolRegistry(t for t in all_tools if isinstance(t, Tool)),
        )
        self.plugs: tuple[Plugin, ...] = tuple(plugs)
        self._run_guards = [p for p in self.plugs if isinstance(p, RunGuard)]
        self._late_plugs = tuple([p for p in self.plugs if isinstance(p, LatePlug)])
        self._lazy = [t for t in all_tools if isinstance(t, LazyTool)]
        self._convert = convert
        self._transform = transform
        self._steering = MessageQueue(getter=get_steering)
        self._follow_ups = MessageQueue(getter=get_follow_up)
        self._signal: CancelToken | None = None
        self._result: RunResult | None = None
        self._config: LoopConfig | None = None
        self._current = self.context
        self.swaps_context = False
        self._ready = False
        self._warmup = SharedTask(self._run_warmup)
        for plug in self.plugs:
            plug.install(self)
        self.registrations = []
        provider_tool_names([t.name for t in (*self.context.tools, *self._lazy)], self.tool_aliases)
        if eager:
            with suppress(RuntimeError):  # without an event loop, the first run does the warmup
                self._warmup.start(repeat=True)

    # --- the conversation -------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The history so far."""
        return tuple(self.context.messages)

    @property
    def tools(self) -> ToolRegistry:
        """The tools that the model may call."""
        return self.context.tools

    @property
    def running(self) -> bool:
        """True if a run is active."""
        return self._signal is not None

    async def run(self, prompt: Prompt = "", *, raise_errors: bool = True, **options: Any) -> RunResult:
        """Run until the agent stops.

        Args:
            prompt: The user's message. Optional if the conversation has messages; "Continue." if it ends with a response.
            raise_errors: Whether a failure raises; if not, it is a result with status ``error`` or ``aborted``.
            **options: ``model``, ``system``, ``behavior``, ``tools``, ``hooks``, ``signal``, ``deps``, each for this run only.

        Raises:
            AgentBusyError: If another run is active.
            AgentAbortedError: If the run was aborted.
            AgentProviderError: If the model failed.
            AgentError: If the prompt is empty, or the conversation has no messages.
            SessionError: If the session of the conversation is closed.
        """
        try:
            return await self._run(prompt, **options)
        except AgentError as error:
            if raise_errors or self._result is None or isinstance(error, AgentBusyError):
                raise
            return self._result.with_error(error)

    async def prompt(self, text: Prompt) -> RunResult:
        """Run until the agent stops: the same as `run`."""
        return await self.run(text)

    def stream(self, prompt: Prompt = "", *, subagents: bool = False, **options: Any) -> RunHandle:
        """Run and stream the events: ``async with agent.stream("...") as run: async for event in run: ...``.

        Leaving the block early aborts the run. With ``subagents``, the events of subagents come too, each in a `SubagentEvent`;
        the other options are those of `run`.
        """
        signal = options.pop("signal", None) or CancelToken()
        return RunHandle(self.bus, signal, lambda: self._run(prompt, signal=signal, **options), subagents=subagents)

    async def _run(
        self,
        prompt: Prompt,
        *,
        model: ModelProvider | None = None,
        system: str | None = None,
        behavior: LoopOptions | None = None,
        tools: Iterable[Tool] | None = None,
        hooks: Hooks | None = None,
        signal: CancelToken | None = None,
        deps: Any = None,
    ) -> RunResult:
        if self._signal is not None:
            raise AgentBusyError
        self._result = None
        self._check_run()
        prompts = to_messages(prompt)
        if not prompts and not self.context.messages and self.context.pending is None:
            raise AgentError(
                "Nothing to run: the conversation is empty. Pass a prompt, or open a session with messages."
            )
        if any(isinstance(p, Message) and not any(map(_has_content, p.content)) for p in prompts):
            raise AgentError("The prompt is empty.")
        limits = behavior.merged_with(self.behavior) if behavior else self.behavior
        self._steering.mode = self._follow_ups.mode = limits.steering
        detach = self.bus.add(hooks or {})
        self._signal = signal = signal or CancelToken()
        context = self.context
        try:
            with suppress(AgentAbortedError):  # the loop checks the signal again
                async with cancel_scope(signal):
                    await self.warmup(wait_for_late=False)
            if system is not None or tools is not None or self.swaps_context:
                context = replace(
                    context,
                    system=context.system if system is None else system,
                    tools=context.tools if tools is None else ToolRegistry(tools),
                )
            aliases = provider_tool_names([t.name for t in context.tools], self.tool_aliases)
            model = model or self.model
            self._current = context
            self._config = LoopConfig(
                model=ToolAliasModel(model, aliases) if aliases else model, env=self.env, behavior=limits, bus=self.bus,
                steps=self.steps, convert_to_llm=self._convert, transform_context=self._transform,
                get_steering=self._steering.reader, get_follow_up=self._follow_ups.reader, agent=self.name,
                session_id=self.session_id, extra=self.extra, deps=deps, aliases=aliases,
                has_custom_system_prompt=system is not None, finalize_result=self._finalize_result,
                add_late_usage=self._add_late_usage,
            )  # fmt: skip
            self._result = await agent_loop(prompts, context, self._config, signal)
            return self._result
        except AgentError as error:
            self._result = cast("RunResult | None", error.outcome)
            raise
        finally:
            self.context.pending = context.pending
            self._signal = self._config = None
            self._current = self.context
            detach()

    def _create_context(self, deps: Any, turn_id: str = "") -> RunContext[Any]:
        """Return the context of the current or next run, for functions of the application that are not tools."""
        return RunContext(
            env=self.env, deps=deps, session_id=self.session_id, turn_id=turn_id,
            agent=self._config.agent if self._config else self.name,
            signal=self._signal, extra=self.extra,
        )  # fmt: skip

    def _finalize_result(self, result: RunResult) -> RunResult:
        """Return the result of a run with the additions of a subclass."""
        return result

    def _add_late_usage(self, usage: Usage) -> None:
        """Count a side call that ended after its run."""

    def _check_run(self) -> None:
        """Let plugins reject the run."""
        for guard in self._run_guards:
            guard.check_run()

    # --- before the first run ---------------------------------------------------------------------------------------

    async def warmup(self, *, wait_for_late: bool = True) -> None:
        """Prepare for the first run: start the environment, load lazy tools, and let plugins connect and read.

        The agent prepares once; concurrent calls wait for it. Register handlers of the hooks that fire here (those of MCP and
        skills) before the call. Raises the first failure; the next call tries again.

        Args:
            wait_for_late: Whether to wait until each MCP server is ready or has failed; the first run waits only a few seconds.
        """
        is_ready = self._ready
        if not is_ready:
            await asyncio.shield(self._warmup.start(repeat=True))
        for plug in self._late_plugs if is_ready else ():
            await plug.ensure_started()
        if wait_for_late:
            await asyncio.gather(*[plug.settle() for plug in self._late_plugs])

    async def _run_warmup(self) -> None:
        work = [p.prepare() for p in (self.env, *self.plugs) if isinstance(p, PreparablePlug)]
        failed = [e for e in await asyncio.gather(*work, return_exceptions=True) if e is not None]
        if failed:
            raise failed[0]
        while self._lazy:
            self.context.tools.add(await self._lazy[-1].factory())
            self._lazy.pop()
        self._ready = True

    # --- during a run -----------------------------------------------------------------------------------------------

    def steer(self, message: str | AgentMessage) -> None:
        """Queue a steering message: the run gets it at the next tool boundary and skips the remaining tool calls."""
        self._steering.put(*to_messages(message))

    def follow_up(self, message: str | AgentMessage) -> None:
        """Queue a follow-up message: the run gets it when it would stop."""
        self._follow_ups.put(*to_messages(message))

    def abort(self, reason: str = "aborted") -> None:
        """Abort the active run, if any.

        The run raises AgentAbortedError. Safe to call from any thread.
        """
        signal = self._signal
        if signal is not None:
            signal.cancel(reason)

    @property
    def pending(self) -> PendingCalls | None:
        """The tool calls of a paused run that wait for approval, or for the next run."""
        return self.context.pending

    def answer(self, answers: Approve | Deny | Mapping[str, Approve | Deny]) -> None:
        """Approve or deny tool calls of a paused run. The next `run` without a prompt continues with them.

        No call runs twice, and the model is not called before all calls have their results. A call without an approval or
        denial is checked again, and may pause the run again.

        Args:
            answers: One approval or denial for all waiting calls, or one for each call ID.

        Raises:
            AgentError: If no call waits, or none with that ID.
            TypeError: If a value is neither `Approve` nor `Deny`, so that no other value can allow a call.
        """
        pending = self.context.pending
        if pending is None or self.running:
            raise AgentError("No tool call is waiting for approval.")
        pending.add_answers(answers)

    async def side_call(self, purpose: str, request: ModelRequest, *, model: ModelProvider | None = None) -> Message:
        """Call a model outside the conversation, as part of the active run; see `SideModelCall`.

        Raises:
            ModelError: If the call failed.
            AgentError: If no run is active, or it has reached a limit.
        """
        call = self._current.side_call
        if call is None:
            raise AgentError(f"Cannot call a model for {purpose!r}: no run is active.")
        return await call(purpose, request, model=model)

    def add_usage(self, usage: Usage, purpose: str) -> None:
        """Add usage from outside the conversation (for example, of a subagent) to the active run, if any."""
        if self._current.spend is not None:
            self._current.spend(usage, purpose)

    @property
    def thinking(self) -> ThinkingLevel | None:
        """The reasoning effort; a new value applies from the next request on. An invalid one raises `ConfigError`."""
        return (self._config.behavior if self._config else self.behavior).thinking

    @thinking.setter
    def thinking(self, level: ThinkingLevel | None) -> None:
        changed = _check_options(LoopOptions(thinking=level))
        self.behavior = changed.merged_with(self.behavior)
        if self._config is not None:
            self._config.behavior = changed.merged_with(self._config.behavior)

    @property
    def active_tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call; new names apply from the next request on."""
        return self._current.tools.active

    @active_tools.setter
    def active_tools(self, names: Iterable[str] | None) -> None:
        self._current.tools.set_active(names)

    def reset(self) -> None:
        """Start a new conversation; tools, plugins, and options stay.

        Raises:
            AgentBusyError: If a run is active.
        """
        if self.running:
            raise AgentBusyError("This agent is running. Call abort() first.")
        self._steering.clear()
        self._follow_ups.clear()
        self.context = self._current = LoopContext(system=self.context.system, tools=self.context.tools)
        for plug in self.plugs:
            if isinstance(plug, ResettablePlug):
                plug.reset()

    # --- handlers and listeners -------------------------------------------------------------------------------------

    @overload
    def on(
        self, event: str, handler: Handler[Any], *, order: int = 0, subagents: bool = False
    ) -> Callable[[], None]: ...
    @overload
    def on(
        self, event: type[_HookT], handler: Handler[_HookT], *, order: int = 0, subagents: bool = False
    ) -> Callable[[], None]: ...
    @overload
    def on(self, event: str, *, order: int = 0, subagents: bool = False) -> Callable[[_HandlerT], _HandlerT]: ...
    @overload
    def on(
        self, event: type[_HookT], *, order: int = 0, subagents: bool = False
    ) -> Callable[[Handler[_HookT]], Handler[_HookT]]: ...
    def on(
        self,
        event: type[_HookT] | str,
        handler: Handler[_HookT] | None = None,
        *,
        order: int = 0,
        subagents: bool = False,
    ) -> Any:
        """Register a handler of a hook or an event: ``agent.on(ToolGate, check)``, or as a decorator ``@agent.on(ToolGate)``.

        Args:
            event: Its class, or the name of the hook.
            handler: A sync or async function.
            order: Position among the handlers: lower numbers are called first.
            subagents: Whether it handles those of subagents in place of the agent's own; see `HookBus.on`.

        Raises:
            ConfigError: If the hook is unknown.
        """
        if handler is not None:
            return self._register(event, handler, order=order, subagents=subagents)
        resolve(event)  # `@agent.on` without a hook would discard the function

        def register(handler: Handler[_HookT]) -> Handler[_HookT]:
            self._register(event, handler, order=order, subagents=subagents)
            return handler

        return register

    def _register(self, event: Any, handler: Handler[Any], *, order: int, subagents: bool) -> Callable[[], None]:
        remove = self.bus.on(event, handler, order=order, subagents=subagents)
        return self._record(lambda agent: agent.on(event, handler, order=order, subagents=subagents), remove)

    def _record(self, registration: Callable[[CoreAgent], object], remove: Callable[[], None]) -> Callable[[], None]:
        """Record a registration of the application, for other conversations, and return the function that removes it."""
        if self.registrations is None:  # a plugin is being installed; each conversation has its own
            return remove
        self.registrations.append(registration)
        return partial(_remove_handler, remove, self.registrations, registration)

    def subscribe(self, observer: EventListener, *, subagents: bool = False) -> Callable[[], None]:
        """Call ``observer`` with every event of every run.

        Events of the model arrive as `MessageUpdate`. With ``subagents``, events of subagents arrive, each in a `SubagentEvent`.

        Returns:
            A function that removes the listener.

        Raises:
            TypeError: If the listener is async; only handlers can be async.
        """
        reject_async(observer)

        def forward(event: Event) -> None:
            observer(MessageUpdate(event) if isinstance(event, StreamEvent) else event)

        forward.__qualname__ = getattr(observer, "__qualname__", repr(observer))  # for the log
        remove = self.bus.subscribe(forward, subagents=subagents)
        return self._record(lambda agent: agent.subscribe(observer, subagents=subagents), remove)


def _remove_handler(remove: Callable[[], None], registrations: list[Any], registration: object) -> None:
    remove()
    if registration in registrations:
        registrations.remove(registration)


def _check_options(options: LoopOptions) -> LoopOptions:
    if problems := options.find_problems():
        raise ConfigError(f"{problems[0]}.")
    return options


def _has_content(block: ContentBlock) -> bool:
    return not isinstance(block, TextBlock) or bool(block.text.strip())
