"""Convert failures of a model call to `ModelError`.

The status and the error codes decide first, text patterns last.
"""

from __future__ import annotations

import json
import math
import re
import time
from asyncio import CancelledError
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from typing import Any, Literal

from mainspring.errors import MODEL_ERRORS, AgentAbortedError, ErrorCode, ModelError
from mainspring.lazy import lazy_re
from mainspring.messages import strip_surrogates
from mainspring.models.error_patterns import (
    AUTH_TEXT,
    CONTENT_TEXT,
    CRASH_TEXT,
    ERROR_CODES,
    FALLBACK_TEXT_PATTERNS,
    GENERIC_CODES,
    MENTIONS_MODEL,
    NOT_FOUND_TEXT,
    OVERFLOW_TEXT,
    OVERLOADED_TEXT,
    QUOTA_TEXT,
    RATE_TEXT,
    STATUS_CODES,
    TOO_LARGE_TEXT,
    ZERO_LIMIT_TEXT,
    ErrorPattern,
)
from mainspring.models.json_values import as_dict, as_dicts, as_int, as_list, as_number
from mainspring.redaction import redact_environment

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
    """Return the seconds that the server asks to wait.

    Checked in this order: ``retry-after-ms`` and ``retry-after`` headers (seconds or an HTTP date), a number field of the
    error (``retry_after``, ``retryAfter``, ``retryDelay``), the ``x-ratelimit-reset`` headers (seconds, a duration, epoch
    seconds or milliseconds), and "retry in N s" in the text.

    Args:
        source: Headers, the parsed body of an error, or an exception with ``retry_after``, ``headers``, or ``response``.
        text: Text of the error.
        now: Current epoch time; the clock by default.

    Returns:
        Seconds from now, never negative; ``None`` if the server sent no delay.
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
    """Return the headers and the other fields of a source."""
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
        from email.utils import parsedate_to_datetime  # 10ms, since most servers send seconds

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
    """Return the object itself, its error, and the error's metadata and details."""
    error = as_dict(fields.get("error")) or {}
    scopes = [dict(fields), error, as_dict(error.get("metadata")), as_dict(fields.get("metadata"))]
    return [scope for scope in (*scopes, *as_dicts(error.get("details"))) if scope]


