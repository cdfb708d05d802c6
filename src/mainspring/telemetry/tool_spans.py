"""Spans of tool calls and of MCP servers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.events import McpServer, McpStartup, SpanContext, ToolExecutionEnd, ToolExecutionStart
from mainspring.telemetry import conventions
from mainspring.telemetry.attributes import Attributes, ContentEncoder, error_type, result_error
from mainspring.telemetry.otel import CurrentSpan
from mainspring.telemetry.telemetry import TelemetryContext

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span


class ToolCallSpan:
    """A tool call from its start to its result. Its span covers the execution of the tool; a call that never ran has a span from its
    start, since the denial took that long.

    Args:
        signals: Creates spans, events, and metrics.
        content: Encodes arguments.
        run: The span of the run.
        context: The context of the run.
        run_id: ID of the run.
        event: The start of the call.
        description: Description of the tool.
    """

    def __init__(
        self,
        signals: TelemetryContext,
        content: ContentEncoder,
        run: Span,
        context: Context,
        run_id: str,
        event: ToolExecutionStart,
        description: str,
    ) -> None:
        call = event.call
        self._signals = signals
        self._encoder = content
        self._parent = context
        self._started_at = time.time_ns()
        self._input: dict[str, Any] = call.input
        self._scope = CurrentSpan(signals.api)
        self._id = signals.ids.reserve() if signals.ids is not None else None
        self._run = run
        self._server = event.source.removeprefix("mcp:") if event.source.startswith("mcp:") else ""
        self._attributes: Attributes = {
            conventions.OPERATION: conventions.EXECUTE_TOOL,
            conventions.RUN_ID: run_id,
            conventions.TOOL_NAME: call.name,
            conventions.TOOL_CALL_ID: call.id,
            conventions.TOOL_TYPE: "extension" if self._server else "function",
        }
        if description:
            self._attributes[conventions.TOOL_DESCRIPTION] = description[:500]
        if self._server:
            self._attributes |= {conventions.MCP_METHOD: "tools/call", conventions.MCP_SERVER: self._server}
        self.span: Span | None = None

    @property
    def ids(self) -> SpanContext | None:
        """Return the IDs of the span, also before the span exists."""
        if self.span is not None:
            return self._signals.api.span_ids(self.span)
        if self._id is None:
            return None
        run = self._signals.api.span_ids(self._run)
        return SpanContext(run.trace_id, f"{self._id:016x}", run.span_id)

    def start(self, arguments: dict[str, Any]) -> None:
        """Record the start of the tool, in this task."""
        self._input = arguments
        self.span = self._create_span()
        self._scope.enter(self._signals.api.context_with(self.span))

    def end(self, event: ToolExecutionEnd) -> None:
        """Record the result of the call."""
        signals, result = self._signals, event.result
        self._scope.leave()
        ran = self.span is not None
        span = self.span or self._create_span(self._started_at)
        outcome: Attributes = {conventions.TOOL_SUCCESS: not result.is_error, conventions.TOOL_SECONDS: event.seconds}
        span.set_attributes(signals.tool_attributes(outcome))
        kind = ""
        if result.is_error:
            kind = result_error(result, event.exception)
            signals.api.mark_failed(
                span, kind, signals.cleaner.line(result.text) if signals.options.sensitive else kind
            )
        if signals.options.sensitive and span.is_recording():
            attributes: Attributes = {
                conventions.TOOL_ARGUMENTS: self._encoder.value(self._input),
                conventions.TOOL_RESULT: signals.cleaner.text(result.text),
            }
            signals.put_content(span, signals.api.context_with(span), self._attributes, attributes)
        span.end()
        if ran:
            signals.instruments.tool(event.call.name, event.seconds, kind, self._server)

    def discard(self) -> None:
        """Report nothing: an earlier attempt at a durable run made the call. A span that never ends is not exported."""
        self._scope.leave()

    def abandon(self) -> None:
        """End the span of a call without a result at the end of the run."""
        self._scope.leave()
        if self.span is not None:
            self._signals.api.mark_failed(self.span, "aborted", "the run ended before the call did")
            self.span.end()

    def _create_span(self, started_at: int | None = None) -> Span:
        signals = self._signals
        if self._id is not None and signals.ids is not None:
            signals.ids.use_for_next_span(self._id)
        name = signals.span_name(conventions.EXECUTE_TOOL, str(self._attributes[conventions.TOOL_NAME]))
        attributes = signals.tool_attributes(self._attributes)
        return signals.tracer.start_span(name, self._parent, signals.api.internal, attributes, start_time=started_at)


_NAME = "mcp.bootstrap"
_WAITED_NS = 250_000_000  # a run that begins this soon after the bootstrap has waited for it


class _Server(Struct):
    """One server: the time at which it responded or failed, and the duration."""

    event: McpServer
    at: int
    seconds: float


class _Record(Struct):
    """One bootstrap: when each server began, the servers that responded or failed, and how each ended."""

    began: int
    done: list[_Server]
    servers: list[str]
    ends: list[McpStartup]
    ended: int = 0

    @property
    def is_complete(self) -> bool:
        """Return True if every server has ended."""
        return len(self.ends) == len(self.servers)

    @property
    def seconds(self) -> float:
        """Return the duration: that of the last server."""
        return max(end.seconds or 0.0 for end in self.ends)


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
            if record is None or record.ends:
                self._record = record = _Record(now, [], [], [])
            record.servers.append(event.server)
        elif record is not None:
            record.ends.append(event)
            record.ended = now
            if run is not None:
                self.emit_spans(*run)

    def _map_server(self, event: McpServer, now: int, run: tuple[Span, Context] | None) -> None:
        record, seconds, kind = self._record, event.seconds, ""
        if event.exception is not None:
            kind = error_type(event.exception)
            seconds = (now - record.began) / 1e9 if record is not None else 0.0
        self._signals.instruments.record_mcp_connect(event.server, seconds, kind)
        server = _Server(event, now, seconds)
        if record is not None and not record.is_complete:
            record.done.append(server)
        elif run is not None:
            self._span(server, run[1])

    @property
    def waited_since(self) -> int | None:
        """Return the start of the bootstrap that a run waits or waited for, in nanoseconds since 1970."""
        record = self._record
        if record is None or (record.is_complete and time.time_ns() - record.ended > _WAITED_NS):
            return None
        return record.began

    def emit_spans(self, run: Span, context: Context) -> None:
        """Create the spans of a finished bootstrap, within a run."""
        record, signals = self._record, self._signals
        if record is None or not record.is_complete:
            return
        self._record = None
        seconds, failed = record.seconds, [end.server for end in record.ends if not end.ok]
        outcome = "ok" if not failed else "failed" if len(failed) == len(record.servers) else "partial"
        attributes: Attributes = {
            conventions.MCP_SERVER: tuple(record.servers),
            conventions.MCP_OUTCOME: outcome,
            conventions.MCP_BOOTSTRAP: seconds,
        }
        span = signals.tracer.start_span(_NAME, context, signals.api.internal, attributes, start_time=record.began)
        for server in record.done:
            self._span(server, signals.api.context_with(span, context))
        if failed:
            signals.api.mark_failed(span, "mcp_server", f"could not be reached: {', '.join(failed)}")
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
