"""Telemetry: the object that an application creates once, and helpers for its own spans."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, cast

from mainspring.errors import check_option_names, describe_failure, format_exception
from mainspring.messages import Usage
from mainspring.redaction import Redactor
from mainspring.telemetry import conventions as c
from mainspring.telemetry.attributes import (
    Attributes,
    Cleaner,
    error_type,
    model_attributes,
    safe_error_description,
    usage_attributes,
)
from mainspring.telemetry.conventions import CLASSIC_NAMES, DETAILS_EVENT
from mainspring.telemetry.otel import ReservedIds
from mainspring.telemetry.pipeline import Pipeline, TelemetryDisabled, TelemetryOptions, create_pipeline

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.trace import Span, Tracer


_METRIC_KEYS = (c.OPERATION, c.PROVIDER, c.REQUEST_MODEL, c.RESPONSE_MODEL, c.SERVER_ADDRESS, c.SERVER_PORT)


class Instruments:
    """The metric instruments."""

    def __init__(self, meter: Meter) -> None:
        def histogram(named: tuple[str, str, str], buckets: tuple[float, ...]) -> Histogram:
            name, unit, description = named
            return meter.create_histogram(
                name, unit=unit, description=description, explicit_bucket_boundaries_advisory=list(buckets)
            )

        self._tokens = histogram(c.TOKEN_USAGE, c.TOKEN_BUCKETS)
        self._duration = histogram(c.DURATION, c.SECONDS_BUCKETS)
        self._first = histogram(c.FIRST_CHUNK, c.CHUNK_BUCKETS)
        self._per_chunk = histogram(c.PER_CHUNK, c.CHUNK_BUCKETS)
        self._mcp = histogram(c.MCP_DURATION, c.SECONDS_BUCKETS)
        self._tool = histogram(c.TOOL_DURATION, c.SECONDS_BUCKETS)
        name, unit, description = c.COST_TOTAL
        self._cost = meter.create_counter(name, unit=unit, description=description)

    def usage(self, usage: Usage, attributes: Attributes) -> None:
        """Record the tokens and cost of a model call."""
        of_call = _metric_attributes(attributes)
        if usage.total_tokens:
            self._tokens.record(usage.prompt_tokens, {**of_call, c.TOKEN_TYPE: "input"})
            self._tokens.record(usage.output_tokens, {**of_call, c.TOKEN_TYPE: "output"})
        if usage.cost is not None and usage.cost.total > 0:
            self._cost.add(usage.cost.total, of_call)

    def duration(self, seconds: float, attributes: Attributes, error: str = "") -> None:
        """Record the duration of a model call or a run."""
        self._duration.record(seconds, _with_error(_metric_attributes(attributes), error))

    def chunks(self, first: float, between: float | None, attributes: Attributes) -> None:
        """Record the time until the first piece of a response, and the average time between pieces."""
        of_call = _metric_attributes(attributes)
        self._first.record(first, of_call)
        if between is not None:
            self._per_chunk.record(between, of_call)

    def tool(self, name: str, seconds: float, error: str = "", server: str = "") -> None:
        """Record the duration of a tool."""
        self._tool.record(seconds, _with_error({c.TOOL_NAME: name}, error))
        if server:
            of_call: Attributes = {c.MCP_METHOD: "tools/call", c.TOOL_NAME: name, c.OPERATION: c.EXECUTE_TOOL}
            self._mcp.record(seconds, _with_error({**of_call, c.MCP_SERVER: server}, error))

    def record_mcp_connect(self, server: str, seconds: float, error: str = "") -> None:
        """Record the time to connect to an MCP server."""
        self._mcp.record(seconds, _with_error({c.MCP_METHOD: "initialize", c.MCP_SERVER: server}, error))


def _metric_attributes(attributes: Attributes) -> Attributes:
    """Return the attributes of a span that a metric keeps: none with many different values."""
    return {key: attributes[key] for key in _METRIC_KEYS if key in attributes}


def _with_error(attributes: Attributes, error: str) -> Attributes:
    if error:
        attributes[c.ERROR_TYPE] = error
    return attributes


class NoOp:
    """A tracer, meter, span, or instrument that does nothing: all attributes and methods return it. It is falsy, so its spans are
    not recording; as a decorator it returns the function unchanged.
    """

    def __getattr__(self, name: str) -> Self:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *value: Any, **options: Any) -> Any:
        """Return itself, or the function that it decorates."""
        return value[0] if len(value) == 1 and not options and callable(value[0]) else self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __bool__(self) -> bool:
        return False


class TelemetryHelpers:
    """Tracer, meter, and spans by the conventions. A span is ended by ``with``, or by its ``end()``."""

    def __init__(self, signals: TelemetryContext | None) -> None:
        self._signals = signals

    @property
    def tracer(self) -> Tracer:
        """The tracer; one that does nothing if telemetry is off."""
        return self._signals.tracer if self._signals is not None else cast("Tracer", NoOp())

    @property
    def meter(self) -> Meter:
        """The meter; one that does nothing if telemetry is off."""
        return self._signals.pipeline.meter if self._signals is not None else cast("Meter", NoOp())

    @contextmanager
    def start_llm_span(self, provider: str, model: str, **attributes: Any) -> Generator[HelperSpan]:
        """Start a span of a model call, which is current while it is open. An exception inside it is recorded and re-raised.

        Args:
            provider: Name of the provider, for example ``openai``.
            model: The model.
            **attributes: Further attributes.
        """
        of_call: Attributes = {c.OPERATION: c.CHAT, **model_attributes(provider, model), **attributes}
        with self._started(c.CHAT, model, of_call) as span:
            yield span

    @contextmanager
    def start_tool_span(self, name: str, call_id: str = "", **attributes: Any) -> Generator[HelperSpan]:
        """Start a span of a tool call.

        Args:
            name: The tool.
            call_id: ID of the call.
            **attributes: Further attributes.
        """
        of_call: Attributes = {c.OPERATION: c.EXECUTE_TOOL, c.TOOL_NAME: name, c.TOOL_TYPE: "function", **attributes}
        if call_id:
            of_call[c.TOOL_CALL_ID] = call_id
        signals = self._signals
        if signals is not None:
            of_call = signals.tool_attributes(of_call)
        started = time.perf_counter()
        with self._started(c.EXECUTE_TOOL, name, of_call) as span:
            try:
                yield span
            finally:
                if signals is not None and span.span is not None:
                    seconds = time.perf_counter() - started
                    span.span.set_attributes(signals.tool_attributes({c.TOOL_SECONDS: seconds}))

    def record_token_usage(self, span: HelperSpan, usage: Usage) -> None:
        """Record the tokens of a call: on the span, and in the metric."""
        if self._signals is not None and span.span is not None:
            span.span.set_attributes(usage_attributes(usage))
            self._signals.instruments.usage(usage, span.attributes)

    def record_tool_result(
        self, span: HelperSpan, *, success: bool, result: str = "", error: str = "tool_error"
    ) -> None:
        """Record a tool's result; its text only if content is recorded.

        Args:
            span: The span of the call.
            success: Whether the tool succeeded.
            result: Its output.
            error: The type of the error, if it failed.
        """
        signals = self._signals
        if signals is None or span.span is None:
            return
        span.span.set_attributes(signals.tool_attributes({c.TOOL_SUCCESS: success}))
        if not success:
            signals.api.mark_failed(span.span, error, error)
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
            signals.api.mark_failed(span, error_type(error), signals.error_text(error))
            raise
        finally:
            span.end()


class HelperSpan:
    """A span started by a helper.

    Attributes:
        span: OpenTelemetry's span; ``None`` if telemetry is off.
        attributes: Its initial attributes.
    """

    def __init__(self, span: Span | None, attributes: Attributes) -> None:
        self.span = span
        self.attributes = attributes


class TelemetryContext:
    """The shared state of a `Telemetry` that is switched on.

    Attributes:
        options: The options.
        pipeline: The destination.
        api: OpenTelemetry's API.
        tracer: Creates spans.
        ids: Assigns reserved IDs to spans.
        instruments: The metric instruments.
        cleaner: Redacts secrets.
    """

    def __init__(self, options: TelemetryOptions, pipeline: Pipeline, redactor: Redactor) -> None:
        self.options = options
        self.pipeline = pipeline
        self.api = pipeline.api
        self.tracer = pipeline.tracer
        self.ids = ReservedIds.install(pipeline.tracer)
        self.instruments = Instruments(pipeline.meter)
        self.cleaner = Cleaner(options.text_limit, redactor)

    def span_name(self, operation: str, target: str) -> str:
        """Return the name of a span."""
        if self.options.span_names == "classic":
            return CLASSIC_NAMES[operation]
        return f"{operation} {target}" if target else operation

    def tool_attributes(self, attributes: Attributes) -> Attributes:
        """Return the attributes of a tool call, with the classic ones in addition if the span names are classic."""
        if self.options.span_names != "classic":
            return attributes
        classic: Attributes = {}
        if c.TOOL_NAME in attributes:
            classic[c.CLASSIC_TOOL_NAME] = attributes[c.TOOL_NAME]
        if c.TOOL_SUCCESS in attributes:
            classic[c.CLASSIC_TOOL_SUCCESS] = attributes[c.TOOL_SUCCESS]
        seconds = attributes.get(c.TOOL_SECONDS)
        if isinstance(seconds, int | float):
            classic[c.CLASSIC_TOOL_MILLISECONDS] = round(seconds * 1000)
        return {**classic, **attributes}

    def error_text(self, error: BaseException) -> str:
        """Return the description of an error: hosts and servers quote their input, so the first line of an error's text is content like
        any other; if content is not recorded, only the type of the error is returned.
        """
        return self.cleaner.line(describe_failure(error)) if self.options.sensitive else safe_error_description(error)

    def emit(self, name: str, attributes: Attributes, context: Context, *, warn: bool = False) -> None:
        """Emit an event."""
        self.pipeline.events.emit(self.api.create_event(name, attributes, context, warn=warn))

    def put_content(self, span: Span, context: Context, attributes: Attributes, content: Attributes) -> None:
        """Record content in its configured place; called only if content is recorded."""
        where = self.options.content
        if where != "events":
            span.set_attributes(content)
        if where != "spans":
            self.emit(DETAILS_EVENT, {**attributes, **content}, context)


logger = logging.getLogger("mainspring.telemetry")


class Telemetry:
    """Spans, metrics, and events with OpenTelemetry.

    If the application has set up OpenTelemetry, its providers are used. Otherwise private providers send with OTLP to
    ``endpoint`` and are closed by `close`; no global provider is ever set. Creating one imports OpenTelemetry, which takes a fifth
    of a second, and opens no connection.

    Args:
        options: The options; or single fields by name.
        pipeline: The destination, instead of the options.
        environ: The environment. Default: that of the process.
        redactor: Removes secrets. Default: one that knows those of the environment.
        **given: Fields of `TelemetryOptions`.

    Raises:
        TypeError: If an option is unknown, or options are passed in addition to ``options``.

    Attributes:
        options: The options.
        disabled_reason: The reason why nothing is sent; empty if telemetry is on.
        helpers: Helpers for an application's own spans.
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
            raise TypeError(f"Telemetry takes options=... or single options ({', '.join(given)}), not both.")
        self.options = options or TelemetryOptions(**given)
        self.disabled_reason = ""
        self.signals: TelemetryContext | None = None
        environ = os.environ if environ is None else environ
        try:
            self.signals = TelemetryContext(
                self.options, pipeline or create_pipeline(self.options, environ), redactor or Redactor.of(environ)
            )
        except TelemetryDisabled as off:
            self.disabled_reason = str(off)
            logger.info("Telemetry is off: %s", off)
        except Exception as error:  # third-party code of OpenTelemetry and the application's providers
            self.disabled_reason = f"it could not be set up ({format_exception(error)})"
            logger.warning("Telemetry is off: it could not be set up. Runs continue without it.", exc_info=True)
        self.helpers = TelemetryHelpers(self.signals)

    @property
    def on(self) -> bool:
        """Return True if telemetry is on."""
        return self.signals is not None

    @property
    def tracer(self) -> Tracer:
        """The tracer; one that does nothing if telemetry is off."""
        return self.signals.tracer if self.signals is not None else cast("Tracer", NoOp())

    @property
    def meter(self) -> Meter:
        """The meter; one that does nothing if telemetry is off."""
        return self.signals.pipeline.meter if self.signals is not None else cast("Meter", NoOp())

    def close(self) -> bool:
        """Send unsent data, within ``close_seconds``. The application's own providers are not closed.

        Returns:
            True if everything was sent.
        """
        return self.signals is None or self.signals.pipeline.close(self.options.close_seconds)
