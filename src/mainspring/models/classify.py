"""Failures of a model call to `ModelError`: status and error codes decide first, text patterns last."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from mainspring.errors import MODEL_ERRORS, ErrorCode, ModelError
from mainspring.models.error_patterns import (
    AUTH_TEXT,
    CODES,
    CONTENT_TEXT,
    GENERIC_CODES,
    LOOSE_TEXT,
    NOT_FOUND_TEXT,
    OVERFLOW_TEXT,
    QUOTA_TEXT,
    TOO_LARGE_TEXT,
    Kind,
)
from mainspring.models.retry_after import extract_retry_after
from mainspring.redact import redact

_MAX_TEXT = 2000
_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "x-amzn-requestid", "cf-ray")

_STATUS: dict[int, Kind] = {
    401: (ErrorCode.AUTHENTICATION_ERROR, "unauthorized"),
    402: (ErrorCode.RATE_LIMITED, "quota"),
    403: (ErrorCode.AUTHENTICATION_ERROR, "forbidden"),
    404: (ErrorCode.MODEL_NOT_FOUND, "not_found"),
    408: (ErrorCode.TIMEOUT, "timeout"),
    410: (ErrorCode.MODEL_NOT_FOUND, "not_found"),
    413: (ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"),
    429: (ErrorCode.RATE_LIMITED, "rate_limit"),
    503: (ErrorCode.NETWORK_ERROR, "overloaded"),
    504: (ErrorCode.NETWORK_ERROR, "gateway_timeout"),
    529: (ErrorCode.NETWORK_ERROR, "overloaded"),
}
_FINAL = frozenset({"quota", "request_too_large", "content_filter", "bad_request", "not_implemented"})


def classify_error(
    status: int | None,
    headers: Mapping[str, str] | None,
    body: bytes | str | Mapping[str, Any] | None,
    *,
    provider: str | None = None,
    model: str | None = None,
    host: str | None = None,
    secrets: tuple[str, ...] = (),
) -> ModelError:
    """The error that an answer of a provider means.

    Args:
        status: HTTP status; ``None`` or a 2xx for an error inside an answer that was otherwise accepted.
        headers: Headers of the answer.
        body: Its body: JSON, the events of a stream, HTML or plain text.
        provider: Name of the provider, for the text.
        model: Id of the model.
        host: Host that answered, for the text.
        secrets: Values that must not appear in the text.

    Returns:
        The subclass that stands for its code, with ``reason``, ``retryable``, ``retry_after``, ``request_id``. The text is the
        provider's own, plus status, provider, host and request id; secrets are masked.
    """
    lowered = {k.lower(): v for k, v in (headers or {}).items()}
    value = _value_of(body)
    facts = _Facts(value, body)
    real = status if status is not None and status >= 400 else facts.status
    code, reason = _kind(real, facts)
    hint = lowered.get("x-should-retry", "").lower()
    error = MODEL_ERRORS[code](
        "",
        code=code,
        reason=reason,
        retryable=False if reason in _FINAL or hint == "false" else None,
        status=real if real is not None else status,
        provider=provider,
        model=model,
        request_id=next((lowered[h] for h in _ID_HEADERS if lowered.get(h)), None) or facts.request_id,
    )
    if error.retryable or code is ErrorCode.RATE_LIMITED:
        error.retry_after = extract_retry_after(lowered, now=None)
        if error.retry_after is None:
            error.retry_after = extract_retry_after(value, facts.text)
    where = ", ".join(
        part
        for part in (
            f"HTTP {error.status}" if error.status else "",
            provider or "",
            host or "",
            f"request {error.request_id}" if error.request_id else "",
        )
        if part
    )
    error.message = redact(facts.message or "The provider gave no reason", *secrets) + (f" ({where})" if where else "")
    error.args = (error.message,)
    return error


def classify_exception(error: BaseException, *, provider: str | None = None, model: str | None = None) -> ModelError:
    """The error that a native exception means; a `ModelError` is returned as it is.

    Args:
        error: Anything: an error of an HTTP library, of the operating system, of a vendor's SDK.
        provider: Name of the provider.
        model: Id of the model.
    """
    if isinstance(error, ModelError):
        return error
    holder: Any = error
    status = getattr(holder, "status_code", None) or getattr(holder, "status", None)
    response = getattr(holder, "response", None)
    status = status if isinstance(status, int) else getattr(response, "status_code", None)
    headers = getattr(holder, "headers", None) or getattr(response, "headers", None)
    body = getattr(holder, "body", None)
    text = str(error) or type(error).__name__
    if isinstance(status, int) and status >= 400:
        known = body if isinstance(body, Mapping | str | bytes) and body else text
        result = classify_error(
            status, headers if isinstance(headers, Mapping) else {}, known, provider=provider, model=model
        )  # pyright: ignore
    else:
        code, reason = _native_kind(error, text)
        result = MODEL_ERRORS[code](redact(text), code=code, reason=reason, provider=provider, model=model)
    if result.retryable and result.retry_after is None:
        result.retry_after = extract_retry_after(error)
    result.__cause__ = error
    return result


def _native_kind(error: BaseException, text: str) -> Kind:
    names = " ".join(c.__name__.lower() for c in type(error).__mro__)
    if isinstance(error, TimeoutError) or "timeout" in names:
        return ErrorCode.TIMEOUT, "timeout"
    if isinstance(error, ConnectionError) or any(
        n in names for n in ("connect", "network", "protocolerror", "transport")
    ):
        return ErrorCode.NETWORK_ERROR, "connection"
    found = _by_text(text)
    if found[0] is ErrorCode.UNKNOWN and isinstance(error, OSError):
        return ErrorCode.NETWORK_ERROR, "connection"
    return found


class _Facts:
    """What the body of an error says."""

    def __init__(self, value: Mapping[str, Any], body: bytes | str | Mapping[str, Any] | None) -> None:
        inner = value.get("error")
        error: Mapping[str, Any] = inner if isinstance(inner, Mapping) else value  # pyright: ignore[reportUnknownVariableType]
        self.message = _message(value, error, body)
        self.codes = _codes(value, error)
        self.status = next((s for s in map(_http_status, _numbers(value, error)) if s), None)
        found = value.get("request_id") or error.get("request_id")
        self.request_id = found if isinstance(found, str) else None
        metadata = error.get("metadata")
        raw: Any = metadata.get("raw") if isinstance(metadata, Mapping) else None  # pyright: ignore
        if isinstance(raw, str) and raw:
            self.message = f"{self.message}: {raw[:_MAX_TEXT]}"
        self.text = self.message.lower()


def _kind(status: int | None, facts: _Facts) -> Kind:
    limited = status in (402, 429) or (
        status is None and any(c in CODES and CODES[c][0] is ErrorCode.RATE_LIMITED for c in facts.codes)
    )
    for code in facts.codes:
        kind = CODES.get(code)
        if kind is not None and not (kind[0] is ErrorCode.CONTEXT_LENGTH_EXCEEDED and limited) and status != 413:
            return _refined(kind, facts)
    if status is not None:
        kind = _by_status(status, facts)
        if kind is not None:
            return _refined(kind, facts)
    for code in facts.codes:
        if code in GENERIC_CODES:
            return _refined(GENERIC_CODES[code], facts) if status is None else (ErrorCode.UNKNOWN, "bad_request")
    return (ErrorCode.UNKNOWN, "bad_request") if status is not None and status < 500 else _by_text(facts.text)


def _refined(kind: Kind, facts: _Facts) -> Kind:
    """The same kind, told apart further by its text."""
    code, reason = kind
    if code is ErrorCode.RATE_LIMITED and reason == "rate_limit":
        if QUOTA_TEXT.search(facts.text):
            return code, "quota"
        if TOO_LARGE_TEXT.search(facts.text):
            return code, "request_too_large"
    if reason == "bad_request":
        return _by_request_text(facts.text) or kind
    return kind


def _by_status(status: int, facts: _Facts) -> Kind | None:
    if status in (401, 402, 408, 410, 413, 429, 529):
        return _STATUS[status]
    special = _by_request_text(facts.text)
    if special is not None and (status < 500 or special[0] is ErrorCode.CONTEXT_LENGTH_EXCEEDED):
        return special
    if status in _STATUS:
        return _STATUS[status]
    if status == 501:
        return ErrorCode.NETWORK_ERROR, "not_implemented"
    if status >= 500:
        overloaded = "overloaded" in facts.text or "capacity" in facts.text
        return ErrorCode.NETWORK_ERROR, "overloaded" if overloaded else "server_error"
    return (ErrorCode.UNKNOWN, "bad_request") if status >= 400 else None


def _by_request_text(text: str) -> Kind | None:
    """What a refusal of the request says in its text alone; nothing loose, because any 400 comes along here."""
    if OVERFLOW_TEXT.search(text):
        return ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"
    if CONTENT_TEXT.search(text):
        return ErrorCode.UNKNOWN, "content_filter"
    if AUTH_TEXT.search(text):
        return ErrorCode.AUTHENTICATION_ERROR, "unauthorized"
    if NOT_FOUND_TEXT.search(text):
        return ErrorCode.MODEL_NOT_FOUND, "not_found"
    return None


def _by_text(text: str) -> Kind:
    """The last resort: no status, no code."""
    text = text.lower()
    if OVERFLOW_TEXT.search(text) and not re.search(r"rate.?limit|\b429\b|per minute", text):
        return ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"
    for pattern, kind in LOOSE_TEXT:
        if pattern.search(text):
            return kind
    return ErrorCode.UNKNOWN, ""


def _value_of(body: bytes | str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The JSON object of an error's body, also out of an array or a stream."""
    if isinstance(body, Mapping):
        return body
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body or ""
    value = _parsed(text)
    if value is None:
        for line in re.split(r"\r\n|\n|\r", text):
            found = _parsed(line[5:]) if line.startswith("data:") else None
            if found is not None and (found.get("error") or value is None):
                value = found
    return value or {}


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]  # pyright: ignore[reportUnknownVariableType]
    return value if isinstance(value, Mapping) else None  # pyright: ignore[reportUnknownVariableType]


