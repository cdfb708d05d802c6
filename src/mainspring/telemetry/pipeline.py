"""Creation of OpenTelemetry providers from options and the environment: the application's own, or private ones.

Nothing connects here, and nothing blocks on sending: threads send batches from bounded queues.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from mainspring.extras import install_command
from mainspring.telemetry.conventions import SCHEMA_URL, SCOPE
from mainspring.telemetry.otel import OtelApi

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer


SpanNames = Literal["genai", "classic"]
"""``genai``: ``invoke_agent NAME``, ``chat MODEL``, ``execute_tool NAME``. ``classic``: ``agent.run``, ``gen_ai.chat``, ``tool.execute``."""


ContentDestination = Literal["spans", "events", "both"]
"""The place for prompts, responses, arguments, and results, if they are recorded at all."""


class TelemetryOptions(Struct, frozen=True, kw_only=True):
    """Options for creating and sending spans, metrics, and events.

    Attributes:
        endpoint: Destination, for example ``http://localhost:4318``. ``None``: the value of OpenTelemetry's own variables, else that
            address. Not used if the application has set up OpenTelemetry itself.
        sensitive: Whether to record prompts, responses, arguments, and results, with secrets redacted.
        content: The place for them.
        span_names: Naming scheme of spans.
        service: Name of the service, unless ``OTEL_SERVICE_NAME`` overrides it.
        export_seconds: Timeout of one attempt to send, unless ``OTEL_EXPORTER_OTLP_TIMEOUT`` overrides it.
        close_seconds: Maximum time for which `Telemetry.close` waits for unsent data.
        text_limit: Maximum characters of one piece of content; the rest is omitted.
    """

    endpoint: str | None = None
    sensitive: bool = False
    content: ContentDestination = "spans"
    span_names: SpanNames = "genai"
    service: str = "mainspring"
    export_seconds: float = 5.0
    close_seconds: float = 2.0
    text_limit: int = 20_000


_DELAY_MS = 1000  # between two batches: short enough to watch a run while it is in progress
_EXPORTERS = {
    "http/protobuf": "opentelemetry.exporter.otlp.proto.http",
    "grpc": "opentelemetry.exporter.otlp.proto.grpc",
}
_SIGNALS = (
    ("traces", "trace_exporter", "OTLPSpanExporter"),
    ("metrics", "metric_exporter", "OTLPMetricExporter"),
    ("logs", "_log_exporter", "OTLPLogExporter"),
)


class TelemetryDisabled(Exception):
    """Telemetry is disabled; the text is the reason."""


class Pipeline:
    """Tracer, meter, and event logger, with the providers to close.

    Attributes:
        api: OpenTelemetry's API.
        tracer: Creates spans.
        meter: Creates instruments.
        events: Receives events.
    """

    def __init__(
        self, api: OtelApi, tracer: Tracer, meter: Meter, events: Logger, closers: tuple[Callable[[], object], ...] = ()
    ) -> None:
        self.api = api
        self.tracer = tracer
        self.meter = meter
        self.events = events
        self._closers = closers
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        if closers:
            self._start_threads()
            atexit.register(self.close)
            if hasattr(os, "register_at_fork"):
                start = weakref.WeakMethod(self._start_threads)
                os.register_at_fork(after_in_child=lambda: (restart := start()) and restart())

    def _start_threads(self) -> None:
        """Start the threads that wait for `close`, since no thread starts at exit with Python 3.12, or lives on in a forked process."""
        if self._closing.is_set():
            return
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=_close_later, args=(self._closing, close), daemon=True) for close in self._closers
        ]
        for thread in self._threads:
            thread.start()

    def close(self, seconds: float = 2.0) -> bool:
        """Send unsent data and close. Blocks for ``seconds`` at most; unsent data is lost after that.

        Returns:
            True if everything was sent in time. The application's own providers are not closed.
        """
        if self._closing.is_set() or not self._threads:
            return True
        self._closing.set()
        atexit.unregister(self.close)
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


def create_pipeline(options: TelemetryOptions, environ: Mapping[str, str]) -> Pipeline:
    """Create the pipeline for spans, metrics, and events. Imports OpenTelemetry, which is slow; opens no connection.

    Raises:
        TelemetryDisabled: If telemetry is switched off, or cannot be set up.
    """
    if _is_true(environ.get("OTEL_SDK_DISABLED")):
        raise TelemetryDisabled("OTEL_SDK_DISABLED is set")
    try:
        api = OtelApi()
    except ImportError as error:
        raise TelemetryDisabled(
            f"OpenTelemetry is not installed ({error}). Install it with: {install_command('otel')}"
        ) from None
    if not isinstance(api.trace.get_tracer_provider(), api.trace.ProxyTracerProvider):
        return Pipeline(
            api,
            api.trace.get_tracer(SCOPE, _version(), schema_url=SCHEMA_URL),
            api.metrics.get_meter(SCOPE, _version(), schema_url=SCHEMA_URL),
            api.logs.get_logger(SCOPE, _version(), schema_url=SCHEMA_URL),
        )
    if _is_true(environ.get("DO_NOT_TRACK")):
        raise TelemetryDisabled("DO_NOT_TRACK is set")
    _check(options.endpoint)
    try:
        return _create_providers(api, options, environ)
    except ImportError as error:
        raise TelemetryDisabled(
            f"A part of OpenTelemetry is not installed ({error}). Install it with: {install_command('otel')}"
        ) from None


def _create_providers(api: OtelApi, options: TelemetryOptions, environ: Mapping[str, str]) -> Pipeline:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # Export failures must not appear on the stderr of a program without logging.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    exporters = _exporters(options, environ)
    resource = Resource.create({"service.name": environ.get("OTEL_SERVICE_NAME") or options.service})
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
    readers: list[Any] = []
    if "traces" in exporters:
        delay = None if "OTEL_BSP_SCHEDULE_DELAY" in environ else _DELAY_MS
        traces.add_span_processor(BatchSpanProcessor(exporters["traces"], schedule_delay_millis=delay))
    if "logs" in exporters:
        delay = None if "OTEL_BLRP_SCHEDULE_DELAY" in environ else _DELAY_MS
        logs.add_log_record_processor(BatchLogRecordProcessor(exporters["logs"], schedule_delay_millis=delay))
    if "metrics" in exporters:
        readers.append(PeriodicExportingMetricReader(exporters["metrics"]))
    meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    return Pipeline(
        api,
        traces.get_tracer(SCOPE, _version(), schema_url=SCHEMA_URL),
        meters.get_meter(SCOPE, _version(), schema_url=SCHEMA_URL),
        logs.get_logger(SCOPE, _version(), schema_url=SCHEMA_URL),
        (traces.shutdown, meters.shutdown, logs.shutdown),
    )


def _exporters(options: TelemetryOptions, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return an exporter for each requested signal."""
    exporters: dict[str, Any] = {}
    for signal, module, name in _SIGNALS:
        requested = environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp").strip().lower() or "otlp"
        if requested == "none":
            continue
        if requested != "otlp":
            raise TelemetryDisabled(
                f"OTEL_{signal.upper()}_EXPORTER is {requested!r}; only otlp and none are supported"
            )
        protocol = _protocol(signal, environ)
        given: dict[str, Any] = {}
        if (
            "OTEL_EXPORTER_OTLP_TIMEOUT" not in environ
            and f"OTEL_EXPORTER_OTLP_{signal.upper()}_TIMEOUT" not in environ
        ):
            given["timeout"] = options.export_seconds
        if options.endpoint:
            path = "" if protocol == "grpc" else f"/v1/{signal}"
            given["endpoint"] = options.endpoint.rstrip("/") + path
        exporters[signal] = getattr(import_module(f"{_EXPORTERS[protocol]}.{module}"), name)(**given)
    return exporters


def _protocol(signal: str, environ: Mapping[str, str]) -> str:
    given = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = (given or "http/protobuf").strip().lower()
    if protocol not in _EXPORTERS:
        raise TelemetryDisabled(
            f"the protocol {protocol!r} of OTEL_EXPORTER_OTLP_PROTOCOL is not supported; use http/protobuf or grpc"
        )
    return protocol


def _check(endpoint: str | None) -> None:
    """Raise TelemetryDisabled if the endpoint is invalid."""
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise TelemetryDisabled(
            "The endpoint is not an http:// or https:// address. Use an address like http://localhost:4318"
        )


def _close_later(closing: threading.Event, close: Callable[[], object]) -> None:
    closing.wait()
    try:
        close()
    except Exception:  # third-party exporters may raise anything, and the process is closing
        logging.getLogger("mainspring.telemetry").debug("Cannot close telemetry.", exc_info=True)


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in {"1", "true", "yes", "on"}


def _version() -> str:
    try:
        return version("mainspring")
    except PackageNotFoundError:
        return ""
