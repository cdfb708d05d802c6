"""Which proxy a request goes through, from the environment as other programs read it.

Whom to trust when a connection is encrypted.
"""

from __future__ import annotations

import os
import ssl
import sys
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from mainspring.errors import NetworkError, ProviderConfigError


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_for(url: str) -> str | None:
    """The proxy for ``url`` by HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY; this machine is asked directly.

    Raises:
        NetworkError: If the only proxy is a SOCKS proxy, which is not supported.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or not _has_proxy_settings():
        return None
    from urllib.request import getproxies, proxy_bypass  # 6 ms: only where there may be one

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
        f"The proxy of the environment is a {scheme} proxy, which is not supported: "
        f"set {parts.scheme.upper()}_PROXY to an HTTP proxy, or name {host} in NO_PROXY",
        reason="proxy",
        retryable=False,
    )


def _has_proxy_settings() -> bool:
    """Whether there may be a proxy at all. Elsewhere than here it may also stand in the settings of the system."""
    return sys.platform in ("darwin", "win32") or any(name.lower().endswith("_proxy") for name in os.environ)


def tls_context() -> ssl.SSLContext:
    """Certificates of SSL_CERT_FILE or SSL_CERT_DIR if set, else of the system. Loaded once for each of these.

    Raises:
        ProviderConfigError: If there are none in SSL_CERT_FILE.
    """
    return _load_context(os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None)


@lru_cache(maxsize=4)
def _load_context(file: str | None, folder: str | None) -> ssl.SSLContext:
    if file is None and folder is None and sys.platform in ("darwin", "win32"):
        import httpx2  # asks the system's own store, which the standard library does not

        context = httpx2.create_ssl_context()
    else:
        try:
            context = ssl.create_default_context(cafile=file, capath=folder)
        except OSError as error:  # also what the ssl module says of a file without certificates
            said = error.reason if isinstance(error, ssl.SSLError) else error.strerror
            raise ProviderConfigError(
                f"SSL_CERT_FILE names {file!r}, from which no certificates can be read ({said}): correct it or unset it",
                reason="tls",
            ) from error
    context.set_alpn_protocols(["http/1.1"])  # a host that speaks only another version says so, and sends nothing else
    return context
