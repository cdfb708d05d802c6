"""Spans of MCP servers that are being connected."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.events import McpServer, McpStartup
from mainspring.telemetry import conventions
from mainspring.telemetry.attributes import Attributes, error_type
from mainspring.telemetry.telemetry import TelemetryContext

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_NAME = "mcp.bootstrap"
_WAITED_NS = 250_000_000  # a run that begins this soon after the bootstrap has waited for it


class _Server(Struct):
    """One server: the time at which it responded or failed, and the duration."""

    event: McpServer
    at: int
    seconds: float


class _Record(Struct):
    """One bootstrap."""

    began: int
    done: list[_Server]
    end: McpStartup | None = None
    ended: int = 0


class McpStartupTracer:
    """The bootstraps of one agent, until their spans are created."""

    def __init__(self, signals: TelemetryContext) -> None:
        self._signals = signals
        self._record: _Record | None = None

    def map(self, event: McpStartup | McpServer, run: tuple[Span, Context] | None) -> None:
        """Record the start or end of the bootstrap, or that a server responded or failed.

        A late server may respond after the bootstrap, during a run.
        """
        now, record = time.time_ns(), self._record
        if isinstance(event, McpServer):
            self._map_server(event, now, run)
        elif event.seconds is None:
            self._record = _Record(now, [])
        elif record is not None:
            record.end, record.ended = event, now
            if run is not None:
                self.emit_spans(*run)

    def _map_server(self, event: McpServer, now: int, run: tuple[Span, Context] | None) -> None:
        record, seconds, kind = self._record, event.seconds, ""
        if event.exception is not None:
            kind = error_type(event.exception)
            seconds = (now - record.began) / 1e9 if record is not None else 0.0
        self._signals.instruments.record_mcp_connect(event.server, seconds, kind)
        server = _Server(event, now, seconds)
        if record is not None and record.end is None:
            record.done.append(server)
        elif run is not None:
            self._span(server, run[1])

    @property
    def waited_since(self) -> int | None:
        """Return the start of the bootstrap that a run waits or waited for, in nanoseconds since 1970."""
        record = self._record
        if record is None or (record.end is not None and time.time_ns() - record.ended > _WAITED_NS):
            return None
        return record.began

    def emit_spans(self, run: Span, context: Context) -> None:
        """Create the spans of a finished bootstrap, within a run."""
        record, signals = self._record, self._signals
        if record is None or record.end is None:
            return
        self._record = None
        event, seconds = record.end, record.end.seconds or 0.0
        attributes: Attributes = {
            conventions.MCP_SERVER: event.servers,
            conventions.MCP_OUTCOME: event.status,
            conventions.MCP_BOOTSTRAP: seconds,
        }
        span = signals.tracer.start_span(_NAME, context, signals.api.internal, attributes, start_time=record.began)
        for server in record.done:
            self._span(server, signals.api.context_with(span, context))
        if event.failed:
            signals.api.mark_failed(span, "mcp_server", f"could not be reached: {', '.join(event.failed)}")
        span.end(record.ended)
        run.set_attribute(conventions.MCP_BOOTSTRAP, seconds)

    def _span(self, server: _Server, context: Context) -> None:
        api, event = self._signals.api, server.event
        attributes: Attributes = {
            conventions.MCP_METHOD: "initialize",
            conventions.MCP_SERVER: event.server,
            conventions.MCP_TOOLS: len(event.tools),
        }
        began = server.at - int(server.seconds * 1e9)
        span = self._signals.tracer.start_span("initialize", context, api.client, attributes, start_time=began)
        if event.exception is not None:
            api.mark_failed(span, error_type(event.exception), self._signals.error_text(event.exception))
        span.end(server.at)
