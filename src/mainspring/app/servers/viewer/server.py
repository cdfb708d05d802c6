"""The viewer itself: a page, what it asks for, and the place where spans come in.

Everything but ``/v1/traces`` is below a path that nobody can guess. Spans may come in without it, since OpenTelemetry's exporters go
there by themselves; what a browser sends there of another page's accord is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from importlib.resources import files
from typing import Any

import msgspec

from mainspring.app.servers.viewer.http_server import Request, Response, Server
from mainspring.app.servers.viewer.model import RunDetail, RunSource, Summary
from mainspring.app.servers.viewer.otlp import PROTOBUF_TYPES, OtlpDecodeError, decode
from mainspring.app.servers.viewer.store import SpanStore

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
    """Shows runs.

    Args:
        source: Runs that are known beside those that are received.
        token: The secret part of the address; made up if not given.
    """

    def __init__(self, source: RunSource | None = None, *, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(24)
        self.store = SpanStore()
        self.stopped = asyncio.Event()
        self._source = source
        self._server = Server(self._handle)

    @property
    def url(self) -> str:
        """The address of the page; whoever knows it may look."""
        return f"http://127.0.0.1:{self._server.port}/{self.token}/"

    @property
    def endpoint(self) -> str:
        """Where spans are sent."""
        return f"http://127.0.0.1:{self._server.port}"

    async def start(self, port: int = 0) -> None:
        """Listen on this machine.

        Raises:
            OSError: If the port is taken.
        """
        await self._server.start(port)

    async def aclose(self) -> None:
        """Stop listening."""
        await self._server.aclose()

    async def _handle(self, request: Request) -> Response:
        try:
            return await self._route(request)
        except Exception:
            logger.exception("the viewer failed on %s", request.method)
            return Response(500, b"the viewer failed; its log says how")

    async def _route(self, request: Request) -> Response:
        port = self._server.port
        if request.headers.get("host", "") not in {f"127.0.0.1:{port}", f"localhost:{port}"}:
            return Response(403, b"this page is for this machine")
        if request.path == "/v1/traces":
            return await self._receive(request)
        if request.path in {
            "/v1/metrics",
            "/v1/logs",
        }:  # not shown; an exporter need not be told that something is wrong
            return Response(200, b"{}", "application/json") if _is_not_a_browser_page(request) else _not_found()
        _, token, *rest = request.path.split("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()) or not rest:
            return _not_found()
        return await self._page(request, "/".join(rest))

    async def _page(self, request: Request, path: str) -> Response:
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

    async def _receive(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(405, b"only POST")
        if not _is_not_a_browser_page(request):
            return Response(403, b"spans come from programs, not from pages")
        kind = request.headers.get("content-type", "")
        try:
            received = await asyncio.to_thread(decode, request.body, kind)
        except OtlpDecodeError as error:
            return Response(error.status, str(error).encode())
        self.store.add(received)
        if kind.partition(";")[0].strip().lower() in PROTOBUF_TYPES:
            return Response(200, b"", kind)
        return _json({})

    def _runs(self) -> list[Summary]:
        """The newest first. A run that is known both ways is there once: as it was received."""
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
    """What was received, with what was said: spans rarely hold that, the session does."""
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
    """What people know it by."""
    received.title = stored.title or received.title
    received.place = stored.place or received.place


def _is_not_a_browser_page(request: Request) -> bool:
    """Whether no browser sent it for a page; a browser says so by these."""
    return "origin" not in request.headers and request.headers.get("sec-fetch-site", "none") == "none"


def _not_found() -> Response:
    return Response(404, b"there is nothing here")


def _json(value: Any) -> Response:
    return Response(200, msgspec.json.encode(value, enc_hook=str), "application/json")
