"""Telemetry that is recorded in memory."""

from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mainspring.telemetry import Telemetry, TelemetryOptions
from mainspring.telemetry.otel import OtelApi
from mainspring.telemetry.pipeline import Pipeline


class Recorder:
    """Records spans, metrics, and events."""

    def __init__(
        self, processor: SpanProcessor | None = None, environ: dict[str, str] | None = None, **options: Any
    ) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(processor or SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self._logs = InMemoryLogRecordExporter()
        logs = LoggerProvider(shutdown_on_exit=False)
        logs.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        pipeline = Pipeline(OtelApi(), self.provider.get_tracer("t"), meters.get_meter("t"), logs.get_logger("t"))
        self.telemetry = Telemetry(TelemetryOptions(**options), pipeline=pipeline, environ=environ or {})

    @property
    def spans(self) -> list[ReadableSpan]:
        """All finished spans, ordered by start time."""
        return sorted(self._exporter.get_finished_spans(), key=lambda s: s.start_time or 0)

    @property
    def names(self) -> list[str]:
        return [s.name for s in self.spans]

    def span(self, name: str) -> ReadableSpan:
        """Return the only span with a name."""
        found = [s for s in self.spans if s.name == name]
        assert len(found) == 1, f"{len(found)} spans are named {name!r}: {self.names}"
        return found[0]

    def parent_of(self, span: ReadableSpan) -> str:
        """Return the name of the parent of a span."""
        if span.parent is None:
            return ""
        requested = span.parent.span_id
        return next(s.name for s in self.spans if s.context and s.context.span_id == requested)

    @property
    def tree(self) -> list[tuple[str, str]]:
        """The name of each span with the name of its parent."""
        return [(s.name, self.parent_of(s)) for s in self.spans]

    @property
    def events(self) -> list[Any]:
        return [r.log_record for r in self._logs.get_finished_logs()]

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """The data points of each metric by name."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = list(metric.data.data_points)
        return found

    def everything(self) -> str:
        """Return everything that would be exported, as text."""
        return (
            repr([(s.to_json(), s.status.description) for s in self.spans])
            + repr([(e.event_name, e.attributes, e.body) for e in self.events])
            + repr(self.metrics)
        )