def _message(value: Mapping[str, Any], error: Mapping[str, Any], body: object) -> str:
    candidates: list[Any] = [error.get("message"), value.get("error"), value.get("detail"), value.get("message")]
    candidates += [error.get("detail"), error.get("error_description"), value.get("msg"), error.get("reason")]
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()[:_MAX_TEXT]
    if value:
        return json.dumps(value, ensure_ascii=False)[:_MAX_TEXT]
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body if isinstance(body, str) else ""
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
    if title:
        text = title[1]
    elif re.search(r"<\s*(!doctype|html)", text[:200], re.IGNORECASE):
        text = re.sub(r"<[^>]*>", " ", text)
    return " ".join(text.split())[:_MAX_TEXT]


def _codes(value: Mapping[str, Any], error: Mapping[str, Any]) -> list[str]:
    """The error codes and types, in the order in which they count, as lower case words."""
    found: list[Any] = [error.get("code"), error.get("type"), error.get("status"), error.get("reason")]
    inner = error.get("innererror") or error.get("inner_error")
    if isinstance(inner, Mapping):
        found.insert(0, inner.get("code"))  # pyright: ignore[reportUnknownMemberType]
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(detail, Mapping):
            found.insert(0, detail.get("reason"))  # pyright: ignore[reportUnknownMemberType]
    found += [value.get("code"), value.get("type"), value.get("errorCode"), value.get("__type")]
    return [re.sub(r"[\s-]+", "_", f.strip().rsplit("#", 1)[-1]).lower() for f in found if isinstance(f, str)]


def _numbers(value: Mapping[str, Any], error: Mapping[str, Any]) -> list[Any]:
    return [s.get(n) for s in (error, value) for n in ("code", "status", "status_code", "statusCode")]


def _http_status(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError):
        return None
    return number if 400 <= number <= 599 else None
