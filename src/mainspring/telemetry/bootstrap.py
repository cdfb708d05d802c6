"""Connecting to MCP servers, as spans: how long it took, and which server took how long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mainspring.events import McpBootstrapEnd, McpBootstrapStart, McpConnect, McpError
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import Attributes, error_type
from mainspring.telemetry.signals import Signals

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from mainspring.loop import CoreAgent

_NAME = "mcp.bootstrap"


class Booted:
    """A bootstrap that is over.

    Attributes:
        span: Its span.
        seconds: How long it took.
    """

    def __init__(self, span: Span, seconds: float) -> None:
        self.span = span
        self.seconds = seconds


class Bootstrap:
    """The bootstraps of one agent. They happen before a run, so the next run refers to them by a link and an attribute."""

    def __init__(self, signals: Signals, agent: CoreAgent) -> None:
        self._signals = signals
        self._agent = agent
        self._span: Span | None = None
        self._context: Context | None = None
        self._began = 0
        self._booted: Booted | None = None

    def taken(self) -> Booted | None:
        """The last one that no run has referred to yet."""
        booted, self._booted = self._booted, None
        return booted

    def start(self, hook: McpBootstrapStart, parent: Context | None) -> None:
        """It begins; within a run, or in the current context."""
        made: Attributes = {c.AGENT_NAME: self._agent.name, c.MCP_SERVER: tuple(hook.servers)}
        self._span = self._signals.tracer.start_span(_NAME, parent, self._signals.api.internal, made)
        self._context = self._signals.api.within(self._span, parent)
        self._began = time.time_ns()

    def connected(self, hook: McpConnect) -> None:
        """One server has answered."""
        self._server(hook.server, hook.seconds, {c.MCP_TOOLS: len(hook.tools)})
        self._signals.instruments.connected(hook.server, hook.seconds)

    def failed(self, hook: McpError) -> None:
        """One server has not."""
        if self._span is None:
            return
        kind, seconds = error_type(hook.error), (time.time_ns() - self._began) / 1e9
        self._server(hook.server, seconds, {}, kind, self._signals.cleaner.line(str(hook.error)))
        self._signals.instruments.connected(hook.server, seconds, kind)

    def end(self, hook: McpBootstrapEnd) -> None:
        """All have, or it is given up."""
        span, self._span = self._span, None
        if span is None:
            return
        span.set_attributes({c.MCP_OUTCOME: hook.outcome, c.MCP_BOOTSTRAP: hook.seconds})
        if hook.failed:
            self._signals.api.fail(span, "mcp_server", f"could not be reached: {', '.join(hook.failed)}")
        span.end()
        self._booted = Booted(span, hook.seconds)

    def _server(self, server: str, seconds: float, extra: Attributes, kind: str = "", text: str = "") -> None:
        now = time.time_ns()
        made: Attributes = {c.MCP_METHOD: "initialize", c.MCP_SERVER: server, **extra}
        tracer, api = self._signals.tracer, self._signals.api
        span = tracer.start_span("initialize", self._context, api.client, made, start_time=now - int(seconds * 1e9))
        if kind:
            api.fail(span, kind, text)
        span.end(now)
