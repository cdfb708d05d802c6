"""The server of the telemetry viewer: receive spans, store them in memory, and serve pages on the loopback interface."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from mainspring.app.servers.viewer.model import RunDetail, RunSource, Summary, ViewSpan, add_totals
from mainspring.app.servers.viewer.otlp import PROTOBUF_TYPES, OtlpDecodeError, ReceivedSpan, decode_spans
from mainspring.telemetry.conventions import AGENT_NAME, CONVERSATION_ID, RUN_ID, RUN_STATUS

_HEAD = 16 * 1024
_BODY = 32 * 1024 * 1024
_DIGITS = 12  # of a content length; Python rejects numbers with thousands of digits
_IDLE_SECONDS = 60.0
_CONNECTIONS = 64
_REASONS = {
    200: "OK", 204: "No Content", 304: "Not Modified", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 413: "Content Too Large", 415: "Unsupported Media Type", 500: "Internal Server Error",
    503: "Service Unavailable",
}  # fmt: skip


class ViewerRequest(Struct, frozen=True):
    """An HTTP request; header names are in lowercase."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Response(Struct, frozen=True):
    """An HTTP response."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = {}


class BadRequestError(Exception):
    """The request is invalid; the response has this status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


RequestHandler = Callable[[ViewerRequest], Awaitable[Response]]


class Server:
    """HTTP server on the loopback address.

    Args:
        handler: RequestHandler of requests. Must not raise.
    """

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int) -> int:
        """Listen, and return the port, which the system chooses if the requested port is 0.

        Raises:
            OSError: If the port is in use.
        """
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def aclose(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) > _CONNECTIONS:
                await _answer(writer, Response(503, b"too many connections"), keep=False)
                return
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # the client disconnected, or the server stops
        finally:
            self._open.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Handle one request and its response. Return True if another request can follow."""
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                request = await _read(reader)
        except BadRequestError as rejected:
            await _answer(writer, Response(rejected.status, str(rejected).encode()), keep=False)
            return False
        response = await self._handler(request)
        keep = request.headers.get("connection", "").lower() != "close"
        await _answer(writer, response, keep=keep, head_only=request.method == "HEAD")
        return keep


async def _read(reader: asyncio.StreamReader) -> ViewerRequest:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequestError(413, "The headers are too long.") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequestError(400, "The request is not valid HTTP.")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or name.strip().lower() in headers and name.strip().lower() in {"host", "content-length"}:
            raise BadRequestError(400, "A header is invalid.")
        headers[name.strip().lower()] = value.strip()
    path = _path(parts[1])
    return ViewerRequest(parts[0].upper(), path, headers, await _body(reader, headers))


def _path(target: str) -> str:
    """Return the requested path, without the query."""
    try:
        path = urlsplit(target).path
    except ValueError:
        path = ""
    if not path.startswith("/"):
        raise BadRequestError(400, "The URL is invalid.")
    return path


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        data = await _chunks(reader)
    else:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise BadRequestError(400, "The content length is invalid.")
        if len(length) > _DIGITS or int(length) > _BODY:
            raise BadRequestError(413, "The request is too large.")
        data = await reader.readexactly(int(length))
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding in {"identity", ""}:
        return data
    if encoding not in {"gzip", "deflate"}:
        raise BadRequestError(415, f"Unsupported content encoding: {encoding!r}.")
    return _decompress(data, encoding)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            line = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
            length = int(line, 16)
        except (ValueError, asyncio.LimitOverrunError):
            raise BadRequestError(400, "A chunk is invalid.") from None
        size += length
        if length < 0 or size > _BODY:
            raise BadRequestError(413, "The request is too large.")
        if length == 0:
            await _skip_trailers(reader)
            return b"".join(parts)
        parts.append(await reader.readexactly(length))
        await reader.readexactly(2)


async def _skip_trailers(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    except asyncio.LimitOverrunError:
        raise BadRequestError(413, "The headers are too long.") from None


def _decompress(data: bytes, encoding: str) -> bytes:
    unpack = zlib.decompressobj(31 if encoding == "gzip" else 15)
    try:
        decompressed = unpack.decompress(data, _BODY)
    except zlib.error as error:
        raise BadRequestError(400, f"The request cannot be decompressed: {error}.") from None
    if unpack.unconsumed_tail:
        raise BadRequestError(413, "The request is too large.")
    return decompressed


async def _answer(writer: asyncio.StreamWriter, response: Response, *, keep: bool, head_only: bool = False) -> None:
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'OK')}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Resource-Policy: same-origin",
        f"Connection: {'keep-alive' if keep else 'close'}",
        *[f"{name}: {value}" for name, value in response.headers.items()],
    ]
    writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (b"" if head_only else response.body))
    await writer.drain()


TRACES = 200
"""Maximum number of stored traces."""


SPANS = 5000
"""Maximum number of stored spans of a trace; later spans are only counted."""


AGENTS = 500
"""Additional number of agent and root spans, which arrive last and contain the outcome of the run."""


class Trace:
    """One trace, with the spans that have arrived."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.service = ""
        self.spans: dict[str, ViewSpan] = {}
        self.dropped = 0

    def add(self, received: ReceivedSpan) -> None:
        """Add a span; a span with the same ID is replaced."""
        self.service = self.service or received.service
        span = received.span
        limit = SPANS + AGENTS if span.kind == "agent" or not span.parent else SPANS
        if span.id not in self.spans and len(self.spans) >= limit:
            self.dropped += 1
            return
        self.spans[span.id] = span

    def summary(self) -> Summary:
        """Return the summary for the list. Called in a thread, so it reads a copy of data that may change."""
        spans = list(self.spans.values())
        root = _root(spans)
        known = root or spans[0]
        status = "running"
        if root is not None:
            status = str(root.attributes.get(RUN_STATUS) or ("error" if root.error else "completed"))
        result = Summary(
            id=f"otlp-{self.id}",
            run=str(known.attributes.get(RUN_ID, "")),
            title=str(known.attributes.get(AGENT_NAME) or min(spans, key=lambda s: s.start).name),
            place=self.service,
            session=str(known.attributes.get(CONVERSATION_ID) or ""),
            start=min(s.start for s in spans),
            end=root.end if root is not None else None,
            status=status,
            dropped=self.dropped,
        )
        return add_totals(result, spans)


