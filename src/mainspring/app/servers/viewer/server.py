"""The telemetry viewer's application: receive spans, and serve runs and a web page on the loopback interface."""

from __future__ import annotations

import asyncio
import socket
import zlib

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mainspring.app.servers.http.auth import (
    DEFAULT_TENANT,
    AuthMiddleware,
    OriginPolicy,
    RateLimiter,
    TenantTokens,
    new_token,
)
from mainspring.app.servers.http.metrics import Metrics
from mainspring.app.servers.http.pages import page_routes
from mainspring.app.servers.http.responses import handle_http_exception, json_response
from mainspring.app.servers.http.server import HttpServer, local_url, read_request_body
from mainspring.app.servers.viewer.model import RunDetail, RunSource, Summary
from mainspring.app.servers.viewer.otlp import PROTOBUF_TYPES, OtlpDecodeError, decode_spans
from mainspring.app.servers.viewer.span_store import SpanStore

_MAX_BODY = 32 * 1024 * 1024
_REQUEST_SECONDS = 60.0
_REQUESTS_A_MINUTE = 6_000
_LISTED = 300
_INTAKE = ("/v1/traces", "/v1/metrics", "/v1/logs")
"""Paths to which programs send data without a token."""


class Viewer:
    """Serves the page and its API.

    Args:
        source: Source of runs in addition to received spans.
        token: Secret for all data (default: random).
    """

    def __init__(self, source: RunSource | None = None, *, token: str = "") -> None:
        self.token = token or new_token()
        self.store = SpanStore()
        self._source = source
        app = Starlette(
            routes=[
                *page_routes("mainspring.app.servers.viewer"),
                Route("/v1/traces", self._receive, methods=["POST"]),
                *[Route(path, self._ignore, methods=["POST"]) for path in _INTAKE[1:]],
                Route("/api/health", self._health),
                Route("/api/runs", self._list),
                Route("/api/runs/{id}", self._show),
                Route("/api/stop", self._stop, methods=["POST"]),
            ],
            exception_handlers={HTTPException: handle_http_exception},
        )
        guard = AuthMiddleware(
            app,
            TenantTokens({self.token: DEFAULT_TENANT}),
            OriginPolicy(configurable=False),
            RateLimiter(_REQUESTS_A_MINUTE),
            Metrics(),
            public=("/", "/page/", *_INTAKE),
        )
        self.server = HttpServer(guard, request_seconds=_REQUEST_SECONDS)

    def url(self, listening: socket.socket) -> str:
        """Return the URL of the page, with the token for all data."""
        return f"{local_url(listening)}#token={self.token}"

    async def _receive(self, request: Request) -> Response:
        _reject_browsers(request)
        kind = request.headers.get("content-type", "")
        body = await read_request_body(request, _MAX_BODY, _REQUEST_SECONDS)
        encoding = request.headers.get("content-encoding", "identity").lower()
        try:
            received = await asyncio.to_thread(lambda: decode_spans(_decompress(body, encoding), kind))
        except OtlpDecodeError as error:
            raise HTTPException(error.status, str(error)) from None
        self.store.add(received)
        if kind.partition(";")[0].strip().lower() in PROTOBUF_TYPES:
            return Response(b"", headers={"content-type": kind})
        return json_response({})

    async def _ignore(self, request: Request) -> Response:
        """Accept data that the page does not show, so that exporters report no error."""
        _reject_browsers(request)
        return json_response({})

    async def _health(self, _: Request) -> Response:
        return json_response({"viewer": "mainspring", "traces": self.store.version})

    async def _stop(self, _: Request) -> Response:
        self.server.stop()
        return json_response({"stopping": True})

    async def _list(self, _: Request) -> Response:
        return json_response({"runs": await asyncio.to_thread(self._runs)})

    async def _show(self, request: Request) -> Response:
        found = await asyncio.to_thread(self._run, request.path_params["id"])
        if found is None:
            raise HTTPException(404, "Run not found.")
        return json_response(found)

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


def _reject_browsers(request: Request) -> None:
    """Reject a request of a web page; browsers mark such requests with these headers."""
    if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") != "none":
        raise HTTPException(403, "Web pages cannot send telemetry.")


def _decompress(data: bytes, encoding: str) -> bytes:
    if encoding in {"identity", ""}:
        return data
    if encoding not in {"gzip", "deflate"}:
        raise HTTPException(415, f"Unsupported content encoding: {encoding!r}.")
    unpack = zlib.decompressobj(31 if encoding == "gzip" else 15)
    try:
        decompressed = unpack.decompress(data, _MAX_BODY)
    except zlib.error as error:
        raise HTTPException(400, f"The request cannot be decompressed: {error}.") from None
    if unpack.unconsumed_tail:
        raise HTTPException(413, "The request is too large.")
    return decompressed
