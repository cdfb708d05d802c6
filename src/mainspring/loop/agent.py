"""Messages that wait for a run: steering and follow-ups.

The core agent: one conversation, a model, tools, and whatever is plugged in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar, overload

from msgspec.structs import replace

from mainspring.cancellation import CancelToken, cancel_scope
from mainspring.env import ExecutionEnv
from mainspring.errors import AgentAbortedError, AgentBusyError, AgentError
from mainspring.events import MessageUpdate, StreamEvent
from mainspring.loop.hooks import EventListener, Handler, Hook, HookBus, HookRegistry, Hooks, reject_async
from mainspring.loop.loop import agent_loop
from mainspring.loop.options import RunOptions
from mainspring.loop.plug import Plugin, PreparablePlug, ResettablePlug
from mainspring.loop.result import RunHandle, RunResult
from mainspring.loop.state import (
    Approve,
    ContextTransformer,
    Deny,
    LoopConfig,
    LoopContext,
    MessageConverter,
    PendingCalls,
)
from mainspring.loop.steps import LiveSteps, Steps
from mainspring.messages import AgentMessage, ContentBlock, Message, TextBlock, Usage, convert_to_llm, to_messages
from mainspring.models import ModelProvider, ModelRequest, ThinkingLevel, ToolAliasModel
from mainspring.tools import LazyTool, Tool, ToolRegistry, provider_tool_names


class MessageQueue:
    """A queue of messages, taken one at a time or all at once. Nothing in it is ever lost: what no run took stays."""

    __slots__ = ("_waiting", "mode")

    def __init__(self, mode: Literal["one", "all"] = "one") -> None:
        self.mode: Literal["one", "all"] = mode
        self._waiting: deque[AgentMessage] = deque()

    def put(self, *messages: AgentMessage) -> None:
        """Add messages at the end."""
        self._waiting.extend(messages)

    def take(self) -> Sequence[AgentMessage]:
        """The next message, or all of them."""
        if not self._waiting:
            return ()
        if self.mode == "one":
            return (self._waiting.popleft(),)
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken

    def clear(self) -> tuple[AgentMessage, ...]:
        """Empty it; gives what was in it."""
        left = tuple(self._waiting)
        self._waiting.clear()
        return left

    def __len__(self) -> int:
        return len(self._waiting)


Prompt = str | AgentMessage | Sequence[AgentMessage | ContentBlock]
"""Text, blocks of text and images, or messages."""


H = TypeVar("H", bound=Hook)


class CoreAgent:
    """One conversation. Cheap to make; safe to use from one event loop at a time (`abort` from any thread).

    Attributes:
        context: The conversation: system prompt, history, tools.
        bus: Who is asked and told.
        env: Where tools work.
        behavior: Options for all runs of this agent.
        steps: By which runs touch the outside.
        session_id: Set by whatever stores the conversation.
        extra: Handed to every tool.
        before_run: Called before anything of a run is done; what one of them raises is the end of it. For plugs without which no
            run may go.
        tool_aliases: By a tool's own name the one under which the model knows it; for everybody else it keeps its own.
    """

    def __init__(
        self,
        model: ModelProvider,
        *,
        env: ExecutionEnv,
        name: str = "agent",
        system: str = "",
        tools: Iterable[Tool | LazyTool] = (),
        behavior: RunOptions | None = None,
        plugs: Iterable[Plugin] = (),
        hooks: Hooks | None = None,
        messages: str | Iterable[AgentMessage] = (),
        steps: Steps | None = None,
        convert: MessageConverter = convert_to_llm,
        transform: ContextTransformer | None = None,
        extra: Mapping[str, Any] | None = None,
        tool_aliases: Mapping[str, str] | None = None,
        eager: bool = False,
    ) -> None:
        given = list(tools)
        self.model = model
        self.name = name
        self.env = env
        self.behavior = behavior or RunOptions()
        self.bus = HookBus(hooks)
        self.run_checks: list[Callable[[], None]] = []
        self.hooks = HookRegistry(self.bus)
        self.steps = steps or LiveSteps()
        self.session_id = ""
        self.extra: Mapping[str, Any] = extra or {}
        self.tool_aliases: Mapping[str, str] = tool_aliases or {}
        self.context = LoopContext(
            system=system,
            messages=to_messages(messages if isinstance(messages, str) else list(messages)),
            tools=ToolRegistry(t for t in given if isinstance(t, Tool)),
        )
        self.plugs: tuple[Plugin, ...] = tuple(plugs)
        self._lazy = [t for t in given if isinstance(t, LazyTool)]
        self._convert = convert
        self._on_result = transform
        self._steering = MessageQueue()
        self._follow_ups = MessageQueue()
        self._signal: CancelToken | None = None
        self._result: RunResult | None = None
        self._config: LoopConfig | None = None
        self._current = self.context
        self._ready = False
        self._warming: asyncio.Task[None] | None = None
        for plug in self.plugs:
            plug.install(self)
        provider_tool_names([t.name for t in (*self.context.tools, *self._lazy)], self.tool_aliases)
        if eager:
            with suppress(RuntimeError):  # no event loop runs yet: the first run does it
                self._start_warmup()

    # --- the conversation -------------------------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The history so far."""
        return tuple(self.context.messages)

    @property
    def tools(self) -> ToolRegistry:
        """What the model may call."""
        return self.context.tools

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._signal is not None

    async def run(self, prompt: Prompt = "", *, raise_errors: bool = True, **options: Any) -> RunResult:
        """Run to the end.

        Args:
            prompt: What to do. May be left out if there is a history to go on from.
            raise_errors: Whether a failure is raised; if not, it comes as a result with status ``error`` or ``aborted``.
            **options: ``model``, ``system``, ``behavior``, ``tools``, ``hooks``, ``signal``, each for this run only.

        Raises:
            AgentBusyError: If a run is going on.
            AgentAbortedError: If it was aborted.
            AgentProviderError: If the model failed.
            AgentError: If there is nothing to run.
            SessionError: If its session is closed.
        """
        try:
            return await self._run(prompt, **options)
        except AgentError as error:
            if raise_errors or self._result is None or isinstance(error, AgentBusyError):
                raise
            return self._result.failed(error)

    async def prompt(self, text: Prompt) -> RunResult:
        """The same as `run`."""
        return await self.run(text)

    def stream(self, prompt: Prompt = "", **options: Any) -> RunHandle:
        """Run, and get the events meanwhile: ``async with agent.stream("...") as run: async for event in run: ...``.

        Leaving the block early aborts the run. Options are those of `run`.
        """
        signal = options.pop("signal", None) or CancelToken()
        return RunHandle(self.bus, signal, lambda: self._run(prompt, signal=signal, **options))

    async def _run(
        self,
        prompt: Prompt,
        *,
        model: ModelProvider | None = None,
        system: str | None = None,
        behavior: RunOptions | None = None,
        tools: Iterable[Tool] | None = None,
        hooks: Hooks | None = None,
        signal: CancelToken | None = None,
    ) -> RunResult:
        if self._signal is not None:
            raise AgentBusyError(
                "This agent is already running. Use steer() or follow_up() to reach the run, or start another agent."
            )
        self._result = None
        for check in self.run_checks:
            check()
        prompts = to_messages(prompt)
        if not prompts and not self.context.messages and self.context.pending is None:
            raise AgentError(
                "Nothing to run: the conversation is empty. Pass a prompt, or open a session with messages."
            )
        if any(isinstance(p, Message) and not any(map(_has_content, p.content)) for p in prompts):
            raise AgentError("The prompt is empty.")
        settled = (behavior.over(self.behavior) if behavior else self.behavior).resolved()
        self._steering.mode = self._follow_ups.mode = settled.steering
        detach = self.bus.add(hooks or {})
        self._signal = signal = signal or CancelToken()
        context = self.context
        try:
            with suppress(AgentAbortedError):  # the loop sees the signal itself
                async with cancel_scope(signal):
                    await self.warmup()
            if system is not None or tools is not None:
                context = LoopContext(
                    system=context.system if system is None else system,
                    messages=context.messages,
                    tools=context.tools if tools is None else ToolRegistry(tools),
                    pending=context.pending,
                    scratch=context.scratch,
                )
            aliases = provider_tool_names([t.name for t in context.tools], self.tool_aliases)
            model = model or self.model
            self._current = context
            self._config = LoopConfig(
                model=ToolAliasModel(model, aliases) if aliases else model,
                env=self.env,
                behavior=settled,
                bus=self.bus,
                steps=self.steps,
                convert_to_llm=self._convert,
                transform_context=self._on_result,
                get_steering=self._steering.take,
                get_follow_up=self._follow_ups.take,
                agent=self.name,
                session_id=self.session_id,
                extra=self.extra,
                aliases=aliases,
                own_system=system is not None,
            )
            self._result = await agent_loop(prompts, context, self._config, signal)
            return self._result
        except AgentError as error:
            self._result = error.outcome
            raise
        finally:
            self.context.pending = context.pending
            self._signal = self._config = None
            self._current = self.context
            detach()

    # --- before the first run ---------------------------------------------------------------------------------------

    async def warmup(self) -> None:
        """Do now what the first run would do: start the environment, make lazy tools, have plugs connect and read.

        Done once, however often it is called; who calls it meanwhile waits for the same. Handlers of hooks that fire here (of
        MCP and skills) must be registered before.

        Raises:
            Exception: What the first of them that failed raised; the next call tries again.
        """
        if not self._ready:
            await asyncio.shield(self._start_warmup())

    def _start_warmup(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        if self._warming is None or self._warming.get_loop() is not loop or self._warming.done():
            self._warming = task = loop.create_task(self._run_warmup())
            # What it raises is raised for whoever waits, and it is tried again.
            task.add_done_callback(lambda t: t.cancelled() or t.exception())
        return self._warming

    async def _run_warmup(self) -> None:
        work = [p.prepare() for p in (self.env, *self.plugs) if isinstance(p, PreparablePlug)]
        failed = [e for e in await asyncio.gather(*work, return_exceptions=True) if e is not None]
        if failed:
            raise failed[0]
        while self._lazy:
            self.context.tools.add(await self._lazy[-1].load())
            self._lazy.pop()
        self._ready = True

    # --- while it runs ----------------------------------------------------------------------------------------------

    def steer(self, message: str | AgentMessage) -> None:
        """Have the run see ``message`` at the next tool boundary; calls not made yet are skipped."""
        self._steering.put(*to_messages(message))

    def follow_up(self, message: str | AgentMessage) -> None:
        """Have the run see ``message`` when it would stop."""
        self._follow_ups.put(*to_messages(message))

    def abort(self, reason: str = "aborted") -> None:
        """Stop the run; it raises AgentAbortedError. Without a run nothing happens. Safe from any thread."""
        signal = self._signal
        if signal is not None:
            signal.cancel(reason)

    @property
    def pending(self) -> PendingCalls | None:
        """The calls of a paused run that wait for an answer, or for the next run to take them up."""
        return self.context.pending

    def answer(self, answers: Approve | Deny | Mapping[str, Approve | Deny]) -> None:
        """Answer calls that a paused run left; the next `run` without a prompt goes on from there.

        Nothing that ran is run again, and the model is not asked again before all calls have their results. What is not
        answered is judged anew, and may pause again.

        Args:
            answers: One answer for all that wait, or answers by the id of the call.

        Raises:
            AgentError: If nothing waits, or no call of that id does.
            TypeError: If an answer is neither `Approve` nor `Deny`: nothing else may pass for a yes.
        """
        pending = self.context.pending
        if pending is None or self.running:
            raise AgentError("No tool call is waiting for approval.")
        asked = answers if isinstance(answers, Mapping) else dict.fromkeys([c.id for c in pending.calls], answers)
        if any(type(a) not in (Approve, Deny) for a in asked.values()):
            raise TypeError("An approval is Approve() or Deny(), for all waiting calls or by the ID of each.")
        open_calls = {c.id for c in pending.message.tool_uses} - pending.results.keys()
        if unknown := asked.keys() - open_calls:
            raise AgentError(
                f"Unknown tool call: {', '.join(sorted(unknown))}. Waiting calls: {', '.join(sorted(open_calls))}."
            )
        pending.answers.update(asked)

    async def side_call(self, purpose: str, request: ModelRequest, *, model: ModelProvider | None = None) -> Message:
        """Ask a model beside the conversation, in the run that is going on; see `SideCall`.

        Raises:
            ModelError: If it failed.
            AgentError: If no run is going on, or it has reached a limit.
        """
        call = self._current.side_call
        if call is None:
            raise AgentError(f"Cannot call a model for {purpose!r}: no run is active.")
        return await call(purpose, request, model=model)

    def spend(self, usage: Usage, purpose: str) -> None:
        """Count what was used beside the conversation, by a sub-agent say, in the run that is going on, if there is one."""
        if self._current.spend is not None:
            self._current.spend(usage, purpose)

    @property
    def thinking(self) -> ThinkingLevel | None:
        """How much the model reasons; set, it holds from the next request on."""
        return (self._config.behavior if self._config else self.behavior.resolved()).thinking

    @thinking.setter
    def thinking(self, level: ThinkingLevel | None) -> None:
        self.behavior = replace(self.behavior, thinking=level)
        if self._config is not None:
            self._config.behavior = replace(self._config.behavior, thinking=level)

    @property
    def active_tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call; set, they hold from the next request on."""
        return self._current.tools.active

    @active_tools.setter
    def active_tools(self, names: Iterable[str] | None) -> None:
        self._current.tools.set_active(names)

    def reset(self) -> None:
        """Forget the conversation; tools, plugs and options stay.

        Raises:
            AgentBusyError: If a run is going on.
        """
        if self.running:
            raise AgentBusyError("This agent is running. Call abort() first.")
        self._steering.clear()
        self._follow_ups.clear()
        self.context = self._current = LoopContext(system=self.context.system, tools=self.context.tools)
        for plug in self.plugs:
            if isinstance(plug, ResettablePlug):
                plug.reset()

    # --- who is asked and told --------------------------------------------------------------------------------------

    @overload
    def on(self, event: type[H] | str, handler: Handler[H], *, order: int = 0) -> Callable[[], None]: ...
    @overload
    def on(self, event: type[H] | str, *, order: int = 0) -> Callable[[Handler[H]], Handler[H]]: ...
    def on(self, event: type[H] | str, handler: Handler[H] | None = None, *, order: int = 0) -> Any:
        """Register a handler of a hook: ``agent.on(ToolGate, check)``, or as a decorator ``@agent.on(ToolGate)``.

        Raises:
            ConfigError: If there is no such hook.
        """
        if handler is not None:
            return self.bus.on(event, handler, order=order)

        def register(handler: Handler[H]) -> Handler[H]:
            self.bus.on(event, handler, order=order)
            return handler

        return register

    def subscribe(self, observer: EventListener) -> Callable[[], None]:
        """Tell ``observer`` of every event of every run; the model's own events come as `MessageUpdate`.

        Returns:
            A function that ends it.

        Raises:
            TypeError: If it is async; a handler of a hook may be.
        """
        reject_async(observer)

        return self.bus.observe(
            lambda event: observer(MessageUpdate(event) if isinstance(event, StreamEvent) else event)
        )


def _has_content(block: ContentBlock) -> bool:
    return not isinstance(block, TextBlock) or bool(block.text.strip())
