"""The HTTP server process: listening, limits of requests, and graceful shutdown."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import accumulate
from types import FrameType
from typing import Any, cast

import uvicorn
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from mainspring.errors import ConfigError

MAX_JSON_DEPTH = 100
"""Maximum number of levels in a JSON body; deeper nesting would only break code that handles it later."""


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


class TimeoutProtocol(H11Protocol):
    """A connection whose request head must arrive in time; a client that sends it too slowly is disconnected.

    Args:
        seconds: Maximum number of seconds for the head of a request.
        **options: Arguments of uvicorn.
    """

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the time limit."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Stop the time limit when the head is complete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit."""
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._unwatch()  # the head is complete, and the response is being sent
        elif self._limit is None and not self.transport.is_closing():
            self._limit = self.loop.call_later(self._seconds, self.transport.abort)

    def _unwatch(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def is_json_too_deep(body: bytes) -> bool:
    """Return True if JSON exceeds `MAX_JSON_DEPTH` levels, in linear time."""
    if body.count(b"[") + body.count(b"{") <= MAX_JSON_DEPTH:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _OTHERS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_JSON_DEPTH


async def read_request_body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Read the body of a request.

    Raises:
        HTTPException: If it is too large, or does not arrive in time.
    """
    too_large = HTTPException(413, f"The body is too large. The limit is {max_bytes} bytes.")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > max_bytes:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > max_bytes:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise HTTPException(408, "The body did not arrive in time.", {"connection": "close"}) from None
    return b"".join(parts)


_BACKLOG = 2048


class ServerOptions(Struct, frozen=True, kw_only=True):
    """Address of a server, and the time limit of its shutdown.

    Attributes:
        host: The address; a loopback address unless other machines must reach it.
        port: The port; 0 for any free port.
        drain: Seconds that active runs have to finish at shutdown.
        keeps: Whether runs outlive the process.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    drain: float = 30.0
    keeps: bool = False


def open_socket(place: ServerOptions) -> socket.socket:
    """Open the socket of a server.

    Raises:
        ConfigError: If it cannot listen there.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"Cannot listen on {place.host}: {error.strerror}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {place.host} port {place.port}: {error.strerror}. Choose another port with --port."
        ) from None
    return listener


def local_url(listening: socket.socket) -> str:
    """Return the URL of a server for users of this machine."""
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "::1" if address.version == 6 else "127.0.0.1"
    return f"http://[{host}]:{port}/" if address.version == 6 else f"http://{host}:{port}/"


def is_loopback(listening: socket.socket) -> bool:
    """Return True if only this machine can reach the host."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


class HttpServer(uvicorn.Server):
    """Serves an application until `stop` or a signal. The second signal stops immediately.

    Args:
        app: The application.
        request_seconds: Maximum number of seconds for the head of a request.
        on_stop: Called before connections are closed.
    """

    def __init__(
        self, app: ASGIApp, *, request_seconds: float, on_stop: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast("type[asyncio.Protocol]", partial(TimeoutProtocol, request_seconds)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=5,
                h11_max_incomplete_event_size=65_536,
            )
        )
        self._on_stop = on_stop
        self._stop_requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; at the second signal, do not wait for ``on_stop``."""
        if self._stop_requested.is_set():
            self.should_exit = self.force_exit = True
        else:
            self._loop.call_soon_threadsafe(self._stop_requested.set)

    def stop(self) -> None:
        """Shut down, like a signal does."""
        self._stop_requested.set()

    def abort_connection(self, scope: Scope) -> None:
        """Abort a connection, and discard all data that was not read."""
        client = tuple(scope.get("client") or ())
        for connection in list(self.server_state.connections):
            if isinstance(connection, H11Protocol) and connection.client == client:
                # Without a reset, the operating system offers unread data for minutes and keeps megabytes in memory.
                linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
                connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.transport.abort()

    async def serve_until_stopped(self, listening: socket.socket) -> None:
        """Serve until `stop` or a signal."""
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(self._exit_on_stop())
            await self.serve(sockets=[listening])
            ending.cancel()

    async def _exit_on_stop(self) -> None:
        await self._stop_requested.wait()
        if self._on_stop is not None:
            await self._on_stop()
        self.should_exit = True

    @asynccontextmanager
    async def in_background(self, listening: socket.socket) -> AsyncGenerator[str]:
        """Serve while the context is open, and yield the URL."""
        running = asyncio.ensure_future(self.serve_until_stopped(listening))
        try:
            yield local_url(listening)
        finally:
            self.stop()
            await running
