"""The plugin that traces an agent. It observes the agent only through hooks and events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigError
from mainspring.events import (
    AgentEnd,
    AgentStart,
    ContextCompacted,
    Event,
    MessageEnd,
    MessageStart,
    ModelRetry,
    SpanContext,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    UsageUpdate,
)
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    BeforeSpawn,
    BeforeToolRun,
    ModelErrorHook,
    ToolFailed,
    ToolFinished,
    TurnBefore,
)
from mainspring.telemetry.run_spans import RunSpan, SpanAgentName
from mainspring.telemetry.telemetry import Telemetry
from mainspring.telemetry.tool_spans import McpStartupTracer, ToolCallSpans

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring.telemetry")
logger.addHandler(logging.NullHandler())

_FIRST, _LAST = -10_000, 10_000  # _FIRST: before handlers that decide. _LAST: after handlers that change the hook.
_CHUNKS = (TextDelta, ThinkingDelta, ToolCallDelta, ToolCallStart)
SUBAGENT = "subagent"


class Tracing(Plugin):
    """Traces an agent and its subagents. Each agent needs its own instance.

    A failure in it is logged once, tracing of this agent is then off, and the run continues.

    Args:
        telemetry: The telemetry; many agents may share it.

    Attributes:
        agent_name: Name of the agent in its spans.
        run: The trace of the current run.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self._parent_tracing: Tracing | None = None
        self._agent: CoreAgent | None = None
        self.agent_name = SpanAgentName("")
        self.run: RunSpan | None = None
        self._last_event: Event | None = None
        self._mcp_startup: McpStartupTracer | None = None
        self._broken = False

    def install(self, agent: CoreAgent) -> None:
        """Listen to the agent, unless telemetry is off."""
        if self._agent is not None:
            raise ConfigError("This Tracing belongs to another agent. Create one for each agent: Tracing(telemetry).")
        self._agent = agent
        self.agent_name = self.agent_name if self.agent_name.name else SpanAgentName(agent.name)
        signals = self.telemetry.signals
        if signals is None:
            return
        self._mcp_startup = startup = McpStartupTracer(signals)
        agent.bus.subscribe(self._on_event)
        agent.on(TurnBefore, self._run_handler(RunSpan.turn), order=_LAST)
        agent.on(ModelErrorHook, self._run_handler(RunSpan.model_failed), order=_FIRST)
        agent.on(UsageUpdate, self._run_handler(RunSpan.record_side_call), order=_LAST)
        agent.on(ContextCompacted, self._run_handler(RunSpan.record_compaction), order=_LAST)
        agent.on(BeforeToolRun, self._calls_handler(ToolCallSpans.start_tool), order=_LAST)
        agent.on(ToolFailed, self._calls_handler(ToolCallSpans.failed), order=_FIRST)
        agent.on(ToolFinished, self._calls_handler(ToolCallSpans.set_duration), order=_LAST)
        agent.on("mcp:tool:before", self._calls_handler(ToolCallSpans.set_server), order=_LAST)
        agent.on("mcp:bootstrap:start", self._guard(startup.start), order=_LAST)
        agent.on("mcp:connect", self._guard(lambda hook: startup.connected(hook, self._context())), order=_LAST)
        agent.on("mcp:error", self._guard(lambda hook: startup.failed(hook, self._context())), order=_LAST)
        agent.on("mcp:bootstrap:end", self._guard(lambda hook: startup.end(hook, self._within())), order=_LAST)
        agent.on(BeforeSpawn, self._guard(_name_subagent), order=_LAST)
        agent.on("agent:done", self._run_handler(RunSpan.done), order=_LAST)

    def for_child(self) -> Plugin:
        """Return the plugin for a subagent, whose spans are within the call that started it."""
        child = Tracing(self.telemetry)
        child._parent_tracing = self
        child.agent_name = SpanAgentName(SUBAGENT)
        return child

    def span_of(self, event: Event) -> SpanContext | None:
        """Return the IDs of the span that begins with an event, or ``None`` if no span begins or telemetry is off.

        A run, a model call, and a tool call each have a span. Call this only while the event is being published.
        """
        if self.telemetry.signals is not None:
            self._on_event(event)
        run = self.run
        if run is None:
            return None
        match event:
            case AgentStart():
                return run.ids
            case MessageStart():
                return run.chat_ids()
            case ToolExecutionStart():
                return run.calls.ids(event.call.id)
            case _:
                return None

    # --- events -----------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        """Process an event once."""
        if event is self._last_event:
            return
        self._last_event = event
        if self._broken:
            self._end_broken_run(event)
        self._call_guarded(self._handle_event, event)

    def _handle_event(self, event: Event) -> None:
        run = self.run
        if isinstance(event, AgentStart):
            self._begin(event)
        elif run is None:
            return
        elif isinstance(event, _CHUNKS):
            run.record_chunk()
        else:
            self._forward_to_run(run, event)

    def _forward_to_run(self, run: RunSpan, event: Event) -> None:
        match event:
            case MessageStart():
                run.message_starts(event.message)
            case MessageEnd():
                run.message_ends(event.message)
            case StreamError():
                run.fail_model_call(event)
            case ModelRetry():
                run.retry(event)
            case ToolExecutionStart():
                run.calls.start_call(event.call)
            case ToolExecutionEnd():
                run.calls.end_call(event)
            case AgentEnd():
                self.run = None
                run.end(event)
            case _:
                pass

    def _begin(self, event: AgentStart) -> None:
        signals, agent = self.telemetry.signals, self._agent
        assert signals is not None
        assert agent is not None
        if self.run is not None:
            self.run.end(None)
        startup = self._mcp_startup
        self.run = RunSpan(
            signals,
            agent,
            self.agent_name,
            event.run_id,
            parent=self._parent(),
            started_at=startup.waited_since if startup is not None else None,
        )
        if startup is not None:
            startup.emit_spans(self.run.span, self.run.context)

    def _parent(self) -> Context | None:
        """Return the parent context for a new run.

        ``None`` means OpenTelemetry's current context. A subagent gets the context of its parent's run if the current span belongs to
        another trace, or if no span is current.
        """
        above = self._parent_tracing.run if self._parent_tracing is not None else None
        signals = self.telemetry.signals
        if above is None or signals is None:
            return None
        current = signals.api.current()
        same = current is not None and current.get_span_context().trace_id == above.span.get_span_context().trace_id
        return None if same else above.context

    def _context(self) -> Context | None:
        return self.run.context if self.run is not None else None

    def _within(self) -> tuple[Span, Context] | None:
        return (self.run.span, self.run.context) if self.run is not None else None

    # --- failures ---------------------------------------------------------------------------------------------------

    def _run_handler(self, work: Callable[[RunSpan, Any], None]) -> Callable[[Any], None]:
        return self._guard(lambda hook: work(self.run, hook) if self.run is not None else None)

    def _calls_handler(self, work: Callable[[ToolCallSpans, Any], None]) -> Callable[[Any], None]:
        return self._guard(lambda hook: work(self.run.calls, hook) if self.run is not None else None)

    def _guard(self, work: Callable[[Any], None]) -> Callable[[Any], None]:
        return partial(self._call_guarded, work)

    def _call_guarded(self, work: Callable[[Any], None], subject: Any) -> None:
        if self._broken:
            return
        try:
            work(subject)
        except Exception:
            self._broken = True
            logger.warning("Tracing failed and is off from now on. The run continues.", exc_info=True)

    def _end_broken_run(self, event: Event) -> None:
        """Release the spans of a run after tracing failed within it."""
        run = self.run
        if run is None or not isinstance(event, AgentEnd):
            return
        self.run = None
        try:
            run.leave()
            run.end(event)
        except Exception:
            logger.debug("Cannot end the trace of a run.", exc_info=True)


