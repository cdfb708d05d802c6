"""The default transport of models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache

from mainspring.models.transport.environment import proxy_for
from mainspring.models.transport.errors import check_url
from mainspring.models.transport.port import Timeouts, Transport, TransportResponse


class DefaultTransport:
    """See `Transport`. Connects directly; with a proxy of the environment, uses httpx2, which supports proxies."""

    def __init__(self) -> None:
        from mainspring.models.transport.http1.client import Http1Transport as DirectTransport

        self._direct = DirectTransport()
        self._proxied: Transport | None = None

    def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[TransportResponse]:
        """Send a request."""
        check_url(url)
        chosen = self._get_proxy_transport() if proxy_for(url) else self._direct
        return chosen.open(method, url, headers, body, timeouts)

    def _get_proxy_transport(self) -> Transport:
        if self._proxied is None:
            from mainspring.models.transport.httpx_transport import HttpxTransport

            self._proxied = HttpxTransport()
        return self._proxied

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._direct.aclose()
        if self._proxied is not None:
            await self._proxied.aclose()


@lru_cache(maxsize=1)
def default_transport() -> Transport:
    """Return the transport of the process, which shares connections, not keys. It closes with each event loop."""
    return DefaultTransport()
