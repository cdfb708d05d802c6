"""Server-sent events: pulled as fast as they are read, so that a slow reader costs no memory; broken off, a reader comes back by id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, aclosing
from typing import Protocol

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from mainspring.app.servers.http.events import WireEvent
from mainspring.app.servers.http.metrics import Metrics

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]
_PIECE = 65_536


class _Put(Protocol):
    async def __call__(self, body: bytes, *, more: bool = True) -> None: ...


class Patience(Struct, frozen=True, kw_only=True):
    """How long a stream waits, in seconds.

    Attributes:
        beat: For an event, before a sign of life is sent.
        reader: For a reader that does not read, before it is cut off.
        retry: After which a reader that was cut off is told to come back.
        request: For the head of a request to arrive, and for its body.
    """

    beat: float = 15.0
    reader: float = 30.0
    retry: float = 2.0
    request: float = 20.0


class EventStream:
    """A response that is a stream of events.

    Args:
        events: The events; closed at the end.
        place: Held while the stream goes on.
        closing: Set when the service ends: then the stream ends with a word when to come back.
        cut: Cuts the connection of a request, of which not all was read.
        metrics: Where events are counted.
        patience: How long to wait.
        left: Done where the reader leaves before the end.
        location: Where the run is.
    """

    def __init__(
        self,
        events: AsyncGenerator[WireEvent, None],
        place: AbstractContextManager[None],
        closing: asyncio.Event,
        cut: Callable[[Scope], None],
        metrics: Metrics,
        patience: Patience | None = None,
        left: Callable[[], Awaitable[None]] | None = None,
        location: str = "",
    ) -> None:
        self._events = events
        self._place = place
        self._closing = closing
        self._cut = cut
        self._metrics = metrics
        self._patience = patience or Patience()
        self._left = left
        self._headers = [*_HEADERS, (b"location", location.encode())] if location else _HEADERS
        self._told = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the run is over, the reader is gone or the service ends."""
        with self._place:
            tasks = [
                asyncio.ensure_future(self._write(scope, send)),
                asyncio.ensure_future(_gone(receive)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            if self._left is not None and not self._told:
                await self._left()
            writing = tasks[0]
            if not writing.cancelled() and (error := writing.exception()) is not None:
                raise error

    async def _write(self, scope: Scope, send: Send) -> None:
        async def put(body: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(self._patience.reader):
                await send({"type": "http.response.body", "body": body, "more_body": more})

        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await put(f"retry: {int(self._patience.retry * 1000)}\n\n".encode())
            async with aclosing(self._events) as events:
                await self._pump(events, put, scope["holds"])
            self._told = True  # all of it, or a word that the service ends
            await put(b"", more=False)
        except TimeoutError:
            self._metrics.add("followers_cut")
            self._cut(scope)

    async def _pump(self, events: AsyncGenerator[WireEvent, None], put: _Put, holds: Callable[[], bool]) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        coming: asyncio.Future[WireEvent | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait({coming, closing}, timeout=self._patience.beat, return_when=asyncio.FIRST_COMPLETED)
                if not holds():
                    await put(b": this token is not known any more\n\n")
                    return
                if coming.done():
                    event, coming = coming.result(), None
                    if event is None:
                        return
                    self._metrics.add("events_sent")
                    for piece in frame(event):
                        await put(piece)
                    if event.last:
                        return
                elif closing.done():
                    await put(f": the service ends\nretry: {int(self._patience.retry * 1000)}\n\n".encode())
                    return
                else:
                    await put(b": still there\n\n")
        finally:
            left = [task for task in (coming, closing) if task is not None]
            for task in left:
                task.cancel()
            await asyncio.wait(left)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(event: WireEvent) -> Generator[bytes]:
    """An event as it goes over the line, a piece at a time, so that a large one is not kept once for each slow reader.

    JSON has no line ends of its own.
    """
    head = f"id: {event.id}\n" if event.id else ""
    start = f"{head}event: {event.name}\ndata: ".encode()
    if len(event.data) <= _PIECE:
        yield start + event.data + b"\n\n"
        return
    yield start
    for at in range(0, len(event.data), _PIECE):
        yield event.data[at : at + _PIECE]
    yield b"\n\n"
