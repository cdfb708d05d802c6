"""From options and the environment to providers of OpenTelemetry: the application's own, or ours, which nobody else sees.

Nothing is connected here, and nothing that is sent is waited for: batches leave from threads, out of queues that have a limit.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
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
"""Where prompts, answers, arguments and results stand, where they are wanted at all."""


class TelemetryOptions(Struct, frozen=True, kw_only=True):
    """How spans, metrics and events are made and sent.

    Attributes:
        endpoint: Where to, as ``http://localhost:4318``. ``None``: as OpenTelemetry's own variables say, else that. Not used where
            the application has set up OpenTelemetry itself.
        sensitive: Whether prompts, answers, arguments and results go along, without what looks like a secret.
        content: Where they stand then.
        span_names: How spans are called.
        service: Name of the service, unless ``OTEL_SERVICE_NAME`` says otherwise.
        export_seconds: How long one attempt to send may take, unless ``OTEL_EXPORTER_OTLP_TIMEOUT`` says otherwise.
        close_seconds: How long `Telemetry.close` waits for what is still to be sent.
        text_limit: Characters of one piece of content; the rest of it is left out.
    """

    endpoint: str | None = None
    sensitive: bool = False
    content: ContentDestination = "spans"
    span_names: SpanNames = "genai"
    service: str = "mainspring"
    export_seconds: float = 5.0
    close_seconds: float = 2.0
    text_limit: int = 20_000


_DELAY_MS = 1000  # between two batches: whoever looks at a run while it goes wants to see it
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
    """There is to be no telemetry; the text says why."""


class Pipeline:
    """Tracer, meter and event logger, and what has to be closed.

    Attributes:
        api: OpenTelemetry's API.
        tracer: Makes spans.
        meter: Makes instruments.
        events: Takes events.
        owns_providers: Whether the providers are ours.
    """

    def __init__(
        self, api: OtelApi, tracer: Tracer, meter: Meter, events: Logger, closers: tuple[Callable[[], object], ...] = ()
    ) -> None:
        self.api = api
        self.tracer = tracer
        self.meter = meter
        self.events = events
        self.owns_providers = bool(closers)
        self._closers = closers
        self._closed = False
        if closers:
            atexit.register(self.close)

    def close(self, seconds: float = 2.0) -> bool:
        """Send what waits, and be done with it. Blocks for ``seconds`` at most; what has not left then is lost.

        Returns:
            Whether everything was sent in time. The application's own providers are left alone.
        """
        if self._closed or not self._closers:
            return True
        self._closed = True
        atexit.unregister(self.close)
        threads = [threading.Thread(target=_close_quietly, args=(close,), daemon=True) for close in self._closers]
        until = time.monotonic() + seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(t.is_alive() for t in threads)


def create_pipeline(options: TelemetryOptions, environ: Mapping[str, str]) -> Pipeline:
    """What spans, metrics and events go to. Imports OpenTelemetry, which takes a while; opens no connection.

    Raises:
        Off: If there is to be none, or it cannot be.
    """
    if _is_true(environ.get("OTEL_SDK_DISABLED")):
        raise TelemetryDisabled("OTEL_SDK_DISABLED is set")
    try:
        api = OtelApi()
    except ImportError as error:
        raise TelemetryDisabled(
            f"OpenTelemetry is not installed ({error}); install it with: {install_command('otel')}"
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
            f"a part of OpenTelemetry is not installed ({error}); install it with: {install_command('otel')}"
        ) from None


def _create_providers(api: OtelApi, options: TelemetryOptions, environ: Mapping[str, str]) -> Pipeline:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # What cannot be sent is not to be told on the stderr of a program that has set up no logging.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    made = _exporters(options, environ)
    resource = Resource.create({"service.name": environ.get("OTEL_SERVICE_NAME") or options.service})
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
    readers: list[Any] = []
    if "traces" in made:
        delay = None if "OTEL_BSP_SCHEDULE_DELAY" in environ else _DELAY_MS
        traces.add_span_processor(BatchSpanProcessor(made["traces"], schedule_delay_millis=delay))
    if "logs" in made:
        delay = None if "OTEL_BLRP_SCHEDULE_DELAY" in environ else _DELAY_MS
        logs.add_log_record_processor(BatchLogRecordProcessor(made["logs"], schedule_delay_millis=delay))
    if "metrics" in made:
        readers.append(PeriodicExportingMetricReader(made["metrics"]))
    meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    return Pipeline(
        api,
        traces.get_tracer(SCOPE, _version(), schema_url=SCHEMA_URL),
        meters.get_meter(SCOPE, _version(), schema_url=SCHEMA_URL),
        logs.get_logger(SCOPE, _version(), schema_url=SCHEMA_URL),
        (traces.shutdown, meters.shutdown, logs.shutdown),
    )


def _exporters(options: TelemetryOptions, environ: Mapping[str, str]) -> dict[str, Any]:
    """An exporter for each signal that is wanted."""
    made: dict[str, Any] = {}
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
        made[signal] = getattr(import_module(f"{_EXPORTERS[protocol]}.{module}"), name)(**given)
    return made


def _protocol(signal: str, environ: Mapping[str, str]) -> str:
    given = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = (given or "http/protobuf").strip().lower()
    if protocol not in _EXPORTERS:
        raise TelemetryDisabled(
            f"the protocol {protocol!r} of OTEL_EXPORTER_OTLP_PROTOCOL is not supported; use http/protobuf or grpc"
        )
    return protocol


def _check(endpoint: str | None) -> None:
    """Refuse what is no address."""
    if endpoint is None:
        return
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise TelemetryDisabled("the endpoint is no http:// or https:// address; give one as http://localhost:4318")


def _close_quietly(close: Callable[[], object]) -> None:
    try:
        close()
    except Exception:  # an exporter's own code; there is nobody left to tell
        logging.getLogger("mainspring.telemetry").debug("telemetry could not be closed", exc_info=True)


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in {"1", "true", "yes", "on"}


def _version() -> str:
    try:
        return version("mainspring")
    except PackageNotFoundError:
        return ""
