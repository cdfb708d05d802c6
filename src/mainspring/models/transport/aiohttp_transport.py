"""Transport based on aiohttp: a C parser and a connection pool that is fast with many connections. Preferred with a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from mainspring.errors import ModelError
from mainspring.models.transport.environment import proxy_for, tls_context
from mainspring.models.transport.errors import (
    check_url,
    connect_error,
    connection_lost_error,
    invalid_url_error,
    timeout_error,
)
from mainspring.models.transport.loop_local import LoopLocal
from mainspring.models.transport.port import Timeouts, TransportResponse, sanitize_headers

_KEEP_ALIVE = 15.0
"""Seconds after which an idle connection is closed; short, because a stale connection seems alive until it is written to."""


class AiohttpResponse:
    """See `TransportResponse`."""

    __slots__ = (
        "_content",
        "_idle_since",
        "_idle_timer",
        "_seen",
        "_timeouts",
        "_url",
        "_waiting",
        "headers",
        "status",
    )

    def __init__(self, response: aiohttp.ClientResponse, url: str, timeouts: Timeouts) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {k.lower(): v for k, v in response.headers.items()}
        self._content = response.content
        self._url = url
        self._timeouts = timeouts
        self._waiting = False
        self._seen = 0
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self._waiting = True
        try:
            data = await self._content.readany()
        except aiohttp.SocketTimeoutError as error:
            raise timeout_error(self._url, "idle", self._timeouts) from error
        except TimeoutError as error:
            raise timeout_error(self._url, "total", self._timeouts) from error
        except (aiohttp.ClientError, OSError) as error:
            raise connection_lost_error(self._url, error, response_started=True) from error
        self._waiting = False
        if not data:
            raise StopAsyncIteration
        return data

    def start_idle_timer(self, loop: asyncio.AbstractEventLoop, limit: float) -> None:
        """Abort the body if a read has waited ``limit`` seconds without data.

        The number of received bytes is checked periodically: a timer that is reset with every byte would cost more than the read.
        """
        now = loop.time()
        if not self._waiting or self._content.total_bytes != self._seen or not self._idle_since:
            self._seen = self._content.total_bytes
            self._idle_since = now
        elif now - self._idle_since >= limit:
            self._content.set_exception(aiohttp.SocketTimeoutError("idle"))
            return
        self._idle_timer = loop.call_later(limit / 8, self.start_idle_timer, loop, limit)

    def stop_idle_timer(self) -> None:
        """Stop the idle timer."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()


class AiohttpTransport:
    """See `Transport`."""

    def __init__(self) -> None:
        self._sessions: LoopLocal[aiohttp.ClientSession] = LoopLocal(_create_session, lambda session: session.close())
        self._last_used: dict[
            str, float
        ] = {}  # Time of the last response of each host: only after one can a pooled connection be stale.

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Send a request."""
        check_url(url)
        session = await self._sessions.get(None)
        limits = aiohttp.ClientTimeout(
            total=timeouts.total, sock_connect=timeouts.connect, sock_read=timeouts.first_byte, ceil_threshold=3600
        )
        options: dict[str, Any] = {
            "data": body or None,
            "headers": sanitize_headers(headers),
            "timeout": limits,
            "proxy": proxy_for(url),
            "allow_redirects": False,
        }
        if url.startswith("https:"):
            options["ssl"] = tls_context()
        response = await self._send(session, method, url, options, timeouts)
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = (
                None  # The first byte has arrived; from now on `watch` checks the idle limit.
            )
            connection.protocol.start_timeout()
        answer = AiohttpResponse(response, url, timeouts)
        if timeouts.idle is not None and not response.content.is_eof():
            answer.start_idle_timer(asyncio.get_running_loop(), timeouts.idle)
        try:
            yield answer
        finally:
            answer.stop_idle_timer()
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
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
                # The last attempt: the server has just closed the connection and the pool does not know it yet.
                if loop.time() - self._last_used.pop(host, -_KEEP_ALIVE) >= _KEEP_ALIVE:
                    raise
                response = await session.request(method, url, **options)  # The pooled connection was stale.
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _map_error(url, error, timeouts) from error
        self._last_used[host] = loop.time()
        return response

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._sessions.aclose()


def _create_session(_: Hashable) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=True,
        trust_env=False,
        skip_auto_headers=("User-Agent",),
    )


def _map_error(url: str, error: BaseException, timeouts: Timeouts) -> ModelError:
    match error:
        case aiohttp.ConnectionTimeoutError():
            return timeout_error(url, "connect", timeouts)
        case aiohttp.SocketTimeoutError():
            return timeout_error(url, "first_byte", timeouts)
        case TimeoutError():
            return timeout_error(url, "total", timeouts)
        case aiohttp.ClientConnectorError():
            return connect_error(url, error)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError() | ValueError():
            return invalid_url_error(url, error)
        case (
            aiohttp.ServerDisconnectedError()
            | aiohttp.ClientOSError()
            | aiohttp.ClientPayloadError()
            | aiohttp.ClientResponseError()
            | ConnectionResetError()
            | BrokenPipeError()
        ):
            return connection_lost_error(url, error, response_started=False)
        case _:
            return connect_error(url, error)
