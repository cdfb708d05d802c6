"""A receiver for OTLP over HTTP with configurable failures."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_REQUESTS = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Receiver:
    """Listens on a free local port while its context is open.

    Attributes:
        requests: The decoded requests by path.
        headers: The headers of each request.
    """

    def __init__(self, status: int = 200, *, silent: bool = False) -> None:
        self.status = status
        self.requests: dict[str, list[Any]] = {path: [] for path in _REQUESTS}
        self.headers: list[dict[str, str]] = []
        self._leave = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                if silent:
                    receiver._leave.wait(30)
                    return
                receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
                message = _REQUESTS[self.path]()
                message.ParseFromString(data)
                receiver.requests[self.path].append(message)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave.set()
        self._server.shutdown()
        self._server.server_close()

    def _all(self, path: str, *keys: str) -> list[Any]:
        found: list[Any] = [MessageToDict(r) for r in self.requests[path]]
        for key in keys:
            found = [item for each in found for item in each.get(key, ())]
        return found

    @property
    def spans(self) -> list[Any]:
        return self._all("/v1/traces", "resourceSpans", "scopeSpans", "spans")

    @property
    def metrics(self) -> list[Any]:
        return self._all("/v1/metrics", "resourceMetrics", "scopeMetrics", "metrics")

    @property
    def logs(self) -> list[Any]:
        return self._all("/v1/logs", "resourceLogs", "scopeLogs", "logRecords")

    @property
    def resources(self) -> list[Any]:
        return [attributes(r["resource"]) for r in self._all("/v1/traces", "resourceSpans")]


def attributes(given: Any) -> dict[str, Any]:
    """Return the attributes of a decoded message as plain values."""
    return {a["key"]: _value(a.get("value", {})) for a in given.get("attributes", ())}


def _value(given: Any) -> Any:
    for kind, value in given.items():
        if kind == "intValue":
            return int(value)
        if kind == "arrayValue":
            return [_value(v) for v in value.get("values", ())]
        return value
    return None


def measure_seconds(work: Any) -> float:
    """Return the number of seconds that a call takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started
