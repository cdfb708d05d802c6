"""Default HTTP/1.1 transport, built on httptools. Fast to import and to run; does not support proxies."""

from __future__ import annotations

import asyncio
import math
import select
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

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
from mainspring.models.transport.http1.connect import open_connection
from mainspring.models.transport.http1.response import MalformedResponseError, ResponseParser, decompress
from mainspring.models.transport.loop_local import LoopLocal
from mainspring.models.transport.port import Timeouts, TransportResponse, sanitize_headers

if TYPE_CHECKING:
    from mainspring.models.transport.environment import tls_context
else:  # Hosts on this machine do not need TLS.
    tls_context = lazy_function("mainspring.models.transport.environment", "tls_context")

KEEP_ALIVE = 15.0
"""Seconds after which an idle connection is closed; short, because a stale connection seems alive until it is written to."""

_READ_BUFFER_LIMIT = 1 << 18
"""Number of unread bytes after which reading from the host is paused."""

_MAX_INFORMATIONAL_BYTES = 1 << 20
"""Maximum size of informational responses: a host may send 100 or 103 before its response, but not without end."""

_PORTS = {"http": 80, "https": 443}
_URL_SAFE_CHARS = "%/?:@!$&'()*+,;=-._~[]"

_Address = tuple[str, str, int]


class _Request(NamedTuple):
    """A request: the address of its host, and the bytes to send."""

    address: _Address
    data: bytes
    expects_body: bool


class _IdleTimeoutError(Exception):
    """The host sent nothing within the limit."""


class _Connection(asyncio.BufferedProtocol):
    """A connection to a host, with at most one request.

    Args:
        buffer: Buffer for received data, which connections of the same event loop share. Without it, asyncio would allocate
            256 KB for each read.
    """

    _response: ResponseParser  # of the last request

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._unread: list[bytes] = []
        self._reading_paused = 0
        self._closed = False
        self._error: BaseException | None = None
        self._idle = False
        self._closed_without_tls_shutdown = (
            False  # The connection ended without a close by the host: it was closed locally, or a middlebox cut it.
        )
        self.has_received_data = False
        self.used_until = 0.0
        self.lost = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._idle:  # Unsolicited data: it must not become the response to the next request.
            self.close()
            return
        self.has_received_data = True
        self._unread.append(bytes(self._buffer[:nbytes]))
        self._reading_paused += nbytes
        if self._reading_paused > _READ_BUFFER_LIMIT and self._transport is not None:
            self._transport.pause_reading()
        self._notify_waiter()

    def eof_received(self) -> bool:
        self._closed = True
        self._closed_without_tls_shutdown = self._transport is not None and _ended_without_close_notify(self._transport)
        self._notify_waiter()
        return False  # The transport closes the connection.

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

    def send(self, request: _Request) -> None:
        """Send a request; unsent bytes are sent while waiting for the response.

        Raises:
            OSError: The connection is closed.
        """
        if self._transport is None:
            raise self._error or ConnectionResetError()
        self._idle = False
        self._response = ResponseParser(expects_body=request.expects_body)
        self.has_received_data = False
        self._transport.write(request.data)

    async def read_head(self, limit: float | None) -> ResponseParser:
        """Read the head of the response.

        Raises:
            _IdleTimeoutError: The host sent nothing within ``limit`` seconds.
            OSError: The connection was lost.
            MalformedResponseError: The response is not HTTP.
        """
        response = self._response
        received = 0
        while not response.status:
            if not self._unread and not self._closed:
                await self._wait(limit)
            if received > _MAX_INFORMATIONAL_BYTES:
                raise MalformedResponseError("too many informational responses")
            if data := self._take():
                received += len(data)
                response.feed(data)
            else:
                raise self._error or ConnectionResetError()
        return response

    async def read_chunk(self, limit: float | None) -> bytes:
        """Read the next chunk of the body; empty at its end.

        Raises:
            _IdleTimeoutError: The host sent nothing within ``limit`` seconds.
            OSError: The connection was lost.
            MalformedResponseError: The body is invalid or incomplete.
        """
        response = self._response
        while True:
            if self._unread:
                response.feed(self._take())
            if chunk := response.take_body():
                return chunk
            if response.is_complete:
                return b""
            if self._closed:
                if self._error is not None:
                    raise self._error
                response.close()
                if self._closed_without_tls_shutdown:
                    raise MalformedResponseError("the connection closed without close_notify")
                return b""
            await self._wait(limit)

    def _take(self) -> bytes:
        """Return the received bytes."""
        unread = self._unread
        data = unread[0] if len(unread) == 1 else b"".join(unread)
        unread.clear()
        if self._reading_paused > _READ_BUFFER_LIMIT and self._transport is not None:
            self._transport.resume_reading()
        self._reading_paused = 0
        return data

    async def _wait(self, limit: float | None) -> None:
        """Wait for data. The idle timer is checked periodically: to reset it per read would cost more than the read."""
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
        """Return True if the connection can no longer be used."""
        if self._closed or self._transport is None or self._transport.is_closing():
            return True
        return self.is_idle_too_long() or _has_unread_data(self._transport)

    def is_idle_too_long(self) -> bool:
        """Return True if the connection was idle so long that the host may have closed it."""
        return self._loop.time() >= self.used_until

    def can_reuse(self) -> bool:
        """Return True if another request may be sent. Data received before it is unsolicited."""
        if not self._response.can_keep_alive or self._unread or self._closed or self._transport is None:
            return False
        if self._transport.get_write_buffer_size():
            return False
        self.used_until = self._loop.time() + KEEP_ALIVE
        self._idle = True
        return True

    def close(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()


def _ended_without_close_notify(transport: asyncio.Transport) -> bool:
    """Return True if a TLS connection ended without close_notify."""
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        return False
    try:
        return bool(encrypted.read(1))
    except ssl.SSLError:
        return True


def _has_unread_data(transport: asyncio.Transport) -> bool:
    """Return True if the socket of an idle connection has unread data: its end or unsolicited data, which the loop has not seen."""
    number: int = transport.get_extra_info("socket").fileno()
    if number < 0:
        return True
    if hasattr(select, "poll"):  # select does not support high file descriptors
        poll = select.poll()
        poll.register(number, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([number], [], [], 0)[0])


class _ConnectionPool:
    """The idle connections of an event loop, and references to close those in use."""

    def __init__(self) -> None:
        self._idle: dict[_Address, list[_Connection]] = {}
        self._all: set[_Connection] = set()
        self._buffer = memoryview(bytearray(1 << 16))
        self._closed = False

    def acquire(self, address: _Address) -> _Connection | None:
        """Return the most recently used idle connection, if any."""
        idle = self._idle.get(address, [])
        while idle:
            if not (connection := idle.pop()).is_stale():
                return connection
            connection.close()
        return None

    async def make(self, address: _Address) -> _Connection:
        """Open a new connection."""
        scheme, host, port = address
        encryption = tls_context() if scheme == "https" else None
        reached = await open_connection(host, port)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._buffer),
            sock=reached,  # The event loop owns the socket from here on, even after a failure.
            ssl=encryption,
            server_hostname=host if encryption else None,
        )
        self._all.add(connection)
        connection.lost.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    def release(self, address: _Address, connection: _Connection) -> None:
        """Store a connection whose request is complete, or close it."""
        for others in self._idle.values():
            while others and others[0].is_idle_too_long():
                others.pop(0).close()
        if self._closed or not connection.can_reuse():
            connection.close()
            return
        self._idle.setdefault(address, []).append(connection)

    async def aclose(self) -> None:
        """Close all connections."""
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

    def __init__(self, connection: _Connection, response: ResponseParser, url: str, timeouts: Timeouts) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers
        }
        self._chunks = _chunks(connection, url, timeouts)
        if packings := ",".join(v.decode("latin-1") for n, v in response.headers if n == b"content-encoding"):
            self._chunks = decompress(self._chunks, packings, url)

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        return self._chunks

    async def aclose(self) -> None:
        """Release the response."""
        await self._chunks.aclose()


