"""Transport based on httpx2, for proxies."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2

from mainspring.errors import ModelError
from mainspring.models.transport.environment import proxy_for, tls_context
from mainspring.models.transport.errors import (
    check_url,
    connect_error,
    connection_lost_error,
    invalid_url_error,
    proxy_refusal,
    timeout_error,
)
from mainspring.models.transport.loop_local import LoopLocal
from mainspring.models.transport.port import Timeouts, TransportResponse, sanitize_headers

_KEEP_ALIVE = 15.0
"""Seconds after which an idle connection is closed; short, because a stale connection seems alive until it is written to."""

_MAX_REQUESTS_PER_CLIENT = 16
"""A client checks all its connections for each request, so the time for many concurrent requests would be quadratic."""


class HttpxResponse:
    """See `TransportResponse`."""

    __slots__ = ("_chunks", "_pieces", "_response", "headers", "status")

    def __init__(self, response: httpx2.Response, url: str, timeouts: Timeouts) -> None:
        self._response = response
        self._pieces = _iter_body(response)
        self._chunks = _chunks(self._pieces, url, timeouts)
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers  # already in lower case

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return self._chunks

    async def aclose(self) -> None:
        """Release the response; if the body was not read to its end, the connection is closed."""
        await self._chunks.aclose()
        await self._pieces.aclose()
        await self._response.aclose()


def _iter_body(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the body; an uncompressed body directly from the stream, because each layer costs time per chunk."""
    stream = response.stream
    if (
        isinstance(stream, httpx2.AsyncByteStream)
        and response.headers.get("content-encoding", "identity") == "identity"
    ):
        pieces = aiter(stream)
        if isinstance(pieces, AsyncGenerator):
            return cast("AsyncGenerator[bytes]", pieces)
    return response.aiter_bytes()


async def _chunks(pieces: AsyncGenerator[bytes], url: str, timeouts: Timeouts) -> AsyncGenerator[bytes]:
    try:
        async for piece in pieces:
            yield piece
    except httpx2.TimeoutException as error:
        raise timeout_error(url, "idle", timeouts) from error
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        raise connection_lost_error(url, error, response_started=True) from error


class _ClientPool:
    """Clients with the same options. A client is added when all others are busy, and closed when it was idle for a while."""

    def __init__(self, scheme: str, proxy: str | None) -> None:
        self._scheme = scheme
        self._proxy = proxy
        self._active: dict[httpx2.AsyncClient, int] = {}  # number of requests
        self._used_until: dict[httpx2.AsyncClient, float] = {}

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[httpx2.AsyncClient]:
        """Return the first client that is not busy."""
        active = self._active
        client = next((c for c, count in active.items() if count < _MAX_REQUESTS_PER_CLIENT), None) or self._make()
        active[client] = active.get(client, 0) + 1
        try:
            yield client
        finally:
            active[client] -= 1
            now = asyncio.get_running_loop().time()
            self._used_until[client] = now + _KEEP_ALIVE
            expired = next((c for c, count in active.items() if not count and self._used_until[c] < now), None)
            if expired is not None:
                del active[expired], self._used_until[expired]
                await expired.aclose()

    def _make(self) -> httpx2.AsyncClient:
        # Plain http does not need the system's certificates, which are most of the startup cost of a client.
        encrypted = self._scheme == "https" or self._proxy
        return httpx2.AsyncClient(
            verify=tls_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            proxy=self._proxy,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEEP_ALIVE),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        for client in list(self._active):
            await client.aclose()


class HttpxTransport:
    """See `Transport`."""

    def __init__(self) -> None:
        self._pools: LoopLocal[_ClientPool] = LoopLocal(_make_pool, lambda pool: pool.aclose())
        self._last_used: dict[
            str, float
        ] = {}  # Time of the last response of each host: only after one can a pooled connection be stale.

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Send a request."""
        check_url(url)
        pool = await self._pools.get((url.partition(":")[0], proxy_for(url)))
        limits = {
            "connect": timeouts.connect,
            "read": timeouts.first_byte,
            "write": timeouts.first_byte,
            "pool": timeouts.connect,
        }
        total = asyncio.timeout(timeouts.total)
        try:
            async with total, pool.acquire() as client:
                response = await self._send(client, method, url, (sanitize_headers(headers), body, limits), timeouts)
                limits["read"] = timeouts.idle
                async with aclosing(HttpxResponse(response, url, timeouts)) as answer:
                    yield answer
        except TimeoutError as error:
            if total.expired():
                raise timeout_error(url, "total", timeouts) from error
            raise

    async def _send(
        self,
        client: httpx2.AsyncClient,
        method: str,
        url: str,
        parts: tuple[dict[str, str], bytes, dict[str, Any]],
        timeouts: Timeouts,
    ) -> httpx2.Response:
        headers, body, limits = parts
        host = urlsplit(url).netloc
        loop = asyncio.get_running_loop()

        def request() -> httpx2.Request:
            return client.build_request(
                method, url, headers=headers, content=body or None, extensions={"timeout": limits}
            )

        try:
            try:
                response = await client.send(request(), stream=True)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if loop.time() - self._last_used.pop(host, -_KEEP_ALIVE) >= _KEEP_ALIVE:
                    raise
                response = await client.send(request(), stream=True)  # The pooled connection was stale.
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _map_error(url, error, timeouts) from error
        self._last_used[host] = loop.time()
        return response

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._pools.aclose()


def _make_pool(key: Hashable) -> _ClientPool:
    assert isinstance(key, tuple)
    return _ClientPool(*key)  # pyright: ignore[reportUnknownArgumentType]


def _map_error(url: str, error: BaseException, timeouts: Timeouts) -> ModelError:
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            return timeout_error(url, "connect", timeouts)
        case httpx2.TimeoutException():
            return timeout_error(url, "first_byte", timeouts)
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return invalid_url_error(url, error)
        case httpx2.ProxyError() if str(error)[:3].isdigit():
            return proxy_refusal(url, int(str(error)[:3]), str(error))
        case httpx2.ConnectError() | httpx2.ProxyError():
            return connect_error(url, error)
        case _:
            return connection_lost_error(url, error, response_started=False)
