"""Proxies and TLS certificates from the environment."""

from __future__ import annotations

import os
import ssl
import sys
from functools import lru_cache

from mainspring.errors import NetworkError, ProviderConfigError


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return True if the host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_for(url: str) -> str | None:
    """Return the proxy for ``url`` from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, and NO_PROXY; ``None`` for this machine.

    Raises:
        NetworkError: The only proxy is a SOCKS proxy, which is not supported.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or not _has_proxy_settings():
        return None
    from urllib.request import getproxies, proxy_bypass  # takes 6ms: only if a proxy is possible

    proxies = getproxies()
    found = [p for p in (proxies.get(parts.scheme), proxies.get("all")) if p]
    if not found or proxy_bypass(host):
        return None
    for proxy in found:
        if "://" not in proxy:
            return f"http://{proxy}"
        if proxy.startswith(("http://", "https://")):
            return proxy
    scheme = urlsplit(found[0]).scheme
    raise NetworkError(
        f"The environment configures a {scheme} proxy, which is not supported. "
        f"Set {parts.scheme.upper()}_PROXY to an HTTP proxy, or add {host} to NO_PROXY.",
        reason="proxy",
        retryable=False,
    )


def _has_proxy_settings() -> bool:
    """Return True if a proxy may be configured. On macOS and Windows it may also be a system setting."""
    return sys.platform in ("darwin", "win32") or any(name.lower().endswith("_proxy") for name in os.environ)


def tls_context() -> ssl.SSLContext:
    """Return the TLS context with the certificates of SSL_CERT_FILE or SSL_CERT_DIR, or else of the system. Cached per value.

    Raises:
        ProviderConfigError: SSL_CERT_FILE contains no certificates.
    """
    return _load_context(os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None)


@lru_cache(maxsize=4)
def _load_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    if file is None and folder is None and sys.platform in ("darwin", "win32"):
        import httpx2  # Uses the system's own store, which the standard library does not.

        context = httpx2.create_ssl_context()
    else:
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
        except OSError as error:  # The ssl module also raises this for a file without certificates.
            detail = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise ProviderConfigError(
                f"Cannot read certificates from SSL_CERT_FILE={file!r} ({detail}). Correct or unset it.",
                reason="tls",
            ) from error
    context.set_alpn_protocols(
        ["http/1.1"]
    )  # A host that only supports another version fails the handshake before any data is sent.
    return context
