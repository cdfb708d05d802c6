"""The page of the service: a few files of the package.

The application: routes of the table behind the guard, and the page.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring.app.run_service.errors import ServiceError
from mainspring.app.run_service.service import RunService
from mainspring.app.servers.http.auth import AuthMiddleware, OriginPolicy, Tokens
from mainspring.app.servers.http.limits import Limits, RateLimiter
from mainspring.app.servers.http.openapi import build_openapi
from mainspring.app.servers.http.responses import error_response, service_error_response
from mainspring.app.servers.http.routes import OPERATIONS, ApiRequest, Operation
from mainspring.app.servers.http.server import MAX_JSON_DEPTH, is_json_too_deep
from mainspring.app.servers.http.sse import StreamTimeouts
from mainspring.app.servers.http.state import ServerState

_TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
_NAMES = frozenset({"index.html", "page.css", "page.js", "events.js", "view.js"})
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


def page_routes() -> list[Route]:
    """Routes of the page. Nothing in it is anybody's: what it shows, it asks for with a token."""
    return [Route("/", _index, methods=["GET"]), Route("/page/{name}", _file, methods=["GET"])]


@cache
def _read(name: str) -> bytes:
    return files("mainspring.app.servers.http").joinpath("page", name).read_bytes()


def _page_response(name: str) -> Response:
    return Response(_read(name), headers={**_HEADERS, "content-type": _TYPES[name.rpartition(".")[2]]})


async def _index(_: Request) -> Response:
    return _page_response("index.html")


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _NAMES:
        raise HTTPException(404, "there is no such file")
    return _page_response(name)


_JSON = re.compile(r"application/json\s*(;|$)", re.IGNORECASE)


class _BodyTooLargeError(Exception):
    """A body over the limit."""


def create_app(
    service: RunService,
    tokens: Tokens,
    *,
    doors: OriginPolicy | None = None,
    limits: Limits | None = None,
    patience: StreamTimeouts | None = None,
) -> tuple[ASGIApp, ServerState]:
    """The ASGI application over a service, and its state.

    Args:
        service: The runs; entered and left by whoever made it.
        tokens: Who may use it.
        doors: From where.
        limits: How much each tenant may ask for.
        patience: How long streams wait.
    """
    limits = limits or Limits()
    state = ServerState(service, limits, patience or StreamTimeouts())
    state.document = build_openapi()
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route(path, _Endpoint(operations, state)) for path, operations in by_path.items()]
    app = Starlette(routes=[*routes, *page_routes()], exception_handlers={HTTPException: _http_problem})
    app.router.redirect_slashes = False
    guard = AuthMiddleware(app, tokens, doors or OriginPolicy(), RateLimiter(limits.requests), state.metrics)
    return _MetricsMiddleware(guard, state, [*by_path]), state


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "not_allowed"}.get(error.status_code, "refused")
    return error_response(error.status_code, code, error.detail, dict(error.headers or {}))


class _MetricsMiddleware:
    """Counts requests by operation, and answers one that fails in a way nobody thought of."""

    def __init__(self, app: ASGIApp, state: ServerState, paths: Sequence[str]) -> None:
        self._app = app
        self._state = state
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            name = str(scope.get("operation") or "other")
            self._state.metrics.request(name, status, time.monotonic() - began)


class _Endpoint:
    """The operations of one path."""

    def __init__(self, operations: Sequence[Operation], state: ServerState) -> None:
        self._operations = {o.method: o for o in operations}
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._operations.get(scope["method"])
        if operation is None:
            allowed = {"allow": ", ".join(sorted(self._operations))}
            answer: ASGIApp = error_response(
                405, "not_allowed", f"this can be asked with {allowed['allow']} only", allowed
            )
        else:
            scope["operation"] = operation.name
            answer = await self._handle(operation, Request(scope, receive))
        await answer(scope, receive, send)

    async def _handle(self, operation: Operation, request: Request) -> ASGIApp:
        try:
            query = _parse_query(operation, request)
            body = await self._body(operation, request)
            call = ApiRequest(
                service=self._state,
                tenant=request.scope.get("tenant", ""),
                run_id=request.path_params.get("run_id", ""),
                body=body,
                query=query,
                last_id=request.headers.get("last-event-id", ""),
                accept=request.headers.get("accept", "").lower(),
            )
            return await operation.do(call)
        except ServiceError as error:
            if error.retry_after:
                self._state.metrics.add("limited")
            return service_error_response(error)
        except _BodyTooLargeError:
            return error_response(413, "too_large", f"the body may have {self._state.limits.body} bytes at most")
        except HTTPException as error:
            code = "too_slow" if error.status_code == 408 else "not_json"
            return error_response(error.status_code, code, error.detail, dict(error.headers or {}))
        except msgspec.ValidationError as error:
            return error_response(422, "invalid", str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return error_response(400, "not_json", f"the body is no JSON: {error}")

    async def _body(self, operation: Operation, request: Request) -> Any:
        if operation.body is None:
            return None
        if not _JSON.match(request.headers.get("content-type", "")):
            raise HTTPException(415, "the body has to be application/json, and be called so")
        most = self._state.limits.body
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > most:
            raise _BodyTooLargeError
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._state.patience.request):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise _BodyTooLargeError
                    parts.append(part)
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time", {"connection": "close"}) from None
        body = b"".join(parts)
        if is_json_too_deep(body):
            raise HTTPException(400, f"the body is nested too deeply: {MAX_JSON_DEPTH} levels are the most")
        return msgspec.json.decode(body, type=operation.body)


def _parse_query(operation: Operation, request: Request) -> Any:
    given = request.query_params.multi_items()
    values = dict(given)
    if len(values) != len(given):
        raise msgspec.ValidationError("a parameter of the query stands there twice")
    if "null" in (value.lower() for value in values.values()):
        raise msgspec.ValidationError("null is no value of a parameter; leave it out")
    return msgspec.convert(values, operation.query, strict=False)
