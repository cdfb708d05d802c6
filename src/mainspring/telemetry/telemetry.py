"""All that spans, metrics and events are made with, in one object.

What an application makes once, and gives to all of its agents.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mainspring.errors import check_option_names
from mainspring.redaction import Redactor
from mainspring.telemetry.attributes import Attributes, safe_error_description
from mainspring.telemetry.content import Cleaner
from mainspring.telemetry.conventions import CLASSIC_NAMES, DETAILS_EVENT
from mainspring.telemetry.helpers import NoOp, TelemetryHelpers
from mainspring.telemetry.metrics import Instruments
from mainspring.telemetry.options import TelemetryOptions
from mainspring.telemetry.otel import ReservedIds
from mainspring.telemetry.pipeline import Pipeline, TelemetryDisabled, create_pipeline

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer


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
