"""Connecting to MCP servers, as spans: how long it took, and which server took how long.

It begins before a run does, and the run waits for it; so its spans are made when there is a run that they can be within.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.loop.hooks import McpBootstrapEnd, McpBootstrapStart, McpConnect, McpError
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import Attributes, error_type
from mainspring.telemetry.telemetry import TelemetryContext

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_NAME = "mcp.bootstrap"
_WAITED_NS = 250_000_000  # a run that begins so soon after it has waited for it


class _Server(Struct):
    """One server: when it had answered or failed, and how long that took."""

    name: str
    at: int
    seconds: float
    tools: int = 0
    error: str = ""
    text: str = ""


class _Record(Struct):
    """One bootstrap."""

    servers: tuple[str, ...]
    began: int
    done: list[_Server]
    end: McpBootstrapEnd | None = None
    ended: int = 0


class McpStartupTracer:
    """The bootstraps of one agent, until they have their spans."""

    def __init__(self, signals: TelemetryContext) -> None:
        self._signals = signals
        self._record: _Record | None = None

    def start(self, hook: McpBootstrapStart) -> None:
        """It begins."""
        self._record = _Record(tuple(hook.servers), time.time_ns(), [])

    def connected(self, hook: McpConnect, context: Context | None) -> None:
        """One server has answered; within a run also after the bootstrap, where it was late."""
        self._signals.instruments.connected(hook.server, hook.seconds)
        self._add(_Server(hook.server, time.time_ns(), hook.seconds, len(hook.tools)), context)

    def failed(self, hook: McpError, context: Context | None) -> None:
        """One server has not."""
        now = time.time_ns()
        seconds = (now - self._record.began) / 1e9 if self._record is not None else 0.0
        kind, text = error_type(hook.error), self._signals.error_text(hook.error)
        self._signals.instruments.connected(hook.server, seconds, kind)
        self._add(_Server(hook.server, now, seconds, 0, kind, text), context)

    def end(self, hook: McpBootstrapEnd, run: tuple[Span, Context] | None) -> None:
        """All have answered, or it is given up."""
        if self._record is None:
            return
        self._record.end, self._record.ended = hook, time.time_ns()
        if run is not None:
            self.within(*run)

    @property
    def waited_since(self) -> int | None:
        """When what a run waited for began, if it waits for it now or did until now; in nanoseconds since 1970."""
        record = self._record
        if record is None or (record.end is not None and time.time_ns() - record.ended > _WAITED_NS):
            return None
        return record.began

    def within(self, run: Span, context: Context) -> None:
        """Make the spans of a bootstrap that is over, within a run."""
        record, signals = self._record, self._signals
        if record is None or record.end is None:
            return
        self._record = None
        hook = record.end
        made: Attributes = {c.MCP_SERVER: record.servers, c.MCP_OUTCOME: hook.outcome, c.MCP_BOOTSTRAP: hook.seconds}
        span = signals.tracer.start_span(_NAME, context, signals.api.internal, made, start_time=record.began)
        for server in record.done:
            self._span(server, signals.api.within(span, context))
        if hook.failed:
            signals.api.fail(span, "mcp_server", f"could not be reached: {', '.join(hook.failed)}")
        span.end(record.ended)
        run.set_attribute(c.MCP_BOOTSTRAP, hook.seconds)

    def _add(self, server: _Server, context: Context | None) -> None:
        if self._record is not None and self._record.end is None:
            self._record.done.append(server)
        elif context is not None:
            self._span(server, context)

    def _span(self, server: _Server, context: Context) -> None:
        api = self._signals.api
        made: Attributes = {c.MCP_METHOD: "initialize", c.MCP_SERVER: server.name, c.MCP_TOOLS: server.tools}
        began = server.at - int(server.seconds * 1e9)
        span = self._signals.tracer.start_span("initialize", context, api.client, made, start_time=began)
        if server.error:
            api.fail(span, server.error, server.text)
        span.end(server.at)
