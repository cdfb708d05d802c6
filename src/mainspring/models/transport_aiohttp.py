"""The transport on aiohttp: a C parser and a pool that stays fast with many connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from mainspring.errors import ModelError
from mainspring.models.per_loop import PerLoop
from mainspring.models.proxies import proxy_for
from mainspring.models.transport import Timeouts, TransportResponse, safe_headers
from mainspring.models.transport_errors import connect_error, lost_error, timeout_error, url_error

KEEP_ALIVE = 15.0
"""Seconds an idle connection is kept; short, because a stale one looks alive until it is written to."""


class AiohttpResponse:
    """See `TransportResponse`."""

    __slots__ = ("_response", "_timeouts", "_url", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, url: str, timeouts: Timeouts) -> None:
        self._response = response
        self._url = url
        self._timeouts = timeouts
        self.status = response.status
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._response.content.readany()
        except aiohttp.SocketTimeoutError as error:
            raise timeout_error(self._url, "idle", self._timeouts) from error
        except TimeoutError as error:
            raise timeout_error(self._url, "total", self._timeouts) from error
        except (aiohttp.ClientError, OSError) as error:
            raise lost_error(self._url, error, begun=True) from error
        if not data:
            raise StopAsyncIteration
        return data


class AiohttpTransport:
    """See `Transport`."""

    def __init__(self) -> None:
        self._sessions: PerLoop[aiohttp.ClientSession] = PerLoop(_make, lambda session: session.close())
        self._used: dict[str, float] = {}  # when each host last answered: only then can a pooled connection be stale

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Send a request."""
        session = await self._sessions.get(None)
        limits = aiohttp.ClientTimeout(
            total=timeouts.total, sock_connect=timeouts.connect, sock_read=timeouts.first_byte, ceil_threshold=3600
        )
        options: dict[str, Any] = {
            "data": body or None,
            "headers": safe_headers(headers),
            "timeout": limits,
            "proxy": proxy_for(url),
            "allow_redirects": False,
        }
        response = await self._send(session, method, url, options, timeouts)
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = timeouts.idle
        try:
            yield AiohttpResponse(response, url, timeouts)
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()

    async def _send(
        self, session: aiohttp.ClientSession, method: str, url: str, options: dict[str, Any], timeouts: Timeouts
    ) -> aiohttp.ClientResponse:
        host = urlsplit(url).netloc
        loop = asyncio.get_running_loop()
        try:
            try:
                response = await session.request(method, url, **options)
            except (aiohttp.ServerDisconnectedError, ConnectionError):
                if loop.time() - self._used.pop(host, -KEEP_ALIVE) >= KEEP_ALIVE:
                    raise
                response = await session.request(method, url, **options)  # The pooled connection was stale.
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _mapped(url, error, timeouts) from error
        self._used[host] = loop.time()
        return response

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._sessions.aclose()


def _make(_: Hashable) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=True,
        trust_env=False,
        skip_auto_headers=("User-Agent",),
    )


def _mapped(url: str, error: BaseException, timeouts: Timeouts) -> ModelError:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return timeout_error(url, "connect", timeouts)
        case aiohttp.SocketTimeoutError():
            return timeout_error(url, "first_byte", timeouts)
        case TimeoutError():
            return timeout_error(url, "total", timeouts)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | ValueError():
            return url_error(url, error)
        case (
            aiohttp.ServerDisconnectedError()
            | aiohttp.ClientPayloadError()
            | ConnectionResetError()
            | BrokenPipeError()
        ):
            return lost_error(url, error, begun=False)
        case _:
            return connect_error(url, error)
