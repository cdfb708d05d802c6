"""Responses other than streams."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from mainspring.app.run_service.service import (
    ConflictError,
    InvalidError,
    LimitError,
    NotFoundError,
    RunNotFoundError,
    ServiceError,
    ShuttingDownError,
)
from mainspring.redaction import redact_environment

STATUS: dict[type[ServiceError], int] = {
    RunNotFoundError: 404,
    ConflictError: 409,
    NotFoundError: 404,
    LimitError: 429,
    ShuttingDownError: 503,
    InvalidError: 422,
}
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Problem(Struct, frozen=True, kw_only=True):
    """Error of a request."""

    code: Annotated[str, Meta(description="Error code for programs.")]
    message: Annotated[str, Meta(description="What happened and how to fix it, for the user.")]


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as a JSON response."""
    body = msgspec.json.encode(value, enc_hook=str)
    return Response(body, status, {**_HEADERS, **(headers or {})}, media_type="application/json")


def error_response(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response."""
    return json_response(Problem(code=code, message=redact_environment(message)), status, headers)


def retry_later_response(status: int, code: str, message: str, seconds: float) -> Response:
    """Return an error response with the seconds to wait before a retry."""
    return error_response(status, code, message, {"retry-after": str(max(1, math.ceil(seconds)))})


def service_error_response(error: ServiceError) -> Response:
    """Convert an error of the service to a response."""
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    if error.retry_after or status == 429:
        return retry_later_response(status, error.code, str(error), error.retry_after)
    return error_response(status, error.code, str(error))