def _name_subagent(hook: BeforeSpawn) -> None:
    """Name a subagent by its kind."""
    child = next((p for p in getattr(hook.agent, "plugs", ()) if isinstance(p, Tracing)), None)
    if child is not None:
        child.agent_name = SpanAgentName(hook.child or SUBAGENT, hook.child_id)


def install_tracing(agent: CoreAgent, telemetry: Telemetry | None = None, **options: Any) -> Tracing:
    """Trace an existing agent.

    Args:
        agent: The agent; it must not be running.
        telemetry: The telemetry. Created from ``options`` by default; the caller closes it: ``tracing.telemetry.close()``.
        **options: See `TelemetryOptions`.

    Returns:
        The installed plugin.

    Raises:
        ConfigError: If the agent is traced already, or is running.
        TypeError: If an option is unknown, or options are passed in addition to ``telemetry``.
    """
    if telemetry is not None and options:
        raise TypeError(f"install_tracing takes a Telemetry or its options ({', '.join(options)}), not both.")
    if any(isinstance(p, Tracing) for p in agent.plugs):
        raise ConfigError("This agent is already traced.")
    if agent.running:
        raise ConfigError("This agent is running. Install tracing before the run.")
    tracing = Tracing(telemetry or Telemetry(**options))
    tracing.install(agent)
    agent.plugs = (*agent.plugs, tracing)
    return tracing