def _root(spans: list[ViewSpan]) -> ViewSpan | None:
    """Return the outermost agent span, else the root span, if it has arrived: it arrives last."""
    ids = {s.id for s in spans}
    tops = [s for s in spans if s.parent not in ids]
    agents = [s for s in tops if s.kind == "agent"]
    return min(agents or [s for s in tops if not s.parent], key=lambda s: s.start, default=None)


class SpanStore:
    """The most recently received traces.

    Attributes:
        version: Number that changes with every received span.
    """

    def __init__(self, traces: int = TRACES) -> None:
        self._limit = traces
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self.version = 0

    def add(self, received: Iterable[ReceivedSpan]) -> None:
        """Add spans; beyond the limit, the trace that was inactive the longest is removed."""
        self.version += 1
        for each in received:
            trace = self._traces.get(each.trace)
            if trace is None:
                trace = self._traces[each.trace] = Trace(each.trace)
            self._traces.move_to_end(each.trace)
            trace.add(each)
        while len(self._traces) > self._limit:
            self._traces.popitem(last=False)

    def runs(self) -> list[Summary]:
        """Return all runs."""
        return [t.summary() for t in list(self._traces.values()) if t.spans]

    def run(self, id: str) -> RunDetail | None:
        """Return one run, or ``None``."""
        trace = self._traces.get(id.removeprefix("otlp-"))
        if trace is None or not trace.spans:
            return None
        return RunDetail(summary=trace.summary(), spans=sorted(trace.spans.values(), key=lambda s: (s.start, s.id)))


logger = logging.getLogger("mainspring.telemetry")


_ASSETS = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_LISTED = 300


