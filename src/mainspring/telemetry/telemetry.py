"""Telemetry: the object that an application creates once, and helpers for spans of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from mainspring.errors import check_option_names
from mainspring.messages import Usage
from mainspring.redaction import Redactor
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import (
    Attributes,
    error_type,
    model_attributes,
    safe_error_description,
    usage_attributes,
)
from mainspring.telemetry.content import Cleaner
from mainspring.telemetry.conventions import CLASSIC_NAMES, DETAILS_EVENT
from mainspring.telemetry.metrics import Instruments
from mainspring.telemetry.options import TelemetryOptions
from mainspring.telemetry.otel import ReservedIds
from mainspring.telemetry.pipeline import Pipeline, TelemetryDisabled, create_pipeline

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer


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


class TelemetryContext:
    """Made once for each `Telemetry` that is switched on.

    Attributes:
        options: What was chosen.
        pipeline: Where to.
        api: OpenTelemetry's API.
        tracer: Makes spans.
        ids: Gives spans an id that is known before.
        instruments: What is measured.
        cleaner: Takes secrets out.
    """

    def __init__(self, options: TelemetryOptions, pipeline: Pipeline, redactor: Redactor) -> None:
        self.options = options
        self.pipeline = pipeline
        self.api = pipeline.api
        self.tracer = pipeline.tracer
        self.ids = ReservedIds.before(pipeline.tracer)
        self.instruments = Instruments(pipeline.meter)
        self.cleaner = Cleaner(options.text_limit, redactor)

    def span_name(self, operation: str, target: str) -> str:
        """How a span is called."""
        if self.options.span_names == "classic":
            return CLASSIC_NAMES[operation]
        return f"{operation} {target}" if target else operation

    def error_text(self, error: BaseException) -> str:
        """What may be told of an error: a host quotes what it was sent, and a server what it was given, so the first line of the
        error's own text is content like any other; without content it is only said what kind of error it is.
        """
        return self.cleaner.line(str(error)) if self.options.sensitive else safe_error_description(error)

    def emit(self, name: str, attributes: Attributes, context: Context, *, warn: bool = False) -> None:
        """Tell of an event."""
        self.pipeline.events.emit(self.api.record(name, attributes, context, warn=warn))

    def put_content(self, span: Span, context: Context, of: Attributes, content: Attributes) -> None:
        """Put content where it is wanted; asked only where it is wanted at all."""
        where = self.options.content
        if where != "events":
            span.set_attributes(content)
        if where != "spans":
            self.emit(DETAILS_EVENT, {**of, **content}, context)


logger = logging.getLogger("mainspring.telemetry")


class Telemetry:
    """Spans, metrics and events by OpenTelemetry.

    Where the application has set up OpenTelemetry, its providers are used. Where it has not, there are providers of ours, which send
    by OTLP to ``endpoint`` and are closed by `close`; no global provider is ever set. Making one imports OpenTelemetry, which takes a
    fifth of a second, and opens no connection.

    Args:
        options: What was chosen; or its fields by name.
        pipeline: Where to, in place of all that.
        environ: The environment. Default: that of the process.
        redactor: Takes secrets out. Default: one that knows those of the environment.
        **given: Fields of `TelemetryOptions`.

    Raises:
        TypeError: If there is no option of a name, or some are given beside ``options``.

    Attributes:
        options: What was chosen.
        problem: Why nothing is sent; empty if something is.
        helpers: For spans of one's own.
    """

    def __init__(
        self,
        options: TelemetryOptions | None = None,
        *,
        pipeline: Pipeline | None = None,
        environ: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        **given: Any,
    ) -> None:
        check_option_names("Telemetry", given, TelemetryOptions.__struct_fields__)
        if options is not None and given:
            raise TypeError(f"Telemetry takes options=... or single options ({', '.join(given)}), not both")
        self.options = options or TelemetryOptions(**given)
        self.problem = ""
        self.signals: TelemetryContext | None = None
        environ = os.environ if environ is None else environ
        try:
            self.signals = TelemetryContext(
                self.options, pipeline or create_pipeline(self.options, environ), redactor or Redactor.of(environ)
            )
        except TelemetryDisabled as off:
            self.problem = str(off)
            logger.info("there is no telemetry: %s", off)
        except Exception as error:  # OpenTelemetry's own code, and the application's providers
            self.problem = f"it could not be set up ({type(error).__name__}: {error})"
            logger.warning("there is no telemetry: it could not be set up; runs go on without", exc_info=True)
        self.helpers = TelemetryHelpers(self.signals)

    @property
    def on(self) -> bool:
        """Whether anything is made and sent."""
        return self.signals is not None

    @property
    def tracer(self) -> Tracer:
        """Makes spans; where telemetry is off, such as do nothing."""
        return self.signals.tracer if self.signals is not None else cast("Tracer", NoOp())

    @property
    def meter(self) -> Meter:
        """Makes instruments; where telemetry is off, such as do nothing."""
        return self.signals.pipeline.meter if self.signals is not None else cast("Meter", NoOp())

    def close(self) -> bool:
        """Send what waits, within the seconds that the options allow. The application's own providers are left alone.

        Returns:
            Whether everything was sent.
        """
        return self.signals is None or self.signals.pipeline.close(self.options.close_seconds)
