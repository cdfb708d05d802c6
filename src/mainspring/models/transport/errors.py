"""Failures of any HTTP library as our own errors."""

from __future__ import annotations

import os
import ssl
from urllib.parse import urlsplit

from mainspring.errors import ModelError, ModelTimeoutError, NetworkError, ProviderConfigError
from mainspring.models.transport.port import Timeouts

_CERTIFICATE_HINT = "its certificate was not accepted; behind a proxy that inspects TLS, set SSL_CERT_FILE to the file with its certificates"
_TLS_HINT = "no encrypted connection came about; is it https that the host speaks at this port?"


def host_and_port(url: str) -> str:
    """Host and port of a URL, for messages."""
    return urlsplit(url).netloc.rpartition("@")[2]


def connect_error(url: str, error: BaseException) -> ModelError:
    """No connection came about."""
    host = host_and_port(url)
    if (failed := _ssl_error(error)) is not None:
        said = _ssl_error_text(failed)
        what = (
            f"{_CERTIFICATE_HINT} ({said})"
            if isinstance(failed, ssl.SSLCertVerificationError)
            else f"{_TLS_HINT} ({said})"
        )
        return NetworkError(f"Cannot connect to {host}: {what}", reason="tls", retryable=False)
    if "certificate" in str(error).lower():
        return NetworkError(
            f"Cannot connect to {host}: {_CERTIFICATE_HINT} ({_error_text(error)})", reason="tls", retryable=False
        )
    return NetworkError(f"Cannot connect to {host}: {_error_text(error)}", reason="connect")


def connection_lost_error(url: str, error: BaseException, *, response_started: bool) -> ModelError:
    """The connection broke; ``response_started`` says whether an answer had begun."""
    when = "before the answer was complete" if response_started else "before it answered"
    failed = _ssl_error(error)
    system = _system_error(error) if failed is None else _ssl_error_text(failed)
    return NetworkError(
        f"{host_and_port(url)} closed the connection {when}{f': {system}' if system else ''}",
        reason="stream_cut" if response_started else "connection_lost",
    )


def timeout_error(url: str, which: str, timeouts: Timeouts) -> ModelError:
    """A limit was reached: ``connect``, ``first_byte``, ``idle`` or ``total``."""
    seconds = getattr(timeouts, which)
    what = {
        "connect": "did not accept a connection",
        "first_byte": "did not begin to answer",
        "idle": "sent nothing more",
        "total": "was not done",
    }[which]
    limit = f" within {seconds:g} s" if seconds else ""
    return ModelTimeoutError(f"{host_and_port(url)} {what}{limit} (limit: {which})", reason=f"{which}_timeout")


def check_url(url: str) -> None:
    """Refuse what no request can be sent to.

    Raises:
        ProviderConfigError: If it is no http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port, url.encode()
    except ValueError as error:
        raise invalid_url_error(url, error) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_url_error(url, ValueError("it must begin with http:// or https:// and name a host"))


def invalid_url_error(url: str, error: BaseException) -> ModelError:
    """The URL itself is wrong."""
    if "@" in url:  # what stands before it may be a password, and what the library says may quote that
        shown = f"...@{_without_query(url.rpartition('@')[2])}"
        return ProviderConfigError(f"The base URL {shown!r} is not valid", reason="bad_url")
    return ProviderConfigError(
        f"The base URL {_without_query(url)!r} is not valid: {_error_text(error)}", reason="bad_url"
    )


def _without_query(url: str) -> str:
    """Without what is asked, where some hosts want a key."""
    request = url.partition("#")[0].partition("?")
    return f"{request[0]}?..." if request[2] else request[0]


def _error_text(error: BaseException) -> str:
    """What the system said, else what the library said; a library wraps it in details of its own."""
    if isinstance(error, ConnectionError) and not error.args:
        return "it closed the connection"
    return _system_error(error) or str(error) or type(error).__name__


def _system_error(error: BaseException) -> str:
    """The text of the innermost error of the operating system, as in ``Connection refused``."""
    found = ""
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            break
        if isinstance(seen, OSError) and isinstance(seen.errno, int) and not isinstance(seen, ssl.SSLError):
            found = os.strerror(seen.errno) if seen.errno > 0 else seen.strerror or found
        seen = getattr(seen, "os_error", None) or seen.__cause__ or seen.__context__
    return found


def _ssl_error(error: BaseException) -> ssl.SSLError | None:
    """The innermost error of the encryption; what a library wraps around it may be one too, without its words."""
    found: ssl.SSLError | None = None
    seen: BaseException | None = error
    for _ in range(5):
        if seen is None:
            break
        if isinstance(seen, ssl.SSLError):
            found = seen
        seen = seen.__cause__ or seen.__context__
    return found


def _ssl_error_text(error: ssl.SSLError) -> str:
    """Its numbers are none of the system's, so it is put in its own words."""
    words: str | None = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    return words.replace("_", " ").lower() if words and words.isupper() else words or str(error) or type(error).__name__
