"""How long a server asks to wait, in whatever way it says so."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mainspring.lazy import lazy_re
from mainspring.models.json_values import as_dict, as_dicts, as_number

_EPOCH_MS = 1e11
_EPOCH_S = 1e8
_PART = lazy_re(
    r"(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
)
_RESET = lazy_re(r"(x|anthropic)-ratelimit-(reset-[a-z-]+|[a-z-]+-reset)$")
_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TEXT = lazy_re(
    r"(?:retry|again|wait|reset|available)[a-z ]*?\s(?:in|after|for)\s*:?\s*(?:about |approximately )?"
    r"((?:\d+(?:\.\d+)?\s*[a-z]*\s*)+)",
    re.IGNORECASE,
)
_FIELD = lazy_re(r"retry[_-]?after[\"']?\s*[:=]\s*[\"']?(\d+(?:\.\d+)?)", re.IGNORECASE)


def extract_retry_after(source: Any, text: str = "", *, now: float | None = None) -> float | None:
    """Seconds the server asked to wait.

    Looked at, in this order: ``retry-after-ms`` and ``retry-after`` headers (seconds or an HTTP date), a number field of the
    error (``retry_after``, ``retryAfter``, ``retryDelay``), the ``x-ratelimit-reset`` headers (seconds, a duration, epoch
    seconds or milliseconds), and "retry in N s" in the text.

    Args:
        source: Headers, the parsed body of an error, or an exception that has ``retry_after``, ``headers`` or ``response``.
        text: The error's text.
        now: The current epoch time; the clock by default.

    Returns:
        Seconds from now, never negative; ``None`` if the server said nothing.
    """
    now = time.time() if now is None else now
    headers, fields = _headers_and_fields(source)
    found = _from_header(headers, now)
    if found is None:
        found = _from_fields(fields, now)
    if found is None:
        found = _from_reset(headers, now)
    if found is None:
        found = _from_text(text or (str(source) if isinstance(source, BaseException) else ""))
    return None if found is None or not math.isfinite(found) else max(0.0, found)


def _headers_and_fields(source: object) -> tuple[dict[str, str], Mapping[str, Any]]:
    """The headers and the other fields of whatever was given."""
    if isinstance(source, BaseException):
        response = getattr(source, "response", None)
        headers = as_dict(getattr(source, "headers", None)) or as_dict(getattr(response, "headers", None)) or {}
        fields = {name: getattr(source, name) for name in ("retry_after", "retryAfter") if hasattr(source, name)}
    else:
        headers = fields = as_dict(source) or {}
    return {str(name).lower(): value for name, value in headers.items() if isinstance(value, str)}, fields


def _from_header(headers: Mapping[str, str], now: float) -> float | None:
    value = headers.get("retry-after", "").strip()
    seconds = _seconds(value, now) if value else None
    if seconds is None and value:
        from email.utils import parsedate_to_datetime  # 10 ms, and most servers give seconds

        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            seconds = None
    exact = _number(headers.get("retry-after-ms", "").strip())
    if exact is not None and (exact > 0 or seconds is None):
        return exact / 1000
    return seconds


def _from_fields(fields: Mapping[str, Any], now: float) -> float | None:
    for scope in _nested_objects(fields):
        for name in ("retry_after", "retryAfter", "retryDelay", "retry_delay", "retry_after_seconds"):
            number = as_number(scope.get(name))
            if number is not None:
                return _relative_seconds(number, now)
            text = scope.get(name)
            if isinstance(text, str):
                return _seconds(text.strip(), now)
        exact = as_number(scope.get("retry_after_ms"))
        if exact is not None:
            return exact / 1000
        headers = as_dict(scope.get("headers"))
        if headers is not None:
            return extract_retry_after({str(k): str(v) for k, v in headers.items()}, now=now)
    return None


def _nested_objects(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The object itself, its error, the error's metadata and details."""
    error = as_dict(fields.get("error")) or {}
    scopes = [dict(fields), error, as_dict(error.get("metadata")), as_dict(fields.get("metadata"))]
    return [scope for scope in (*scopes, *as_dicts(error.get("details"))) if scope]


def _from_reset(headers: Mapping[str, str], now: float) -> float | None:
    """When the limit that is used up is lifted; a reset says nothing about a limit of which something is left."""
    for name in ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset"):
        seconds = _parse_timestamp(headers.get(name, ""), now)
        if seconds is not None:
            return seconds
    waits: list[float] = []
    for name, value in headers.items():
        match = _RESET.match(name)
        if match is None:
            continue
        left = headers.get(name.replace("reset", "remaining", 1), "0").strip()
        seconds = _parse_timestamp(value, now)
        if seconds is not None and left in ("0", "0.0", ""):
            waits.append(seconds)
    return max(waits, default=None)


def _parse_timestamp(value: str, now: float) -> float | None:
    seconds = _seconds(value.strip(), now) if value else None
    if seconds is not None:
        return seconds
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now


def _from_text(text: str) -> float | None:
    field = _FIELD.search(text)
    if field:
        return float(field[1])
    match = _TEXT.search(text)
    if match is None:
        return None
    return _duration(match[1]) or _number(match[1].split()[0])


def _seconds(value: str, now: float) -> float | None:
    number = _number(value)
    return _duration(value) if number is None else _relative_seconds(number, now)


def _relative_seconds(number: float, now: float) -> float:
    if number > _EPOCH_MS:
        return number / 1000 - now
    return number - now if number > _EPOCH_S else number


def _duration(text: str) -> float | None:
    parts = _PART.findall(text.lower())
    if not parts:
        return None
    return sum(float(n) * _UNITS.get(unit[:2], _UNITS[unit[0]]) for n, unit in parts)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
