"""All that spans, metrics and events are made with, in one object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.redaction import Redactor
from mainspring.telemetry.attributes import Attributes, kind_in_words
from mainspring.telemetry.content import Cleaner
from mainspring.telemetry.conventions import CLASSIC_NAMES, DETAILS_EVENT
from mainspring.telemetry.metrics import Instruments
from mainspring.telemetry.options import TelemetryOptions
from mainspring.telemetry.otel import ReservedIds
from mainspring.telemetry.pipeline import Pipeline

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span


class Signals:
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
        return self.cleaner.line(str(error)) if self.options.sensitive else kind_in_words(error)

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
