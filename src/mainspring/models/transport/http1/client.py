"""The transport that needs nothing but h11: what most requests go through, for it is there soonest and costs least.

It speaks HTTP/1.1 to the host itself. It knows no proxies.
"""

from __future__ import annotations

import asyncio
import math
import select
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

import h11

from mainspring.errors import NetworkError, ProviderConfigError
from mainspring.lazy import lazy_function
from mainspring.models.transport.errors import (
    check_url,
    connect_error,
    connection_lost_error,
    host_and_port,
    invalid_url_error,
    timeout_error,
)
from mainspring.models.transport.http1.body import (
    BodyFraming,
    BodyFramingError,
    ChunkedBody,
    CloseDelimitedBody,
    ContentLengthBody,
)
from mainspring.models.transport.http1.connect import open_connection
from mainspring.models.transport.loop_local import LoopLocal
from mainspring.models.transport.port import Timeouts, TransportResponse, sanitize_headers

if TYPE_CHECKING:
    from mainspring.models.transport.environment import tls_context
    from mainspring.models.transport.http1.body import decompress
else:  # a host on this machine needs none, and few pack what they send
    tls_context = lazy_function("mainspring.models.transport.environment", "tls_context")
    decompress = lazy_function("mainspring.models.transport.http1.body", "decompress")

KEEP_ALIVE = 15.0
"""Seconds an idle connection is kept; short, because a stale one looks alive until it is written to."""

_READ_BUFFER_LIMIT = 1 << 18
"""Bytes that may wait to be read before the host is made to wait."""

_MAX_HEAD_BYTES = 1 << 18
_MAX_INFORMATIONAL_BYTES = 1 << 20
"""Bytes that may come before an answer begins: a host may say 100 or 103 first, but not for ever."""

_PORTS = {"http": 80, "https": 443}
_URL_SAFE_CHARS = "%/?:@!$&'()*+,;=-._~[]"

_Address = tuple[str, str, int]


class _IdleTimeoutError(Exception):
    """Nothing came in time."""


