"""Responses other than streams."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mainspring.redaction import redact_environment

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


_CODES = {400: "not_json", 404: "not_found", 405: "not_allowed", 408: "too_slow", 413: "too_large", 415: "not_json"}


async def handle_http_exception(_: Request, error: Exception) -> Response:
    """Convert an `HTTPException` to an error response."""
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "refused")
    return error_response(error.status_code, code, error.detail, dict(error.headers or {}))
