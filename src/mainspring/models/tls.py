"""Whom to trust when a connection is encrypted."""

from __future__ import annotations

import os
import ssl
import sys
from functools import lru_cache


def tls_context() -> ssl.SSLContext:
    """Certificates of SSL_CERT_FILE or SSL_CERT_DIR if set, else of the system. Loaded once for each of these."""
    return _context(os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None)


@lru_cache(maxsize=4)
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    if file is None and folder is None and sys.platform in ("darwin", "win32"):
        import httpx2  # asks the system's own store, which the standard library does not

        return httpx2.create_ssl_context()
    return ssl.create_default_context(cafile=file, capath=folder)
