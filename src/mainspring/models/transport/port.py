"""HTTP interface of the model layer, with a single method.

Used by `HttpModel` and all other code that calls a host. Implemented by Mainspring's own transport; for proxies by httpx2; in
tests by `MemoryTransport`. Every error is a `NetworkError` or `ModelTimeoutError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from mainspring.errors import ProviderConfigError

_HEADER_NAME_CHARS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Timeouts(Struct, frozen=True):
    """Time limits in seconds; ``None`` waits forever.

    Attributes:
        connect: Limit for the connection.
        first_byte: Limit from the connection to the start of the response.
        idle: Limit between two chunks of the response; any byte resets it, also a keep-alive comment.
        total: Limit for the whole request.
    """

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    idle: float | None = 300.0
    total: float | None = None


class TransportResponse(Protocol):
    """A response whose body has not been read yet."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers with names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Used once.

        Raises:
            NetworkError: The connection was lost.
            ModelTimeoutError: The body timed out.
        """
        ...


class Transport(Protocol):
    """Sends requests. Safe to share, also between event loops: connections belong to the loop that created them."""

    def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[TransportResponse]:
        """Send a request. Redirects are not followed, so that a key is not sent to another host.

        Leaving the context before the end of the body closes the connection.

        Raises:
            NetworkError: The host is unreachable.
            ModelTimeoutError: The host did not respond in time.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop. The transport can be used again afterward."""
        ...


def sanitize_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers that every server and library accepts: printable ASCII, stripped, without line breaks.

    Headers about the length of a request are removed: the transport sets them.

    Raises:
        ProviderConfigError: A name is invalid.
    """
    return {
        name: _sanitize_value(value)
        for given, value in headers.items()
        if (name := _check_header_name(given)) and name.lower() not in ("content-length", "transfer-encoding")
    }


@lru_cache(maxsize=256)
def _check_header_name(text: str) -> str:
    name = text.strip()
    for char in name:
        if char not in _HEADER_NAME_CHARS:  # The error omits the name: it may be a key that was put in the wrong place.
            raise ProviderConfigError(
                f"A header name contains {char!r}. Names consist of letters, digits, and dashes. "
                "Correct the headers of the provider in the settings.",
                reason="bad_header",
            )
    return name


def _sanitize_value(value: str) -> str:
    value = value.strip()
    return value if value.isascii() and value.isprintable() else "".join([c for c in value if " " <= c <= "~"]).strip()