class _Connection(asyncio.Protocol):
    """A connection to a host, with at most one request on it. h11 reads and writes heads; bodies go past it, for they are many."""

    _http: h11.Connection  # of the request that was sent last

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._unread: list[bytes] = []
        self._reading_paused = 0
        self._closed = False
        self._error: BaseException | None = None
        self._framing: BodyFraming = ContentLengthBody(0)
        self._keep_alive = False
        self._idle = False
        self._closed_without_tls_shutdown = (
            False  # it ended without a word of the host: it was closed here, or somebody between has cut it
        )
        self.has_received_data = False
        self.used_until = 0.0
        self.lost = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._idle:  # nobody asked: it must not become the answer to the next request
            self.close()
            return
        self.has_received_data = True
        self._unread.append(data)
        self._reading_paused += len(data)
        if self._reading_paused > _READ_BUFFER_LIMIT and self._transport is not None:
            self._transport.pause_reading()
        self._notify_waiter()

    def eof_received(self) -> bool:
        self._closed = True
        self._closed_without_tls_shutdown = self._transport is not None and _ended_without_close_notify(self._transport)
        self._notify_waiter()
        return False  # the transport closes

    def connection_lost(self, exc: Exception | None) -> None:
        self._error = exc
        self._closed_without_tls_shutdown = self._closed_without_tls_shutdown or not self._closed
        self._closed = True
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if not self.lost.done():
            self.lost.set_result(None)
        self._notify_waiter()

    def _notify_waiter(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def send(self, request: h11.Request, body: bytes) -> None:
        """Send a request; what cannot be sent at once goes out while the answer is waited for.

        Raises:
            OSError: If the connection is gone.
        """
        if self._transport is None:
            raise self._error or ConnectionResetError()
        self._idle = False
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self.has_received_data = False
        head = self._http.send(request) or b""
        self._transport.write(head + body)

    async def head(self, method: bytes, limit: float | None) -> h11.Response:
        """The head of the answer.

        Raises:
            _SilentError: If nothing came within ``limit`` seconds.
            OSError: If the connection broke.
            h11.RemoteProtocolError: If what came is no HTTP.
        """
        taken = 0
        while not isinstance(event := self._http.next_event(), h11.Response):
            if isinstance(event, h11.InformationalResponse):
                continue
            if event is not h11.NEED_DATA:
                raise h11.RemoteProtocolError("it speaks another protocol from here on")
            if not self._unread and not self._closed:
                await self._wait(limit)
            if taken > _MAX_INFORMATIONAL_BYTES:
                raise h11.RemoteProtocolError("nothing but words before an answer")
            if data := self._take():
                taken += len(data)
                self._http.receive_data(data)
            elif self._error is not None:
                raise self._error
            else:
                raise ConnectionResetError
        self._framing = _framing(method, event)
        self._keep_alive = event.http_version == b"1.1" and not _closes_connection(event) and not _is_ambiguous(event)
        early, _ = self._http.trailing_data
        if early:
            self._unread.insert(0, early)
        return event

    async def read_chunk(self, limit: float | None) -> bytes:
        """The next of the body; nothing at its end.

        Raises:
            _SilentError: If nothing came within ``limit`` seconds.
            OSError: If the connection broke.
            FramingError: If what came cannot be, or ended too early.
        """
        framing = self._framing
        while True:
            if self._unread and (piece := framing.feed(self._take())):
                return piece
            if framing.done:
                return b""
            if self._closed:
                if self._error is not None:
                    raise self._error
                framing.close()
                if self._closed_without_tls_shutdown:
                    raise BodyFramingError("it did not say that this is the end")
                return b""
            await self._wait(limit)

    def _take(self) -> bytes:
        """What has arrived."""
        unread = self._unread
        data = unread[0] if len(unread) == 1 else b"".join(unread)
        unread.clear()
        if self._reading_paused > _READ_BUFFER_LIMIT and self._transport is not None:
            self._transport.resume_reading()
        self._reading_paused = 0
        return data

    async def _wait(self, limit: float | None) -> None:
        """Wait until something comes. The clock is looked at now and then: to wind it up each time would cost more than to read."""
        self._waiter = waiter = self._loop.create_future()
        if limit is None:
            self._deadline = math.inf
        else:
            self._deadline = self._loop.time() + limit
            if self._timer is None or self._timer.when() > self._deadline:
                self._arm_timer()
        try:
            await waiter
        finally:
            self._waiter = None

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done() or self._deadline == math.inf:
            return
        if self._loop.time() < self._deadline:
            self._arm_timer()
        else:
            waiter.set_exception(_IdleTimeoutError())

    def is_stale(self) -> bool:
        """Whether it cannot be used any more."""
        if self._closed or self._transport is None or self._transport.is_closing():
            return True
        return self.is_idle_too_long() or _has_unread_data(self._transport)

    def is_idle_too_long(self) -> bool:
        """Whether it was used too long ago for the host to keep it."""
        return self._loop.time() >= self.used_until

    def can_reuse(self) -> bool:
        """Whether another request may be sent. What comes before that is nothing that was asked for."""
        over = self._framing.done and not self._framing.trailing_data and not self._unread
        if not over or not self._keep_alive or self._closed or self._transport is None:
            return False
        if self._transport.get_write_buffer_size():
            return False
        self.used_until = self._loop.time() + KEEP_ALIVE
        self._idle = True
        return True

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()


def _framing(method: bytes, response: h11.Response) -> BodyFraming:
    """How the body of an answer ends."""
    if method == b"HEAD" or response.status_code in (204, 304):
        return ContentLengthBody(0)
    headers = dict(response.headers)
    if b"transfer-encoding" in headers:  # h11 takes no other than chunks, and no two lengths that differ
        return ChunkedBody()
    length = headers.get(b"content-length")
    return CloseDelimitedBody() if length is None else ContentLengthBody(int(length))


def _ended_without_close_notify(transport: asyncio.Transport) -> bool:
    """Whether an encrypted connection ended without the word that says so."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        return False
    try:
        return bool(encrypted.read(1))
    except ssl.SSLError:
        return True


def _has_unread_data(transport: asyncio.Transport) -> bool:
    """Whether something waits in the socket of an idle connection: its end, or what nobody asked for. The loop has not seen it yet."""
    number: int = transport.get_extra_info("socket").fileno()
    if number < 0:
        return True
    if hasattr(select, "poll"):  # the other cannot watch sockets with high numbers
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([number], [], [], 0)[0])


def _is_ambiguous(response: h11.Response) -> bool:
    """Whether it says in two ways where its body ends: others may have read it the other way (RFC 9112, 6.3)."""
    return sum(name in (b"content-length", b"transfer-encoding") for name, _ in response.headers) > 1


def _closes_connection(response: h11.Response) -> bool:
    return any(name == b"connection" and b"close" in value.lower() for name, value in response.headers)


class _ConnectionPool:
    """The idle connections of an event loop, and what closes those in use."""

    def __init__(self) -> None:
        self._idle: dict[_Address, list[_Connection]] = {}
        self._all: set[_Connection] = set()
        self._closed = False

    def acquire(self, address: _Address) -> _Connection | None:
        """A connection that was used before, if one is there: the one used last."""
        idle = self._idle.get(address, [])
        while idle:
            if not (connection := idle.pop()).is_stale():
                return connection
            connection.close()
        return None

    async def make(self, address: _Address) -> _Connection:
        """A new connection."""
        scheme, host, port = address
        encryption = tls_context() if scheme == "https" else None
        reached = await open_connection(host, port)
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection,
            sock=reached,  # it is the loop's from here on, also where this fails
            ssl=encryption,
            server_hostname=host if encryption else None,
        )
        self._all.add(connection)
        connection.lost.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    def release(self, address: _Address, connection: _Connection) -> None:
        """Keep a connection whose request is over, or close it."""
        for others in self._idle.values():
            while others and others[0].is_idle_too_long():
                others.pop(0).close()
        if self._closed or not connection.can_reuse():
            connection.close()
            return
        self._idle.setdefault(address, []).append(connection)

    async def aclose(self) -> None:
        """Close all of them."""
        self._closed = True
        self._idle.clear()
        ending = [connection.lost for connection in self._all]
        for connection in list(self._all):
            connection.close()
        if ending:
            await asyncio.wait(ending)


class Http1Response:
    """See `TransportResponse`."""

    __slots__ = ("_chunks", "headers", "status")

    def __init__(self, connection: _Connection, response: h11.Response, url: str, timeouts: Timeouts) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers
        }
        self._chunks = _chunks(connection, url, timeouts)
        if packings := ",".join(v.decode("latin-1") for n, v in response.headers if n == b"content-encoding"):
            self._chunks = decompress(self._chunks, packings, url)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        return self._chunks

    async def aclose(self) -> None:
        """Let go of it."""
        await self._chunks.aclose()


async def _chunks(connection: _Connection, url: str, timeouts: Timeouts) -> AsyncGenerator[bytes]:
    try:
        while piece := await connection.read_chunk(timeouts.idle):
            yield piece
    except _IdleTimeoutError as error:
        raise timeout_error(url, "idle", timeouts) from error
    except (BodyFramingError, OSError) as error:
        raise connection_lost_error(url, error, response_started=True) from error


class Http1Transport:
    """See `Transport`. Asks hosts directly, whatever proxies the environment names."""

    def __init__(self) -> None:
        self._pools: LoopLocal[_ConnectionPool] = LoopLocal(lambda _: _ConnectionPool(), lambda pool: pool.aclose())

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Send a request."""
        check_url(url)
        address, request = _request(method, url, headers, body)
        pool = await self._pools.get(None)
        total = asyncio.timeout(timeouts.total)
        try:
            async with total, _send_request(pool, address, request, body, url, timeouts) as (connection, response):
                async with aclosing(Http1Response(connection, response, url, timeouts)) as answer:
                    yield answer
        except TimeoutError as error:
            if total.expired():
                raise timeout_error(url, "total", timeouts) from error
            raise

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._pools.aclose()


@asynccontextmanager
async def _send_request(
    pool: _ConnectionPool, address: _Address, request: h11.Request, body: bytes, url: str, timeouts: Timeouts
) -> AsyncGenerator[tuple[_Connection, h11.Response]]:
    """A request that was sent, and the head of its answer. The connection is given back when the caller is done with it."""
    used = pool.acquire(address)
    connection = used or await _handle_connection(pool, address, url, timeouts)
    try:
        try:
            response = await _exchange(connection, request, body, url, timeouts)
        except NetworkError:
            if connection is not used or connection.has_received_data or connection.is_idle_too_long():
                raise
            connection.close()  # the host had closed it while it was idle
            connection = await _handle_connection(pool, address, url, timeouts)
            response = await _exchange(connection, request, body, url, timeouts)
        yield connection, response
    except BaseException:
        connection.close()
        raise
    pool.release(address, connection)


async def _handle_connection(pool: _ConnectionPool, address: _Address, url: str, timeouts: Timeouts) -> _Connection:
    limit = asyncio.timeout(timeouts.connect)
    try:
        async with limit:
            return await pool.make(address)
    except OSError as error:
        raise timeout_error(url, "connect", timeouts) if limit.expired() else connect_error(url, error) from error
    except ValueError as error:  # a name that is too long, or has characters that no name has
        raise invalid_url_error(url, error) from error


async def _exchange(
    connection: _Connection, request: h11.Request, body: bytes, url: str, timeouts: Timeouts
) -> h11.Response:
    try:
        connection.send(request, body)
        return await connection.head(request.method, timeouts.first_byte)
    except _IdleTimeoutError as error:
        raise timeout_error(url, "first_byte", timeouts) from error
    except (h11.RemoteProtocolError, OSError) as error:
        raise connection_lost_error(url, error, response_started=False) from error


def _request(method: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[_Address, h11.Request]:
    """Where a request goes, and its head."""
    parts = urlsplit(url)
    try:
        host = _ascii_host(parts.hostname or "")
    except UnicodeError as error:
        raise invalid_url_error(url, error) from error
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    named = f"[{host}]" if ":" in host else host
    sent = {
        "host": named if port == _PORTS[parts.scheme] else f"{named}:{port}",
        "accept": "*/*",
        "accept-encoding": "identity",
        **{name.lower(): value for name, value in sanitize_headers(headers).items()},
        **_basic_auth_header(parts),
    }
    if body or method not in ("GET", "HEAD"):
        sent["content-length"] = str(len(body))
    target = quote(parts.path or "/", _URL_SAFE_CHARS) + (
        f"?{quote(parts.query, _URL_SAFE_CHARS)}" if parts.query else ""
    )
    try:
        return (parts.scheme, host, port), h11.Request(method=method, headers=list(sent.items()), target=target)
    except h11.LocalProtocolError as error:
        raise ProviderConfigError(
            f"No request can be made for {host_and_port(url)}: {error}", reason="bad_url"
        ) from error


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host
    from idna import encode  # what the standard library has is of 2003, and means other hosts by some names

    return encode(host).decode()


def _basic_auth_header(parts: SplitResult) -> dict[str, str]:
    """What stands before the host: ``https://name:word@host``."""
    if not parts.username and not parts.password:
        return {}
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {"authorization": f"Basic {b64encode(login.encode()).decode()}"}
