"""Whom to trust when a connection is encrypted."""

from __future__ import annotations

import os
import ssl
import sys
from functools import lru_cache

from mainspring.errors import ProviderConfigError


def tls_context() -> ssl.SSLContext:
    """Certificates of SSL_CERT_FILE or SSL_CERT_DIR if set, else of the system. Loaded once for each of these.

    Raises:
        ProviderConfigError: If there are none in SSL_CERT_FILE.
    """
    return _context(os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None)


@lru_cache(maxsize=4)
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
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
