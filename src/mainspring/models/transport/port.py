"""HTTP as the model layer sees it: one method.

Above: `HttpModel`, and everything else that asks a host something. Below: a transport of our own; through proxies aiohttp where it is
installed (extra ``fast``), else httpx2; `MemoryTransport` in tests. Every error leaves as `NetworkError` or `ModelTimeoutError`.
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
    """Limits in seconds; ``None`` waits for ever.

    Attributes:
        connect: Until the connection stands.
        first_byte: From there until the answer begins.
        idle: Between two pieces of the answer; every byte counts, also a comment that only keeps the connection alive.
        total: For everything together.
    """

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    idle: float | None = 300.0
    total: float | None = None


class TransportResponse(Protocol):
    """An answer whose body has not been read yet."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names in lower case."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Used once.

        Raises:
            NetworkError: If the connection breaks.
            ModelTimeoutError: If nothing arrives in time.
        """
        ...


class Transport(Protocol):
    """Sends requests. Safe to share, also between event loops: connections belong to the loop that made them."""

    def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[TransportResponse]:
        """Send a request. Redirects are not followed: a key goes only where it was meant to go.

        Leaving the context before the body was read to its end closes the connection.

        Raises:
            NetworkError: If the host cannot be reached.
            ModelTimeoutError: If it does not answer in time.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the running loop. It may be used again afterwards."""
        ...


def sanitize_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that every server and library takes: printable ASCII, nothing around it, no line breaks.

    Without those that say where a request ends: who sends it says that.

    Raises:
        ProviderConfigError: If a name can be none.
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
        if char not in _HEADER_NAME_CHARS:  # the name is not told: it may be a key that was put in the wrong place
            raise ProviderConfigError(
                f"No request can be made: a header has a name with {char!r} in it; names are letters, digits and dashes. "
                "Correct the headers of the provider in the settings",
                reason="bad_header",
            )
    return name


def _sanitize_value(value: str) -> str:
    value = value.strip()
    return value if value.isascii() and value.isprintable() else "".join([c for c in value if " " <= c <= "~"]).strip()
