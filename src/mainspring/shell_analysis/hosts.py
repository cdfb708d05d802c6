"""The host of a URL, as the network will see it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from mainspring.lazy import lazy_re

_URL = lazy_re(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>|]+")
_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> str | None:
    """Host and port of a URL, in lower case and ASCII; the port is left out where it is the scheme's own.

    ``None`` if there is no host, or no telling which.
    """
    text = url if "://" in url else f"//{url}"
    if "\\" in text or any(c <= " " for c in text):
        return None
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError:
        return None
    host = (split.hostname or "").rstrip(".")
    if not host or "%" in host:
        return None
    try:
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    if ":" in host:
        host = f"[{host}]"
    return host if port is None or _PORTS.get(split.scheme) == port else f"{host}:{port}"


def as_ascii(name: str) -> str:
    """A host's name in a rule as URLs have it: in lower case, other letters than ASCII written as punycode."""
    name = name.casefold()
    try:
        return name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return name


def hosts_in(text: str) -> Iterator[str]:
    """The hosts of all URLs in a text."""
    for match in _URL.finditer(text):
        host = host_of(match[0])
        if host is not None:
            yield host
