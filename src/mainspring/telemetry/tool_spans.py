"""Spans of tool calls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mainspring.events import SpanContext, ToolExecutionEnd, ToolExecutionStart
from mainspring.telemetry import conventions
from mainspring.telemetry.attributes import Attributes, ContentEncoder, result_error
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
        span.set_attributes({conventions.TOOL_SUCCESS: not result.is_error, conventions.TOOL_SECONDS: event.seconds})
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
