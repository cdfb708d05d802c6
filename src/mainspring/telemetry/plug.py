"""The plugin that traces an agent: it maps the agent's events to spans, span events, and metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigError
from mainspring.events import (
    AgentEnd,
    AgentStart,
    Event,
    McpServer,
    McpStartup,
    SpanContext,
    SubagentStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from mainspring.loop import Plugin
from mainspring.loop.hooks import BeforeToolRun, ModelErrorHook, TurnBefore
from mainspring.telemetry.run_spans import RunSpan
from mainspring.telemetry.telemetry import Telemetry
from mainspring.telemetry.tool_spans import McpStartupTracer

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from mainspring.loop import CoreAgent

logger = logging.getLogger("mainspring.telemetry")
logger.addHandler(logging.NullHandler())

_FIRST, _LAST = -10_000, 10_000  # _FIRST: before handlers that decide. _LAST: after handlers that change the hook.
SUBAGENT = "subagent"


class Tracing(Plugin):
    """Traces an agent and its subagents. Each agent needs its own instance.

    A failure in it is logged once, tracing of this agent is then off, and the run continues.

    Args:
        telemetry: The telemetry; many agents may share it.

    Attributes:
        run: The trace of the current run.
        subagents: The kinds of subagents that are about to run, by ID.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self.run: RunSpan | None = None
        self._parent_tracing: Tracing | None = None
        self._agent: CoreAgent | None = None
        self._kind = self._id = ""  # of a subagent
        self.subagents: dict[str, str] = {}
        self._last_event: Event | None = None
        self._mcp_startup: McpStartupTracer | None = None
        self._broken = False

    def install(self, agent: CoreAgent) -> None:
        """Listen to the agent, unless telemetry is off."""
        if self._agent is not None:
            raise ConfigError("This Tracing belongs to another agent. Create one for each agent: Tracing(telemetry).")
        self._agent = agent
        signals = self.telemetry.signals
        if signals is None:
            return
        self._mcp_startup = McpStartupTracer(signals)
        agent.bus.subscribe(self._on_event)
        # What no event has: a request, the moment before a tool runs in its task, and a failed call that a handler repeats.
        agent.on(TurnBefore, self._handler(RunSpan.begin_turn), order=_LAST)
        agent.on(BeforeToolRun, self._handler(RunSpan.start_tool), order=_LAST)
        agent.on(ModelErrorHook, self._handler(RunSpan.fail_model_call), order=_FIRST)

    def for_child(self) -> Plugin:
        """Return the plugin for a subagent, whose spans are within the call that started it."""
        child = Tracing(self.telemetry)
        child._parent_tracing = self
        child._kind = SUBAGENT
        return child

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation, whose runs have their own traces."""
        return Tracing(self.telemetry)

    def span_of(self, event: Event) -> SpanContext | None:
        """Return the IDs of the span that begins with an event, or ``None`` if no span begins or telemetry is off.

        A run, a model call, and a tool call each have a span. Call this only while the event is being published.
        """
        if self.telemetry.signals is not None:
            self._on_event(event)
        return self.run.ids(event) if self.run is not None else None

    # --- events -----------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        """Process an event once."""
        if event is self._last_event:
            return
        self._last_event = event
        self._call_guarded(self._map, event)
        if self._broken:
            self._end_broken_run(event)

    def _map(self, event: Event) -> None:
        """Map an event of the agent; `RunSpan.map` maps those of a run."""
        run, startup = self.run, self._mcp_startup
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallDelta() | ToolCallStart():
                if run is not None:
                    run.record_chunk()
            case AgentStart():
                self._begin(event)
            case SubagentStart():
                self.subagents[event.id] = event.name
            case McpStartup() | McpServer() if startup is not None:
                startup.map(event, run and (run.span, run.context))
            case AgentEnd() if run is not None:
                self.run = None
                run.end(event)
            case _ if run is not None:
                run.map(event)
            case _:
                pass

    def _begin(self, event: AgentStart) -> None:
        signals, agent, above, startup = self.telemetry.signals, self._agent, self._parent_tracing, self._mcp_startup
        assert signals is not None
        assert agent is not None
        assert startup is not None
        if self.run is not None:
            self.run.end(AgentEnd(event.run_id, (), "error"))
        if above is not None and event.agent in above.subagents:  # named by its kind: there are few
            self._kind, self._id = above.subagents.pop(event.agent) or SUBAGENT, event.agent
        self.run = RunSpan(
            signals,
            agent,
            self._kind or event.agent,
            self._id,
            event.run_id,
            parent=self._parent(),
            started_at=startup.waited_since,
        )
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

    # --- failures ---------------------------------------------------------------------------------------------------

    def _handler(self, work: Callable[[RunSpan, Any], None]) -> Callable[[Any], None]:
        return lambda hook: self._call_guarded(work, self.run, hook) if self.run is not None else None

    def _call_guarded(self, work: Callable[..., None], *subjects: Any) -> None:
        if self._broken:
            return
        try:
            work(*subjects)
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