class Viewer:
    """Serves the page and its API.

    Args:
        source: Source of runs in addition to received spans.
        token: Secret part of the URL (default: random).
    """

    def __init__(self, source: RunSource | None = None, *, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.store = SpanStore()
        self.stopped = asyncio.Event()
        self._source = source
        self._server = Server(self._handle)

    @property
    def url(self) -> str:
        """Return the URL of the page, which contains the token for all data."""
        return f"http://127.0.0.1:{self._server.port}/{self.token}/"

    @property
    def endpoint(self) -> str:
        """Return the URL to which spans are sent."""
        return f"http://127.0.0.1:{self._server.port}"

    async def start(self, port: int = 0) -> None:
        """Listen on the loopback address.

        Raises:
            OSError: If the port is in use.
        """
        await self._server.start(port)

    async def aclose(self) -> None:
        """Stop listening."""
        await self._server.aclose()

    async def _handle(self, request: ViewerRequest) -> Response:
        try:
            return await self._route(request)
        except Exception:
            logger.exception("viewer request failed: %s", request.method)
            return Response(500, b"The viewer failed. See its log.")

    async def _route(self, request: ViewerRequest) -> Response:
        port = self._server.port
        if request.headers.get("host", "") not in {f"127.0.0.1:{port}", f"localhost:{port}"}:
            return Response(403, b"this page is for this machine")
        if request.path == "/v1/traces":
            return await self._receive(request)
        if request.path in {
            "/v1/metrics",
            "/v1/logs",
        }:  # accept data that the page does not show, so that exporters report no error
            return Response(200, b"{}", "application/json") if _is_not_a_browser_page(request) else _not_found()
        _, token, *rest = request.path.split("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()) or not rest:
            return _not_found()
        return await self._page(request, "/".join(rest))

    async def _page(self, request: ViewerRequest, path: str) -> Response:
        if path == "v1/traces":
            return await self._receive(request)
        if path == "api/stop" and request.method == "POST" and _is_not_a_browser_page(request):
            self.stopped.set()
            return _json({"stopping": True})
        if request.method not in {"GET", "HEAD"}:
            return Response(405, b"only GET")
        if path in _ASSETS:
            name, kind = _ASSETS[path]
            text = await asyncio.to_thread(files("mainspring.app.servers.viewer").joinpath(name).read_bytes)
            return Response(200, text, kind, {"Content-Security-Policy": _POLICY})
        if path == "api/health":
            return _json({"viewer": "mainspring", "traces": self.store.version})
        if path == "api/runs":
            return _json({"runs": await asyncio.to_thread(self._runs)})
        if path.startswith("api/runs/"):
            found = await asyncio.to_thread(self._run, path.removeprefix("api/runs/"))
            return _not_found() if found is None else _json(found)
        return _not_found()

    async def _receive(self, request: ViewerRequest) -> Response:
        if request.method != "POST":
            return Response(405, b"only POST")
        if not _is_not_a_browser_page(request):
            return Response(403, b"spans come from programs, not from pages")
        kind = request.headers.get("content-type", "")
        try:
            received = await asyncio.to_thread(decode_spans, request.body, kind)
        except OtlpDecodeError as error:
            return Response(error.status, str(error).encode())
        self.store.add(received)
        if kind.partition(";")[0].strip().lower() in PROTOBUF_TYPES:
            return Response(200, b"", kind)
        return _json({})

    def _runs(self) -> list[Summary]:
        """Return the runs, the newest first. A run from both sources is listed once, in the received form."""
        runs = self.store.runs()
        known = {r.run: r for r in runs if r.run}
        for stored in self._source.runs() if self._source is not None else ():
            received = known.get(stored.run) if stored.run else None
            if received is None:
                runs.append(stored)
            else:
                _copy_title(received, stored)
        return sorted(runs, key=lambda r: r.start, reverse=True)[:_LISTED]

    def _run(self, id: str) -> RunDetail | None:
        received = self.store.run(id)
        if self._source is None:
            return received
        if received is None:
            return self._source.run(id)
        stored = self._source.run(f"session-{received.summary.run}") if received.summary.run else None
        return received if stored is None else _add_session_data(received, stored)


def _add_session_data(received: RunDetail, stored: RunDetail) -> RunDetail:
    """Add the messages of the session to received spans, which rarely contain them."""
    calls = {s.call: s for s in stored.spans if s.call}
    for span in received.spans:
        same = calls.get(span.call) if span.call else None
        if same is not None:
            span.input = same.input if span.input is None else span.input
            span.output = same.output if span.output is None else span.output
    received.messages = stored.messages
    _copy_title(received.summary, stored.summary)
    return received


def _copy_title(received: Summary, stored: Summary) -> None:
    """Copy the title of the session."""
    received.title = stored.title or received.title
    received.place = stored.place or received.place


def _is_not_a_browser_page(request: ViewerRequest) -> bool:
    """Return True if no web page sent the request; browsers mark such requests with these headers."""
    return "origin" not in request.headers and request.headers.get("sec-fetch-site", "none") == "none"


def _not_found() -> Response:
    return Response(404, b"Page not found.")


def _json(value: Any) -> Response:
    return Response(200, msgspec.json.encode(value, enc_hook=str), "application/json")
