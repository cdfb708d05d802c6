"""Spans of tool calls and of MCP servers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mainspring.events import McpServer, McpStartup, SpanContext, ToolExecutionEnd
from mainspring.loop.hooks import (
    BeforeToolRun,
    ToolBefore,
    ToolFailed,
    ToolFinished,
)
from mainspring.messages import ToolUseBlock
from mainspring.telemetry import conventions
from mainspring.telemetry.attributes import Attributes, ContentEncoder, error_type, result_error
from mainspring.telemetry.otel import CurrentSpan
from mainspring.telemetry.telemetry import TelemetryContext

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from mainspring.loop import CoreAgent
    from mainspring.tools import Tool


class ToolCallSpan:
    """A tool call from its start to its result. Its span covers the execution of the tool; a call that never ran has a span from its
    start, since the denial took that long.

    Args:
        signals: Creates spans, events, and metrics.
        content: Encodes arguments.
        run: The span of the run.
        context: The context of the run.
        run_id: ID of the run.
        call: The call.
        tool: The tool, if it is known.
    """

    def __init__(
        self,
        signals: TelemetryContext,
        content: ContentEncoder,
        run: Span,
        context: Context,
        run_id: str,
        call: ToolUseBlock,
        tool: Tool | None,
    ) -> None:
        self._signals = signals
        self._encoder = content
        self._parent = context
        self._started_at = time.time_ns()
        self._input: dict[str, Any] = call.input
        self._scope = CurrentSpan(signals.api)
        self._id = signals.ids.reserve() if signals.ids is not None else None
        self._run = run
        source = tool.source if tool is not None else ""
        self._server = source.removeprefix("mcp:") if source.startswith("mcp:") else ""
        self._attributes: Attributes = {
            conventions.OPERATION: conventions.EXECUTE_TOOL,
            conventions.RUN_ID: run_id,
            conventions.TOOL_NAME: call.name,
            conventions.TOOL_CALL_ID: call.id,
            conventions.TOOL_TYPE: "extension" if self._server else "function",
        }
        if tool is not None and tool.description:
            self._attributes[conventions.TOOL_DESCRIPTION] = tool.description[:500]
        if self._server:
            self._attributes |= {conventions.MCP_METHOD: "tools/call", conventions.MCP_SERVER: self._server}
        self.span: Span | None = None
        self.error: BaseException | None = None
        self.seconds: float | None = None

    @property
    def ids(self) -> SpanContext | None:
        """Return the IDs of the span, also before the span exists."""
        if self.span is not None:
            return self._signals.api.span_ids(self.span)
        if self._id is None:
            return None
        run = self._signals.api.span_ids(self._run)
        return SpanContext(run.trace_id, f"{self._id:016x}", run.span_id)

    def set_server(self, server: str) -> None:
        """Record the MCP server of the tool."""
        self._server = server
        self._attributes |= {
            conventions.TOOL_TYPE: "extension",
            conventions.MCP_METHOD: "tools/call",
            conventions.MCP_SERVER: server,
        }

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
        seconds = event.seconds if self.seconds is None else self.seconds
        span.set_attributes({conventions.TOOL_SUCCESS: not result.is_error, conventions.TOOL_SECONDS: seconds})
        kind = ""
        if result.is_error:
            kind = result_error(result, self.error)
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
            signals.instruments.tool(event.call.name, seconds, kind, self._server)

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
        return signals.tracer.start_span(
            name, self._parent, signals.api.internal, self._attributes, start_time=started_at
        )


class ToolCallSpans:
    """The tool calls of one run that are in progress."""

    def __init__(
        self,
        signals: TelemetryContext,
        content: ContentEncoder,
        agent: CoreAgent,
        run: Span,
        context: Context,
        run_id: str,
    ) -> None:
        self._run_id = run_id
        self._made_with = signals, content
        self._agent = agent
        self._within = run, context
        self._open: dict[str, ToolCallSpan] = {}

    def ids(self, call_id: str) -> SpanContext | None:
        """Return the IDs of the span of a call."""
        call = self._open.get(call_id)
        return None if call is None else call.ids

    def start_call(self, call: ToolUseBlock) -> None:
        """Record the start of a call."""
        tool = self._agent.tools.get(call.name)
        self._open[call.id] = ToolCallSpan(*self._made_with, *self._within, self._run_id, call, tool)

    def set_server(self, hook: ToolBefore) -> None:
        """Record a call to an MCP server."""
        if hook.call_id in self._open:
            self._open[hook.call_id].set_server(hook.server)

    def start_tool(self, hook: BeforeToolRun) -> None:
        """Record the start of a tool."""
        if hook.call_id in self._open and not hook.block:
            self._open[hook.call_id].start(hook.input)

    def failed(self, hook: ToolFailed) -> None:
        """Record an exception of a tool."""
        if hook.call_id in self._open:
            self._open[hook.call_id].error = hook.error

    def set_duration(self, hook: ToolFinished) -> None:
        """Record the duration of a tool."""
        if hook.call_id in self._open:
            self._open[hook.call_id].seconds = hook.seconds

    def end_call(self, event: ToolExecutionEnd) -> None:
        """Record the result of a call; a call that never started has no span."""
        call = self._open.pop(event.call.id, None)
        if call is not None:
            call.end(event)

    def abandon(self) -> None:
        """End the spans of all calls at the end of the run."""
        for call in self._open.values():
            call.abandon()
        self._open.clear()


_NAME = "mcp.bootstrap"
_WAITED_NS = 250_000_000  # a run that begins this soon after the bootstrap has waited for it


class _Server(Struct):
    """One server: the time at which it responded or failed, and the duration."""

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
    end: McpStartup | None = None
    ended: int = 0


class McpStartupTracer:
    """The bootstraps of one agent, until their spans are created."""

    def __init__(self, signals: TelemetryContext) -> None:
        self._signals = signals
        self._record: _Record | None = None

    def start(self, hook: McpStartup) -> None:
        """Record the start of the bootstrap."""
        self._record = _Record(tuple(hook.servers), time.time_ns(), [])

    def connected(self, hook: McpServer, context: Context | None) -> None:
        """Record that a server responded; a late server may respond after the bootstrap, during a run."""
        self._signals.instruments.record_mcp_connect(hook.server, hook.seconds)
        self._add(_Server(hook.server, time.time_ns(), hook.seconds, len(hook.tools)), context)

    def failed(self, hook: McpServer, context: Context | None) -> None:
        """Record that a server failed."""
        now = time.time_ns()
        seconds = (now - self._record.began) / 1e9 if self._record is not None else 0.0
        assert hook.exception is not None
        kind, text = error_type(hook.exception), self._signals.error_text(hook.exception)
        self._signals.instruments.record_mcp_connect(hook.server, seconds, kind)
        self._add(_Server(hook.server, now, seconds, 0, kind, text), context)

    def end(self, hook: McpStartup, run: tuple[Span, Context] | None) -> None:
        """Record the end of the bootstrap: all servers responded, or it was abandoned."""
        if self._record is None:
            return
        self._record.end, self._record.ended = hook, time.time_ns()
        if run is not None:
            self.emit_spans(*run)

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
        hook, seconds = record.end, record.end.seconds or 0.0
        attributes: Attributes = {
            conventions.MCP_SERVER: record.servers,
            conventions.MCP_OUTCOME: hook.status,
            conventions.MCP_BOOTSTRAP: seconds,
        }
        span = signals.tracer.start_span(_NAME, context, signals.api.internal, attributes, start_time=record.began)
        for server in record.done:
            self._span(server, signals.api.context_with(span, context))
        if hook.failed:
            signals.api.mark_failed(span, "mcp_server", f"could not be reached: {', '.join(hook.failed)}")
        span.end(record.ended)
        run.set_attribute(conventions.MCP_BOOTSTRAP, seconds)

    def _add(self, server: _Server, context: Context | None) -> None:
        if self._record is not None and self._record.end is None:
            self._record.done.append(server)
        elif context is not None:
            self._span(server, context)

    def _span(self, server: _Server, context: Context) -> None:
        api = self._signals.api
        attributes: Attributes = {
            conventions.MCP_METHOD: "initialize",
            conventions.MCP_SERVER: server.name,
            conventions.MCP_TOOLS: server.tools,
        }
        began = server.at - int(server.seconds * 1e9)
        span = self._signals.tracer.start_span("initialize", context, api.client, attributes, start_time=began)
        if server.error:
            api.mark_failed(span, server.error, server.text)
        span.end(server.at)
