"""Requests that take their time to arrive, or are nested without end: what is not done for them.

The server process: where it listens, and how it ends.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import socket
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import accumulate
from types import FrameType
from typing import Any, cast

import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from mainspring.app.servers.http.state import ServerState
from mainspring.errors import ConfigError
from mainspring.text import pluralize

MAX_JSON_DEPTH = 100
"""Levels of a body: more would only serve to break what handles it later."""


_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


class TimeoutProtocol(H11Protocol):
    """A connection whose request has to arrive within some seconds; one that trickles in is cut off.

    Args:
        seconds: How long the head of a request may take.
        **options: As uvicorn gives them.
    """

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """As in uvicorn."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """As in uvicorn."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """As in uvicorn."""
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete:
            self._unwatch()  # it is here, and is being answered
        elif self._limit is None and not self.transport.is_closing():
            self._limit = self.loop.call_later(self._seconds, self.transport.abort)

    def _unwatch(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def is_json_too_deep(body: bytes) -> bool:
    """Whether JSON has more levels than `DEEPEST`, in a time that grows with its length alone."""
    if body.count(b"[") + body.count(b"{") <= MAX_JSON_DEPTH:
        return False
    brackets = _STRING.sub(b"", body).translate(None, _OTHERS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_JSON_DEPTH


_BACKLOG = 2048


class ServerOptions(Struct, frozen=True, kw_only=True):
    """Where a server listens, and how long its end may take.

    Attributes:
        host: The address; a loopback one unless others are to reach it.
        port: The port; 0 for any that is free.
        drain: Seconds for what goes on to come to its end.
        keeps: Whether runs outlive the process.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    drain: float = 30.0
    keeps: bool = False


def open_socket(place: ServerOptions) -> socket.socket:
    """The socket of a server.

    Raises:
        ConfigError: If it cannot listen there.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"cannot listen on {place.host}: {error.strerror}") from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise ConfigError(
            f"cannot listen on {place.host} port {place.port}: {error.strerror}; take another --port"
        ) from None
    return made


def local_url(listening: socket.socket) -> str:
    """The address of a server for people on this machine."""
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "::1" if address.version == 6 else "127.0.0.1"
    return f"http://[{host}]:{port}/" if address.version == 6 else f"http://{host}:{port}/"


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine reaches it."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


class HttpServer(uvicorn.Server):
    """Serves an application. The first SIGTERM or SIGINT lets what goes on come to its end; a second one ends it now.

    Args:
        app: The application.
        state: Its state.
        place: How long its end may take.
        on_message: Is told how the end goes on.
    """

    def __init__(
        self, app: ASGIApp, state: ServerState, place: ServerOptions, on_message: Callable[[str], object]
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=cast("type[asyncio.Protocol]", partial(TimeoutProtocol, state.timeouts.request)),
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
        self._state = state
        self._place = place
        self._report = on_message
        self._stop_requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        state.abort_connection = self.abort_connection
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end, or hurry it."""
        if self._stop_requested.is_set():
            self.should_exit = self.force_exit = True
        else:
            self._loop.call_soon_threadsafe(self._stop_requested.set)

    def stop(self) -> None:
        """Begin the end, as a signal does."""
        self._stop_requested.set()

    def abort_connection(self, scope: Scope) -> None:
        """Break a connection off, with all that was not read."""
        client = tuple(scope.get("client") or ())
        for connection in list(self.server_state.connections):
            if isinstance(connection, H11Protocol) and connection.client == client:
                # Without this the system goes on offering what was not read, and keeps megabytes of it for minutes.
                linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
                connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.transport.abort()

    async def serve_until_stopped(self, listening: socket.socket) -> None:
        """Serve until a signal, then drain."""
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(self._drain_on_stop())
            await self.serve(sockets=[listening])
            ending.cancel()

    async def _drain_on_stop(self) -> None:
        await self._stop_requested.wait()
        state, place = self._state, self._place
        if place.keeps:
            state.shutdown_started.set()
        self._report(
            f"ending: no run is taken on any more; {place.drain:g} s for those that go on (again to end at once)"
        )
        left = await state.service.drain(place.drain, keeps=place.keeps)
        if left:
            lost = pluralize(left, "run did not come to its end and is", "runs did not come to their end and are")
            self._report(f"{lost} lost: this process is the only place for runs; see --url")
        state.shutdown_started.set()
        self.should_exit = True


@asynccontextmanager
async def run_test_server(
    app: ASGIApp,
    state: ServerState,
    place: ServerOptions | None = None,
    on_message: Callable[[str], object] = lambda _: None,
) -> AsyncGenerator[str]:
    """A server inside this process, for as long as the block; gives its address.

    Args:
        app: The application.
        state: Its state.
        place: Where to listen; by default any free port of the loopback interface.
        on_message: Is told how the end goes on.
    """
    place = place or ServerOptions(port=0, drain=0.0)
    listening = open_socket(place)
    server = HttpServer(app, state, place, on_message)
    running = asyncio.ensure_future(server.serve_until_stopped(listening))
    try:
        yield local_url(listening)
    finally:
        server.stop()
        await running
