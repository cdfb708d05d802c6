"""Convert failures of any HTTP library to Mainspring errors."""

from __future__ import annotations

import os
import ssl
from urllib.parse import urlsplit

from mainspring.errors import ModelError, ModelTimeoutError, NetworkError, ProviderConfigError
from mainspring.models.transport.port import Timeouts

_CERTIFICATE_HINT = "its certificate was not accepted; with a proxy that inspects TLS, set SSL_CERT_FILE to the file with its certificates"
_TLS_HINT = "the TLS handshake failed; check that the server uses HTTPS on this port"


def host_and_port(url: str) -> str:
    """Return host and port of a URL, for error texts."""
    return urlsplit(url).netloc.rpartition("@")[2]


def connect_error(url: str, error: BaseException) -> ModelError:
    """Return the error of a failed connection attempt."""
    host = host_and_port(url)
    if (failed := _ssl_error(error)) is not None:
        detail = _ssl_error_text(failed)
        what = (
            f"{_CERTIFICATE_HINT} ({detail})"
            if isinstance(failed, ssl.SSLCertVerificationError)
            else f"{_TLS_HINT} ({detail})"
        )
        return NetworkError(f"Cannot connect to {host}: {what}", reason="tls", retryable=False)
    if "certificate" in str(error).lower():
        return NetworkError(
            f"Cannot connect to {host}: {_CERTIFICATE_HINT} ({_error_text(error)})", reason="tls", retryable=False
        )
    return NetworkError(f"Cannot connect to {host}: {_error_text(error)}", reason="connect")


def proxy_refusal(url: str, status: int, text: str) -> ModelError:
    """Return the error of a proxy that does not open a connection to the host of a URL.

    Args:
        url: Address of the request.
        status: HTTP status of the proxy's response.
        text: Its reason phrase.
    """
    advice = f". {format_proxy_advice(url)}" if status == 407 else ""
    return NetworkError(
        f"The proxy does not connect to {host_and_port(url)}: {text or f'HTTP {status}'}{advice}",
        reason="proxy",
        retryable=status >= 500,
        status=status,
    )


def format_proxy_advice(url: str) -> str:
    """Return what to do if a proxy requires credentials."""
    parts = urlsplit(url)
    return (
        f"A proxy between this computer and {parts.hostname} requires a user name and a password: set {parts.scheme.upper()}_PROXY to "
        f"http://USER:PASSWORD@PROXY:PORT, or add {parts.hostname} to NO_PROXY. Then run `mainspring check`."
    )


def connection_lost_error(url: str, error: BaseException, *, response_started: bool) -> ModelError:
    """Return the error of a lost connection; ``response_started`` is true if a response had started."""
    when = "before the response was complete" if response_started else "before it responded"
    failed = _ssl_error(error)
    system = _system_error(error) if failed is None else _ssl_error_text(failed)
    return NetworkError(
        f"{host_and_port(url)} closed the connection {when}{f': {system}' if system else ''}",
        reason="stream_cut" if response_started else "connection_lost",
    )


def timeout_error(url: str, which: str, timeouts: Timeouts) -> ModelError:
    """Return the error of an exceeded time limit: ``connect``, ``first_byte``, ``idle``, or ``total``."""
    seconds = getattr(timeouts, which)
    what = {
        "connect": "did not accept a connection",
        "first_byte": "did not start to respond",
        "idle": "sent no more data",
        "total": "did not finish",
    }[which]
    limit = f" within {seconds:g}s" if seconds else ""
    return ModelTimeoutError(f"{host_and_port(url)} {what}{limit} (limit: {which})", reason=f"{which}_timeout")


def check_url(url: str) -> None:
    """Reject an invalid URL.

    Raises:
        ProviderConfigError: The URL is not an http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port, url.encode()
    except ValueError as error:
        raise invalid_url_error(url, error) from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid_url_error(url, ValueError("it must start with http:// or https:// and contain a host"))


def invalid_url_error(url: str, error: BaseException) -> ModelError:
    """Return the error of an invalid URL."""
    if "@" in url:  # The part before @ may be a password, and the text of the library may quote it.
        shown = f"...@{_without_query(url.rpartition('@')[2])}"
        return ProviderConfigError(f"Invalid base URL: {shown!r}", reason="bad_url")
    return ProviderConfigError(f"Invalid base URL {_without_query(url)!r}: {_error_text(error)}", reason="bad_url")


def _without_query(url: str) -> str:
    """Return the URL without its query, which contains a key for some hosts."""
    request = url.partition("#")[0].partition("?")
    return f"{request[0]}?..." if request[2] else request[0]


def _error_text(error: BaseException) -> str:
    """Return the text of the operating system's error, or else the library's, without the details that libraries add."""
    if isinstance(error, ConnectionError) and not error.args:
        return "it closed the connection"
    return _system_error(error) or str(error) or type(error).__name__


def _system_error(error: BaseException) -> str:
    """Return the text of the innermost error of the operating system, for example ``Connection refused``."""
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
    """Return the innermost TLS error; a library may wrap it in another TLS error without a text."""
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
    """Return the text of a TLS error, whose number is not one of the system's."""
    words: str | None = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    return words.replace("_", " ").lower() if words and words.isupper() else words or str(error) or type(error).__name__
