"""The OpenAPI document, made of the same table as the routes."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mainspring import __version__
from mainspring.app.run_service.schemas import RunId
from mainspring.app.servers.http.responses import Problem
from mainspring.app.servers.http.routes import OPERATIONS, Operation
from mainspring.app.servers.http.sse import ID_PATTERN, event_schemas

_REF = "#/components/schemas/{name}"
_SSE = {
    "type": "object",
    "description": "Each event of the stream; its `data` is JSON: an `Event`, or an event of AG-UI.",
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
    202: "The run was told; what comes of it is told by its events.",
    204: "All was told, and nothing more comes.",
    400: "The body is no JSON, or nested too deeply.",
    401: "The token is missing or not known.",
    403: "A foreign host or origin.",
    404: "There is no such run of this tenant, or no such agent.",
    408: "The body did not arrive in time.",
    409: "The run is not in a state for it.",
    413: "The body is too large.",
    415: "The body is no `application/json`.",
    422: "What was sent does not fit.",
    429: "A limit of this tenant is reached; `Retry-After` says when to come again.",
    503: "Not now; try again soon.",
}


def build_openapi() -> dict[str, Any]:
    """OpenAPI 3.1, the same in every process of a version."""
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
            "description": "Runs of agents: start, follow, steer, approve, fork. A tenant sees its own runs and no others.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted({**events, **schemas, "Event": event}.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.open:
        made["security"] = []
    if parameters := _parameters(operation):
        made["parameters"] = parameters
    if operation.body is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema_ref(operation.body)}},
        }
    made["responses"] = _responses(operation)
    return made


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{run_id}" in operation.path:
        schema = msgspec.json.schema(RunId)
        found.append({"name": "run_id", "in": "path", "required": True, "schema": schema})
    _, schemas = msgspec.json.schema_components([operation.query], ref_template=_REF)
    for name, schema in schemas[operation.query.__name__].get("properties", {}).items():
        text = schema.pop("description", "")
        schema.pop("default", None) if schema.get("default", 0) is None else None
        if "anyOf" in schema:  # what is not given is none; there is no way to give it
            schema = next(s for s in schema["anyOf"] if s != {"type": "null"})
        found.append({"name": name, "in": "query", "description": text, "schema": schema})
    if _supports_resume(operation):
        last = {"type": "string", "pattern": f"^({ID_PATTERN})?$"}
        text = "Id of the last event that is known, as browsers send it."
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
        found[200] = {"description": "A run of this key was there already.", "content": content}
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
    """Whether it is a stream that a follower comes back to."""
    return operation.media == "text/event-stream" and operation.method == "GET"


def _schema_ref(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}
