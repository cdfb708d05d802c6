"""What stands for a tracer and a meter where telemetry is off, so that whoever uses them need not ask whether it is.

Spans for an application's own model and tool calls, beside those of an agent. Where telemetry is off, all of it does nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from mainspring.messages import Usage
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import Attributes, error_type, model_attributes, usage_attributes

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer

    from mainspring.telemetry.telemetry import TelemetryContext


class NoOp:
    """A tracer, a meter, a span or an instrument that does nothing: whatever is asked of it gives it again. It is false, so a span of
    it is not recording; used as a decorator it gives the function as it was.
    """

    def __getattr__(self, name: str) -> Self:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Itself; or the function that it decorates."""
        return given[0] if len(given) == 1 and not options and callable(given[0]) else self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False


class TelemetryHelpers:
    """Tracer, meter, and spans by the conventions. A span that was started is ended by ``with``, or by its ``end()``."""

    def __init__(self, signals: TelemetryContext | None) -> None:
        self._signals = signals

    @property
    def tracer(self) -> Tracer:
        """Makes spans; where telemetry is off, such as do nothing."""
        return self._signals.tracer if self._signals is not None else cast("Tracer", NoOp())

    @property
    def meter(self) -> Meter:
        """Makes instruments; where telemetry is off, such as do nothing."""
        return self._signals.pipeline.meter if self._signals is not None else cast("Meter", NoOp())

    @contextmanager
    def start_llm_span(self, provider: str, model: str, **attributes: Any) -> Generator[HelperSpan]:
        """A span of a model call, the current one while it is open. What is raised meanwhile is noted, and goes on.

        Args:
            provider: Who is asked, as in ``openai``.
            model: Which model.
            **attributes: Further attributes.
        """
        of_call: Attributes = {c.OPERATION: c.CHAT, **model_attributes(provider, model), **attributes}
        with self._started(c.CHAT, model, of_call) as span:
            yield span

    @contextmanager
    def start_tool_span(self, name: str, call_id: str = "", **attributes: Any) -> Generator[HelperSpan]:
        """The same for a tool call.

        Args:
            name: The tool.
            call_id: Id of the call.
            **attributes: Further attributes.
        """
        of_call: Attributes = {c.OPERATION: c.EXECUTE_TOOL, c.TOOL_NAME: name, c.TOOL_TYPE: "function", **attributes}
        if call_id:
            of_call[c.TOOL_CALL_ID] = call_id
        with self._started(c.EXECUTE_TOOL, name, of_call) as span:
            yield span

    def record_token_usage(self, span: HelperSpan, usage: Usage) -> None:
        """Tokens of the call: on the span, and in the metric."""
        if self._signals is not None and span.span is not None:
            span.span.set_attributes(usage_attributes(usage))
            self._signals.instruments.usage(usage, span.attributes)

    def record_tool_result(
        self, span: HelperSpan, *, success: bool, result: str = "", error: str = "tool_error"
    ) -> None:
        """What the tool gave; the text goes along only where content is wanted.

        Args:
            span: That of the call.
            success: Whether it did what was asked.
            result: Its output.
            error: A word for what went wrong, where it did not.
        """
        signals = self._signals
        if signals is None or span.span is None:
            return
        span.span.set_attribute(c.TOOL_SUCCESS, success)
        if not success:
            signals.api.fail(span.span, error, error)
        if signals.options.sensitive and result:
            span.span.set_attribute(c.TOOL_RESULT, signals.cleaner.text(result))

    @contextmanager
    def _started(self, operation: str, target: str, attributes: Attributes) -> Generator[HelperSpan]:
        signals = self._signals
        if signals is None:
            yield HelperSpan(None, attributes)
            return
        span = signals.tracer.start_span(
            signals.span_name(operation, target),
            kind=signals.api.client if operation == c.CHAT else signals.api.internal,
            attributes=attributes,
        )
        try:
            with signals.api.trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield HelperSpan(span, attributes)
        except BaseException as error:
            signals.api.fail(span, error_type(error), signals.error_text(error))
            raise
        finally:
            span.end()


class HelperSpan:
    """A span that was started by a helper.

    Attributes:
        span: OpenTelemetry's; ``None`` where telemetry is off.
        attributes: What it was started with.
    """

    def __init__(self, span: Span | None, attributes: Attributes) -> None:
        self.span = span
        self.attributes = attributes