def _from_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Return the time until the exhausted limit resets; resets of limits that are not exhausted are ignored."""
    for name in ("x-ratelimit-reset", "ratelimit-reset", "x-rate-limit-reset"):
        seconds = _parse_timestamp(headers.get(name, ""), now)
        if seconds is not None:
            return seconds
    waits: list[float] = []
    for name, value in headers.items():
        match = _RESET.match(name)
        if match is None:
            continue
        remaining = headers.get(name.replace("reset", "remaining", 1), "0").strip()
        seconds = _parse_timestamp(value, now)
        if seconds is not None and remaining in ("0", "0.0", ""):
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


_MAX_TEXT = 2000
_ESCAPE = lazy_re(r"\\u((?!d[89a-f])[0-9a-f]{4})", re.IGNORECASE)
_LIMIT_IN_PAGE = lazy_re(r"(?i)token|context|上下文|コンテキスト")
"""Matches a web page whose text, and not only its title, contains the cause: a gateway shows the error of the host in it."""


_MESSAGE_FIELDS = ("error_message", "error_msg", "errorMessage", "err_msg", "errmsg", "status_msg")
"""Fields that only errors have, as different hosts write them."""


def is_error_object(fields: Mapping[str, Any]) -> bool:
    """Return True if an object in an accepted response is an error in the format of some host."""
    status = as_dict(fields.get("base_resp")) or {}  # MiniMax; the code of a success is 0.
    return (
        "error" in (fields.get("object"), fields.get("type"))
        or bool(status.get("status_code"))
        or any(isinstance(fields.get(name), str) and fields.get(name) for name in _MESSAGE_FIELDS)
    )


class ErrorBody:
    """The parts of an error body.

    Args:
        body: JSON (an object, or an array with one object), an event stream, HTML, or plain text.

    Attributes:
        fields: The JSON object, or an empty dict.
        message: The message of the provider.
        text: The message in lower case, for patterns.
        codes: Codes, types, and reasons in lower case, the most specific first.
        mentions_model: Whether the error is about a model or a deployment.
        status: HTTP status in the body, if any.
        request_id: Request ID of the provider, if any.
    """

    __slots__ = ("mentions_model", "codes", "fields", "message", "request_id", "status", "text")

    def __init__(self, body: bytes | str | Mapping[str, Any] | None) -> None:
        raw = body.decode("utf-8", "replace") if isinstance(body, bytes) else body if isinstance(body, str) else ""
        self.fields = as_dict(strip_surrogates(body)) or _object_in(raw)
        error = as_dict(self.fields.get("error")) or as_dict((as_list(self.fields.get("errors")) or [None])[0])
        error = error or as_dict(self.fields.get("base_resp"))
        error = self.fields if error is None else error
        metadata = as_dict(error.get("metadata")) or {}
        upstream = metadata.get("raw")
        self.message = _message(self.fields, error, raw)
        if isinstance(upstream, str) and upstream and upstream not in self.message:
            self.message = f"{self.message}: {upstream[:_MAX_TEXT]}"
        # JSON within the text, of a gateway that passes on the body of another host.
        self.message = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), self.message)
        window, prompt = as_int(error.get("n_ctx")), as_int(error.get("n_prompt_tokens"))
        if window and prompt and str(window) not in self.message:  # llama.cpp
            self.message = f"{self.message} ({prompt} tokens > {window} maximum)"
        self.text = self.message.lower()
        self.codes = _codes(self.fields, error)
        self.mentions_model = error.get("param") == "model" or bool(MENTIONS_MODEL.search(self.text))
        numbers = [
            as_int(scope.get(name))
            for scope in (error, self.fields)
            for name in ("code", "status", "status_code", "statusCode", "error_code", "errorCode")
        ]
        self.status = next((n for n in numbers if n is not None and 400 <= n <= 599), None)
        id = self.fields.get("request_id") or error.get("request_id")
        self.request_id = id if isinstance(id, str) and id else None


def _object_in(text: str) -> dict[str, Any]:
    """Return the JSON object of a text, an array, or an event stream."""
    found = _parsed(text)
    if found is None:
        for line in re.split(r"\r\n|\n|\r", text):
            value = _parsed(line[5:]) if line.startswith("data:") else None
            if value is not None and (found is None or value.get("error")):
                found = value
    return found or {}


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = strip_surrogates(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return None
    return as_dict(value) or next(iter(as_dicts(value)), None)


def _message(fields: dict[str, Any], error: dict[str, Any], raw: str) -> str:
    candidates: list[Any] = [error.get("message"), fields.get("error"), fields.get("detail"), fields.get("message")]
    candidates += [error.get("detail"), error.get("error_description"), error.get("msg"), fields.get("errors")]
    candidates += [error.get(name) for name in _MESSAGE_FIELDS]
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()[:_MAX_TEXT]
        details = [str(d.get("msg") or d.get("message") or "") for d in as_dicts(candidate)]
        if any(details):
            return "; ".join([d for d in details if d])[:_MAX_TEXT]
    if fields:
        return json.dumps(error if error else fields, ensure_ascii=False, default=str)[:_MAX_TEXT]
    title = re.search(r"<title[^>]*>(.*?)</title>", raw, re.DOTALL | re.IGNORECASE)
    if title or re.search(r"<\s*(!doctype|html)", raw[:200], re.IGNORECASE):
        text = unescape(re.sub(r"<(script|style|title)\b.*?</\1>|<[^>]*>", " ", raw, flags=re.DOTALL | re.IGNORECASE))
        raw = title[1] if title and not _LIMIT_IN_PAGE.search(text) else text
    return " ".join(raw.split())[:_MAX_TEXT]


def _codes(fields: dict[str, Any], error: dict[str, Any]) -> list[str]:
    inner = as_dict(error.get("innererror")) or as_dict(error.get("inner_error")) or {}
    found: list[Any] = [detail.get("reason") for detail in as_dicts(error.get("details"))]
    found += [inner.get("code"), error.get("code"), error.get("type"), error.get("status"), error.get("reason")]
    found += [
        fields.get("code"),
        fields.get("type"),
        fields.get("errorCode"),
        fields.get("__type"),
        fields.get("object"),
    ]
    words = [word.strip().rsplit("#", 1)[-1] for word in found if isinstance(word, str) and word.strip()]
    return [re.sub(r"[\s.-]+", "_", word).lower() for word in words]


_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "x-amzn-requestid", "cf-ray")
_NOT_RETRYABLE = frozenset({"quota", "request_too_large", "content_filter", "bad_request", "not_implemented"})
"""Reasons for which the same request fails again, regardless of the code."""
_NOT_FOUND_STATUSES = frozenset({404, 410})
_UNAMBIGUOUS_STATUSES = frozenset({402, 413, 429, 503, 529})
"""Statuses that have a single meaning, regardless of the text."""


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
    """Return the `ModelError` for an error response of a provider.

    Args:
        status: HTTP status; ``None`` or a 2xx for an error inside a response that was otherwise accepted.
        headers: Response headers.
        body: Response body: JSON, an event stream, HTML, or plain text.
        provider: Name of the provider, for the text.
        model: Model ID.
        host: Host that responded, for the text.
        secrets: Values to redact from the text.

    Returns:
        The subclass for the error code, with ``reason``, ``retryable``, ``retry_after``, and ``request_id``. The text is
        the message of the provider plus status, provider, host, and request ID; secrets are redacted.
    """
    lowered = {name.lower(): value for name, value in (headers or {}).items()}
    parsed = ErrorBody(body)
    real = status if status is not None and status >= 400 else parsed.status
    code, reason = _kind(real, parsed)
    request_id = next((lowered[name] for name in _ID_HEADERS if lowered.get(name)), None) or parsed.request_id
    shown = real or status
    error = MODEL_ERRORS[code](
        _error_message(parsed, shown, provider, host, request_id, secrets),
        code=code,
        reason=reason,
        retryable=False if reason in _NOT_RETRYABLE or lowered.get("x-should-retry", "").lower() == "false" else None,
        status=shown,
        provider=provider,
        model=model,
        request_id=request_id,
    )
    if error.retryable or code is ErrorCode.RATE_LIMITED:
        error.retry_after = extract_retry_after({**parsed.fields, **lowered}, parsed.text)
    return error


def classify_exception(error: BaseException, *, provider: str | None = None, model: str | None = None) -> ModelError:
    """Return the `ModelError` for an exception; a `ModelError` is returned unchanged.

    Args:
        error: Any exception, for example of an HTTP library, the operating system, or a vendor's SDK.
        provider: Name of the provider.
        model: Model ID.
    """
    if isinstance(error, ModelError):
        return error
    status, headers, body = _exception_parts(error)
    text = str(error) or type(error).__name__
    if status is not None:
        result = classify_error(status, headers, body or text, provider=provider, model=model)
    else:
        code, reason = _native_kind(error, text)
        result = MODEL_ERRORS[code](redact_environment(text), code=code, reason=reason, provider=provider, model=model)
    if result.retryable and result.retry_after is None:
        result.retry_after = extract_retry_after(error)
    result.__cause__ = error
    return result


def map_error_to_code(error: object) -> ErrorCode:
    """Return the error code, one of ten, for any object.

    Args:
        error: An exception, an error code, an error text or body, an HTTP status, or an object with such attributes (``message``,
            ``status``, ``code``, ``body``). Everything else is UNKNOWN.
    """
    if isinstance(error, BaseException):
        return classify_exception(error).code
    if isinstance(error, str) and error in ErrorCode.__members__:
        return ErrorCode(error)
    if isinstance(error, int):
        return classify_error(error, None, None).code
    if isinstance(error, str | bytes):
        return classify_error(None, None, error).code
    fields = as_dict(error)
    if fields is None:
        fields = {name: getattr(error, name, None) for name in ("message", "status", "code", "type", "error", "body")}
    return _code_of_fields(fields)


def _code_of_fields(fields: Mapping[str, Any]) -> ErrorCode:
    for name in ("code", "error"):
        if fields.get(name) in ErrorCode.__members__.values():
            return ErrorCode(fields[name])
    inner = fields.get("error")
    if isinstance(inner, BaseException):
        return classify_exception(inner).code
    try:
        return classify_error(None, None, fields).code
    except (TypeError, ValueError, RecursionError):  # The object is not JSON.
        message = fields.get("message")
        return classify_error(None, None, message if isinstance(message, str) else "").code


ErrorKind = Literal["context_exceeded", "provider_error", "aborted", "none"]
"""The kinds of errors that an agent handles differently; see `agent_error_kind`."""


def agent_error_kind(error: BaseException | None) -> ErrorKind:
    """Return the kind of an error by the way an agent handles it.

    Returns:
        ``context_exceeded``: compact the conversation. ``aborted``: stopped by the user. ``provider_error``: the model
        could not be used. ``none``: no error, or an error that is unrelated to a provider, for example a bug.
    """
    if error is None:
        return "none"
    if isinstance(error, CancelledError | KeyboardInterrupt | AgentAbortedError):
        return "aborted"
    found = classify_exception(error)
    if found.code is ErrorCode.CONTEXT_LENGTH_EXCEEDED:
        return "context_exceeded"
    native = found is not error and not found.reason and found.status is None
    return "none" if native and found.code is ErrorCode.UNKNOWN else "provider_error"


def _exception_parts(error: BaseException) -> tuple[int | None, dict[str, str], Any]:
    """Return status, headers, and body from the attributes that most libraries use."""
    response = getattr(error, "response", None)
    found = [getattr(holder, name, None) for holder in (error, response) for name in ("status_code", "status", "code")]
    status = next((s for s in found if isinstance(s, int) and 400 <= s <= 599), None)
    headers = as_dict(getattr(error, "headers", None)) or as_dict(getattr(response, "headers", None)) or {}
    body = getattr(error, "body", None)
    known = body if isinstance(body, str | bytes) else as_dict(body)
    return status, {str(k): v for k, v in headers.items() if isinstance(v, str)}, known


def _native_kind(error: BaseException, text: str) -> ErrorPattern:
    if isinstance(error, TypeError | AttributeError | NameError):
        return ErrorCode.UNKNOWN, ""  # A bug in the program, even if its text resembles a provider error.
    names = " ".join(kind.__name__.lower() for kind in type(error).__mro__)
    if isinstance(error, TimeoutError) or "timeout" in names:
        return ErrorCode.TIMEOUT, "timeout"
    connection = ("connect", "networkerror", "protocolerror", "disconnected")
    if isinstance(error, ConnectionError) or any(word in names for word in connection):
        return ErrorCode.NETWORK_ERROR, "connection"
    found = _by_text(text)
    if found[0] is ErrorCode.UNKNOWN and isinstance(error, OSError):
        return ErrorCode.NETWORK_ERROR, "connection"
    return found


def _error_message(
    body: ErrorBody,
    status: int | None,
    provider: str | None,
    host: str | None,
    id: str | None,
    secrets: tuple[str, ...],
) -> str:
    where = [f"HTTP {status}" if status else "", provider or "", host or "", f"request {id}" if id else ""]
    known = ", ".join([part for part in where if part])
    return redact_environment(body.message or "The provider sent no error message", *secrets) + (
        f" ({known})" if known else ""
    )


def _kind(status: int | None, body: ErrorBody) -> ErrorPattern:
    if status in _UNAMBIGUOUS_STATUSES:
        return _refine(STATUS_CODES[status], body)
    for code in body.codes:
        if code in ERROR_CODES:
            return _refine(ERROR_CODES[code], body)
    if status is not None:
        return _by_status(status, body)
    for code in body.codes:
        if code in GENERIC_CODES:
            kind = _refine(GENERIC_CODES[code], body)
            special = _by_request_text(body.text) if kind[1] in ("bad_request", "server_error") else None
            return special or kind
    return _by_text(body.text)


def _refine(kind: ErrorPattern, body: ErrorBody) -> ErrorPattern:
    """Return a more specific kind, based on codes and text."""
    code, reason = kind
    if reason == "not_found":
        return (ErrorCode.MODEL_NOT_FOUND if body.mentions_model else code), reason
    named = {ERROR_CODES[c][1] for c in body.codes if c in ERROR_CODES}
    if reason in ("unavailable", "server_error") and ("overloaded" in named or OVERLOADED_TEXT.search(body.text)):
        return ErrorCode.RATE_LIMITED, "overloaded"
    if reason == "rate_limit":
        if "quota" in named or ZERO_LIMIT_TEXT.search(body.text):
            return code, "quota"
        if QUOTA_TEXT.search(body.text) and "resource_exhausted" not in body.codes:
            return code, "quota"
        if TOO_LARGE_TEXT.search(body.text):
            return code, "request_too_large"
    return kind


def _by_status(status: int, body: ErrorBody) -> ErrorPattern:
    special = _by_request_text(body.text)
    if status >= 500:
        if special is not None and special[0] is ErrorCode.CONTEXT_LENGTH_EXCEEDED:
            return special
        return _refine(STATUS_CODES.get(status, (ErrorCode.NETWORK_ERROR, "server_error")), body)
    if status == 403 and special is not None and special[1] == "content_filter":
        return special
    if status in STATUS_CODES and (status not in _NOT_FOUND_STATUSES or special is None):
        return _refine(STATUS_CODES[status], body)
    return special or (ErrorCode.UNKNOWN, "bad_request")


def _by_request_text(text: str) -> ErrorPattern | None:
    """Return the kind of a rejected request by its text. The patterns are strict because any 400 response gets here."""
    if OVERFLOW_TEXT.search(text) and not RATE_TEXT.search(text):
        return ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"
    if CRASH_TEXT.search(text):
        return ErrorCode.NETWORK_ERROR, "server_error"
    if CONTENT_TEXT.search(text):
        return ErrorCode.UNKNOWN, "content_filter"
    if QUOTA_TEXT.search(text):
        return ErrorCode.RATE_LIMITED, "quota"
    if AUTH_TEXT.search(text):
        return ErrorCode.AUTHENTICATION_ERROR, "unauthorized"
    if NOT_FOUND_TEXT.search(text):
        return ErrorCode.MODEL_NOT_FOUND, "not_found"
    return None


def _by_text(text: str) -> ErrorPattern:
    """Return the kind by text alone, if both status and code are missing."""
    text = text.lower()
    if OVERFLOW_TEXT.search(text) and not RATE_TEXT.search(text):
        return ErrorCode.CONTEXT_LENGTH_EXCEEDED, "overflow"
    return next((kind for pattern, kind in FALLBACK_TEXT_PATTERNS if re.search(pattern, text)), (ErrorCode.UNKNOWN, ""))
