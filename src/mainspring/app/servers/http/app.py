"""The ASGI application: API routes with authentication, and the web page."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mainspring import __version__
from mainspring.app.run_service.schemas import RunId
from mainspring.app.run_service.service import (
    ConflictError,
    InvalidError,
    LimitError,
    NotFoundError,
    RunNotFoundError,
    RunService,
    ServiceError,
    ShuttingDownError,
)
from mainspring.app.servers.http.auth import AuthMiddleware, OriginPolicy, RateLimiter, TenantTokens
from mainspring.app.servers.http.pages import page_routes
from mainspring.app.servers.http.responses import (
    Problem,
    error_response,
    handle_http_exception,
    retry_later_response,
)
from mainspring.app.servers.http.routes import OPERATIONS, ApiRequest, Operation
from mainspring.app.servers.http.server import (
    MAX_JSON_DEPTH,
    HttpServer,
    ServerOptions,
    is_json_too_deep,
    read_request_body,
)
from mainspring.app.servers.http.sse import ID_PATTERN, StreamTimeouts, event_schemas
from mainspring.app.servers.http.state import Limits, ServerState
from mainspring.events.codec import unindent_descriptions
from mainspring.text import pluralize

_REF = "#/components/schemas/{name}"
_SSE = {
    "type": "object",
    "description": "Each event of the stream; `data` is JSON: an `Event`, or an event of AG-UI.",
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "description": "The same as `type` in `data`."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
_STATUSES = {
    200: "Done.",
    201: "Started.",
    202: "The run received the request. Its events report the result.",
    204: "All events were sent, and no more will follow.",
    400: "The body is not valid JSON, or it is nested too deeply.",
    401: "The token is missing or unknown.",
    403: "The host or the origin is not allowed.",
    404: "The tenant has no such run, or the agent does not exist.",
    408: "The body did not arrive in time.",
    409: "The state of the run does not allow the request.",
    413: "The body is too large.",
    415: "The body is not `application/json`.",
    422: "The body does not match the schema.",
    429: "The tenant reached a limit. `Retry-After` contains the seconds to wait.",
    503: "The service is not available. Try again soon.",
}


@cache
def build_openapi() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document; it is identical in every process of a version, and read only."""
    kinds = [k for o in OPERATIONS for k in (o.body, o.answer) if k is not None]
    _, schemas = msgspec.json.schema_components([*dict.fromkeys(kinds), Problem], ref_template=_REF)
    event, events = event_schemas()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mainspring",
            "version": __version__,
            "description": "Run agents: start, follow, steer, approve, and fork runs. A tenant sees only its own runs.",
        },
        "paths": paths,
        "components": {
            "schemas": unindent_descriptions(dict(sorted({**events, **schemas, "Event": event}.items()))),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    schema: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.open:
        schema["security"] = []
    if parameters := _parameters(operation):
        schema["parameters"] = parameters
    if operation.body is not None:
        schema["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema_ref(operation.body)}},
        }
    schema["responses"] = _responses(operation)
    return schema


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{run_id}" in operation.path:
        schema = msgspec.json.schema(RunId)
        found.append({"name": "run_id", "in": "path", "required": True, "schema": schema})
    _, schemas = msgspec.json.schema_components([operation.query], ref_template=_REF)
    for name, schema in schemas[operation.query.__name__].get("properties", {}).items():
        text = schema.pop("description", "")
        schema.pop("default", None) if schema.get("default", 0) is None else None
        if "anyOf" in schema:  # a query string cannot express null, so an optional parameter is left out
            schema = next(s for s in schema["anyOf"] if s != {"type": "null"})
        found.append({"name": name, "in": "query", "description": text, "schema": schema})
    if _supports_resume(operation):
        last = {"type": "string", "pattern": f"^({ID_PATTERN})?$"}
        text = "ID of the last event that the client has received, as browsers send it."
        found.append({"name": "Last-Event-ID", "in": "header", "description": text, "schema": last})
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {operation.media: {"schema": {"type": "object"}}}
    if operation.media == "text/event-stream":
        content = {operation.media: {"schema": _SSE}}
    elif operation.answer is not None:
        content = {"application/json": {"schema": _schema_ref(operation.answer)}}
    elif operation.media != "application/json":
        content = {operation.media: {"schema": {"type": "string"}}}
    found: dict[int, Any] = {operation.status: {"description": _STATUSES[operation.status], "content": content}}
    if operation.status == 201:
        found[200] = {"description": "A run with this key already existed.", "content": content}
    if _supports_resume(operation):
        found[204] = {"description": _STATUSES[204]}
    errors = [403, 422, *operation.errors]
    if not operation.open:
        errors += [401, 429]
    if operation.body is not None:
        errors += [400, 408, 413, 415]
    for status in errors:
        kind = operation.answer if operation.open and status == 503 and operation.answer else Problem
        found[status] = {
            "description": _STATUSES[status],
            "content": {"application/json": {"schema": _schema_ref(kind)}},
        }
        if status == 429:
            found[status]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return {str(status): found[status] for status in sorted(found)}


def _supports_resume(operation: Operation) -> bool:
    """Return True if the operation returns a stream that a client can resume."""
    return operation.media == "text/event-stream" and operation.method == "GET"


def _schema_ref(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


_JSON = re.compile(r"application/json\s*(;|$)", re.IGNORECASE)


def create_app(
    service: RunService,
    tokens: TenantTokens,
    *,
    doors: OriginPolicy | None = None,
    limits: Limits | None = None,
    timeouts: StreamTimeouts | None = None,
) -> tuple[ASGIApp, ServerState]:
    """Create the ASGI application over a service, and its state.

    Args:
        service: The run service; the caller enters and exits it.
        tokens: TenantTokens of the tenants.
        doors: Allowed hosts and origins.
        limits: Limits for each tenant.
        timeouts: Time limits of streams.
    """
    limits = limits or Limits()
    state = ServerState(service, limits, timeouts or StreamTimeouts())
    state.document = build_openapi()
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, []).append(operation)
    routes = [Route(path, _Endpoint(operations, state)) for path, operations in by_path.items()]
    app = Starlette(
        routes=[*routes, *page_routes("mainspring.app.servers.http")],
        exception_handlers={HTTPException: handle_http_exception},
    )
    app.router.redirect_slashes = False
    guard = AuthMiddleware(app, tokens, doors or OriginPolicy(), RateLimiter(limits.requests), state.metrics)
    return _MetricsMiddleware(guard, state, [*by_path]), state


def create_server(
    app: ASGIApp, state: ServerState, place: ServerOptions, on_message: Callable[[str], object] = lambda _: None
) -> HttpServer:
    """Create the server of an application, which drains active runs before it stops.

    Args:
        app: The application.
        state: Its state.
        place: Time limit of the shutdown.
        on_message: Callback for progress of the shutdown.
    """

    async def drain() -> None:
        if place.keeps:
            state.shutdown_started.set()
        on_message(
            f"Shutting down: no new runs. Active runs have {place.drain:g}s to finish (repeat the signal to stop immediately)."
        )
        remaining = await state.service.drain(place.drain, keeps=place.keeps)
        if remaining:
            lost = pluralize(remaining, "run did not finish and is", "runs did not finish and are")
            on_message(f"{lost} lost, because runs exist only in this process. Store runs in a database with --url.")
        state.shutdown_started.set()

    server = HttpServer(app, request_seconds=state.timeouts.request, on_stop=drain)
    state.abort_connection = server.abort_connection
    return server


class _MetricsMiddleware:
    """Counts requests by operation, and answers a request that fails unexpectedly."""

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
                405, "not_allowed", f"Method not allowed. Use {allowed['allow']}.", allowed
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
            return _service_error_response(error)
        except msgspec.ValidationError as error:
            return error_response(422, "invalid", str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return error_response(400, "not_json", f"The body is not valid JSON: {error}.")

    async def _body(self, operation: Operation, request: Request) -> Any:
        if operation.body is None:
            return None
        if not _JSON.match(request.headers.get("content-type", "")):
            raise HTTPException(415, "Send a JSON body with the header Content-Type: application/json.")
        body = await read_request_body(request, self._state.limits.body, self._state.timeouts.request)
        if is_json_too_deep(body):
            raise HTTPException(400, f"The body is nested too deeply. The limit is {MAX_JSON_DEPTH} levels.")
        return msgspec.json.decode(body, type=operation.body)


_STATUS: dict[type[ServiceError], int] = {
    RunNotFoundError: 404,
    ConflictError: 409,
    NotFoundError: 404,
    LimitError: 429,
    ShuttingDownError: 503,
    InvalidError: 422,
}


def _service_error_response(error: ServiceError) -> Response:
    status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
    if error.retry_after or status == 429:
        return retry_later_response(status, error.code, str(error), error.retry_after)
    return error_response(status, error.code, str(error))


def _parse_query(operation: Operation, request: Request) -> Any:
    given = request.query_params.multi_items()
    values = dict(given)
    if len(values) != len(given):
        raise msgspec.ValidationError("A query parameter is a duplicate. Send each parameter once.")
    if "null" in (value.lower() for value in values.values()):
        raise msgspec.ValidationError("null is not a valid query parameter. Leave the parameter out.")
    return msgspec.convert(values, operation.query, strict=False)