async def _chunks(connection: _Connection, url: str, timeouts: Timeouts) -> AsyncGenerator[bytes]:
    try:
        while piece := await connection.read_chunk(timeouts.idle):
            yield piece
    except _IdleTimeoutError as error:
        raise timeout_error(url, "idle", timeouts) from error
    except (MalformedResponseError, OSError) as error:
        raise connection_lost_error(url, error, response_started=True) from error


class Http1Transport:
    """See `Transport`. Connects directly and ignores the proxies of the environment."""

    def __init__(self) -> None:
        self._pools: LoopLocal[_ConnectionPool] = LoopLocal(lambda _: _ConnectionPool(), lambda pool: pool.aclose())

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Send a request."""
        check_url(url)
        request = _encode_request(method, url, headers, body)
        pool = await self._pools.get(None)
        total = asyncio.timeout(timeouts.total)
        try:
            async with total, _send_request(pool, request, url, timeouts) as (connection, response):
                async with aclosing(Http1Response(connection, response, url, timeouts)) as answer:
                    yield answer
        except TimeoutError as error:
            if total.expired():
                raise timeout_error(url, "total", timeouts) from error
            raise

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._pools.aclose()


@asynccontextmanager
async def _send_request(
    pool: _ConnectionPool, request: _Request, url: str, timeouts: Timeouts
) -> AsyncGenerator[tuple[_Connection, ResponseParser]]:
    """Send a request and yield the connection with the head of the response. The connection is released afterward."""
    address = request.address
    used = pool.acquire(address)
    connection = used or await _handle_connection(pool, address, url, timeouts)
    try:
        try:
            response = await _exchange(connection, request, url, timeouts)
        except NetworkError:
            if connection is not used or connection.has_received_data or connection.is_idle_too_long():
                raise
            connection.close()  # The host closed the connection while it was idle.
            connection = await _handle_connection(pool, address, url, timeouts)
            response = await _exchange(connection, request, url, timeouts)
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
    except ValueError as error:  # The name is too long or contains invalid characters.
        raise invalid_url_error(url, error) from error


async def _exchange(connection: _Connection, request: _Request, url: str, timeouts: Timeouts) -> ResponseParser:
    try:
        connection.send(request)
        return await connection.read_head(timeouts.first_byte)
    except _IdleTimeoutError as error:
        raise timeout_error(url, "first_byte", timeouts) from error
    except (MalformedResponseError, OSError) as error:
        raise connection_lost_error(url, error, response_started=False) from error


def _encode_request(method: str, url: str, headers: Mapping[str, str], body: bytes) -> _Request:
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
    if not host.isprintable():  # The other parts were encoded.
        raise ProviderConfigError(f"Invalid request for {host_and_port(url)}: Illegal host {host!r}", reason="bad_url")
    lines = [f"{method} {target} HTTP/1.1", *[f"{name}: {value}" for name, value in sent.items()]]
    head = "\r\n".join(lines) + "\r\n\r\n"
    return _Request((parts.scheme, host, port), head.encode("ascii") + body, expects_body=method != "HEAD")


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host
    from idna import encode  # The standard library implements IDNA 2003, which maps some names to other hosts.

    return encode(host).decode()


def _basic_auth_header(parts: SplitResult) -> dict[str, str]:
    """Return the header for the user information of a URL: ``https://name:password@host``."""
    if not parts.username and not parts.password:
        return {}
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {"authorization": f"Basic {b64encode(login.encode()).decode()}"}
