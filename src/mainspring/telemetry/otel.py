"""The only module that imports the OpenTelemetry API at run time; `pipeline` imports the SDK."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

from mainspring.events import SpanContext
from mainspring.telemetry.attributes import Attributes

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer


class OtelApi:
    """Spans, contexts, and events of OpenTelemetry."""

    def __init__(self) -> None:
        from opentelemetry import _logs, context, metrics, trace

        self.trace = trace
        self.metrics = metrics
        self.logs = _logs
        self._context = context
        self.internal = trace.SpanKind.INTERNAL
        self.client = trace.SpanKind.CLIENT

    def context_with(self, span: Span, context: Context | None = None) -> Context:
        """Return a context in which ``span`` is the current one."""
        return self.trace.set_span_in_context(span, context)

    def current(self) -> Span | None:
        """Return the current span, if any."""
        span = self.trace.get_current_span()
        return span if span.get_span_context().is_valid else None

    def link(self, span: Span) -> Link:
        """Return a link to a span of another trace."""
        return self.trace.Link(span.get_span_context())

    def mark_failed(self, span: Span, kind: str, text: str) -> None:
        """Mark an operation as failed. ``text`` must be free of secrets."""
        span.set_attribute("error.type", kind)
        span.set_status(self.trace.Status(self.trace.StatusCode.ERROR, text))

    def create_event(self, name: str, attributes: Attributes, context: Context, *, warn: bool = False) -> Any:
        """Create an event record, to be emitted."""
        severity = self.logs.SeverityNumber.WARN if warn else self.logs.SeverityNumber.INFO
        return self.logs.LogRecord(
            event_name=name, attributes=dict(attributes), context=context, severity_number=severity
        )

    def attach(self, context: Context) -> Token[Context]:
        """Make a context the current one of this task."""
        return self._context.attach(context)

    def detach(self, token: Token[Context]) -> None:
        """Restore the previous context."""
        self._context.detach(token)

    def span_ids(self, span: Span) -> SpanContext:
        """Return the IDs of a span, and of its parent if known."""
        own = span.get_span_context()
        parent = getattr(span, "parent", None)
        trace_id, span_id = f"{own.trace_id:032x}", f"{own.span_id:016x}"
        return SpanContext(trace_id, span_id, f"{parent.span_id:016x}" if parent is not None else None)


class CurrentSpan:
    """Makes a span the current one of a task while it is open, so that spans the task starts are its children."""

    __slots__ = ("_api", "_task", "_token")

    def __init__(self, api: OtelApi) -> None:
        self._api = api
        self._token: Token[Context] | None = None
        self._task: asyncio.Task[Any] | None = None

    def enter(self, context: Context) -> None:
        """Make the span current in this task."""
        self._task = asyncio.current_task()
        self._token = self._api.attach(context)

    def leave(self) -> None:
        """Restore the previous span. In another task, which has another context, do nothing."""
        token, self._token = self._token, None
        if token is not None and asyncio.current_task() is self._task:
            self._api.detach(token)


class ReservedIds:
    """Wraps the ID generator of our tracer: a span can get an ID that was reported before the span was created."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._next = threading.local()

    @classmethod
    def install(cls, tracer: Tracer) -> ReservedIds | None:
        """Install the wrapper in a tracer; return ``None`` if the tracer has no ID generator."""
        inner = getattr(tracer, "id_generator", None)
        if inner is None:
            return None
        if isinstance(inner, ReservedIds):
            return inner
        generator = cls(inner)
        cast("Any", tracer).id_generator = generator
        return generator

    def reserve(self) -> int:
        """Reserve an ID."""
        return self._inner.generate_span_id()

    def use_for_next_span(self, span_id: int) -> None:
        """Use an ID for the next span of this thread."""
        self._next.id = span_id

    def generate_span_id(self) -> int:
        """Return the ID set by `use_for_next_span`, or generate one."""
        reserved = getattr(self._next, "id", None)
        self._next.id = None
        return self._inner.generate_span_id() if reserved is None else reserved

    def generate_trace_id(self) -> int:
        """Delegate to the original generator."""
        return self._inner.generate_trace_id()

    def is_trace_id_random(self) -> bool:
        """Delegate to the original generator."""
        return self._inner.is_trace_id_random()
