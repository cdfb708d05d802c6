"""Server-sent events of runs, each with the ID from which a client resumes.

The response pulls events as fast as the client reads, so a slow client costs no memory; a disconnected client resumes by ID.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, aclosing
from typing import Any, Literal, Protocol
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from mainspring.app.servers.ag_ui.encoder import AgUiEncoder, warning
from mainspring.app.servers.ag_ui.runs import AgUiRun
from mainspring.app.servers.ag_ui.ui_messages import DONE, UI_MESSAGE_HEADERS, UiMessageEncoder
from mainspring.app.servers.http.metrics import Metrics
from mainspring.durable.feed import FeedEvent, FeedItem
from mainspring.events import AgentEnd
from mainspring.events.codec import schema_components

Format = Literal["native", "ag-ui", "ui-messages"]


class WireEvent(Struct, frozen=True, weakref=True):
    """An event: its name, its JSON, and the ID after which a client resumes."""

    id: str
    name: str
    data: bytes
    last: bool = False


ID_PATTERN = "[0-9]{1,15}([.][0-9]{1,6})?"
"""Format of event IDs."""


_CACHED_EVENTS = 64
_MAX_CACHED_BYTES = 16_384
_ID = re.compile(ID_PATTERN)
_SCHEMA = "#/components/schemas/{name}"


def event_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schema of events in the native format, and the schemas that it refers to."""
    kind: Any = FeedEvent
    (body,), definitions = schema_components([kind], _SCHEMA)
    return body, definitions


def parse_id(text: str) -> tuple[int, int]:
    """Return the event number and the part that an ID names; (0, 0) is before the first event.

    Raises:
        ValueError: If the ID is invalid.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a valid event ID")
    number, _, part = text.partition(".")
    return int(number), int(part or 0)


class EventEncoder:
    """Encodes events in the native format, once for all followers at the same position."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[str, int], WireEvent] = WeakValueDictionary()
        self._recent: deque[WireEvent] = deque(maxlen=_CACHED_EVENTS)

    async def encode_run(self, run_id: str, items: AsyncIterator[FeedItem]) -> AsyncGenerator[WireEvent, None]:
        """Yield the events of a run.

        Args:
            run_id: ID of the run.
            items: Its feed.
        """
        async for item in items:
            key = run_id, item.number
            event = self._known.get(key)
            if event is None:
                ends = isinstance(item.event, AgentEnd)
                event = WireEvent(str(item.number), item.event.type, item.data, ends)
                self._known[key] = event
                if len(event.data) <= _MAX_CACHED_BYTES:
                    self._recent.append(event)  # other followers need it in a moment
            yield event


async def encode_foreign(
    translator: AgUiEncoder | UiMessageEncoder,
    follow: Callable[[int], AsyncIterator[FeedItem]],
    after: tuple[int, int] = (0, 0),
) -> AsyncGenerator[WireEvent, None]:
    """Yield events in another format. For a client that resumes, earlier events are encoded again to restore the state, but not sent."""
    async for item in follow(0):
        encoded = translator.encode(item.event)
        ends = len(encoded) if isinstance(item.event, AgentEnd) else 0
        for part, event in enumerate(encoded, 1):
            if (item.number, part) > after:
                yield _to_wire_event(f"{item.number}.{part}", event, last=part == ends)


async def encode_ui_messages(
    run_id: str, follow: Callable[[int], AsyncIterator[FeedItem]], after: tuple[int, int] = (0, 0)
) -> AsyncGenerator[WireEvent, None]:
    """Yield events as a UI message stream, with its final mark."""
    async with aclosing(encode_foreign(UiMessageEncoder(run_id), follow, after)) as events:
        async for event in events:
            yield WireEvent(event.id, event.name, event.data)
            if event.last:
                yield WireEvent("", "done", DONE.encode(), last=True)


async def encode_ag_ui_run(
    started: AgUiRun, items: AsyncGenerator[FeedItem, None], outcome: Callable[[], Awaitable[str]]
) -> AsyncGenerator[WireEvent, None]:
    """Yield the events of one AG-UI run from its start to its end, for the client that started it.

    Args:
        started: The run.
        items: Feed of the run from its first event; closed at the end.
        outcome: Function that describes the end of a run that reported no end.
    """
    translator = AgUiEncoder(started.id, started.names)
    async with aclosing(_translate(translator, started, items)) as events:
        async for event in events:
            ends = event["type"] in ("RUN_FINISHED", "RUN_ERROR")
            yield _to_wire_event("", event, last=ends)
            if ends:
                return
            if event["type"] == "RUN_STARTED":
                for text in started.warnings:
                    yield _to_wire_event("", warning(text))
    for event in translator.failed(await outcome()):
        yield _to_wire_event("", event, last=event["type"] == "RUN_ERROR")


async def _translate(
    translator: AgUiEncoder, run: AgUiRun, items: AsyncGenerator[FeedItem, None]
) -> AsyncGenerator[dict[str, Any], None]:
    if not run.after:
        for event in translator.begin():
            yield event
    async with aclosing(items):
        async for item in items:
            encoded = translator.encode(item.event)
            if item.number <= run.after:  # sent in an earlier run of the thread
                encoded = translator.resume() if item.number == run.after else ()
            for event in encoded:
                yield event


def _to_wire_event(id: str, event: dict[str, Any], *, last: bool = False) -> WireEvent:
    return WireEvent(id, str(event["type"]), msgspec.json.encode(event), last)


_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-accel-buffering", b"no"),
]
UI_MESSAGE_MARK = [
    (name.encode(), value.encode()) for name, value in UI_MESSAGE_HEADERS.items() if name.startswith("x-vercel")
]
"""The header with which a client recognizes a UI message stream."""
_CHUNK_BYTES = 65_536


class _SendBody(Protocol):
    async def __call__(self, body: bytes, *, more: bool = True) -> None: ...


class StreamTimeouts(Struct, frozen=True, kw_only=True):
    """Time limits of a stream, in seconds.

    Attributes:
        beat: Time without an event before a keep-alive comment is sent.
        reader: Time that a client may not read before it is disconnected.
        retry: Time after which a disconnected client should reconnect.
        request: Time for the head of a request to arrive, and for its body.
    """

    beat: float = 15.0
    reader: float = 30.0
    retry: float = 2.0
    request: float = 20.0


class EventStreamResponse:
    """A response that is a stream of events.

    Args:
        events: The events; closed at the end.
        place: Slot that is occupied while the stream is open.
        closing: Event that is set at shutdown: the stream then ends with the time to reconnect.
        cut: Function that aborts the connection of a request whose response was not read completely.
        metrics: Counters of the service.
        timeouts: Time limits.
        on_disconnect: Callback for a client that disconnects before the end.
        location: URL of the run.
    """

    def __init__(
        self,
        events: AsyncGenerator[WireEvent, None],
        place: AbstractContextManager[None],
        closing: asyncio.Event,
        cut: Callable[[Scope], None],
        metrics: Metrics,
        timeouts: StreamTimeouts | None = None,
        on_disconnect: Callable[[], Awaitable[None]] | None = None,
        location: str = "",
    ) -> None:
        self._events = events
        self._place = place
        self._closing = closing
        self._cut = cut
        self._metrics = metrics
        self._patience = timeouts or StreamTimeouts()
        self._on_disconnect = on_disconnect
        self.headers = [*_HEADERS, (b"location", location.encode())] if location else [*_HEADERS]
        self._is_complete = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the run ends, the client disconnects, or the service shuts down."""
        with self._place:
            tasks = [
                asyncio.ensure_future(self._write(scope, send)),
                asyncio.ensure_future(_wait_disconnect(receive)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            if self._on_disconnect is not None and not self._is_complete:
                await self._on_disconnect()
            writing = tasks[0]
            if not writing.cancelled() and (error := writing.exception()) is not None:
                raise error

    async def _write(self, scope: Scope, send: Send) -> None:
        async def put(body: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(self._patience.reader):
                await send({"type": "http.response.body", "body": body, "more_body": more})

        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.headers})
            await put(f"retry: {int(self._patience.retry * 1000)}\n\n".encode())
            async with aclosing(self._events) as events:
                await self._pump(events, put, scope["holds"])
            self._is_complete = True  # the last event, or the notice of the shutdown
            await put(b"", more=False)
        except TimeoutError:
            self._metrics.add("followers_cut")
            self._cut(scope)

    async def _pump(
        self, events: AsyncGenerator[WireEvent, None], put: _SendBody, is_valid: Callable[[], bool]
    ) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        coming: asyncio.Future[WireEvent | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events, None))
                await asyncio.wait({coming, closing}, timeout=self._patience.beat, return_when=asyncio.FIRST_COMPLETED)
                if not is_valid():
                    await put(b": this token is not known any more\n\n")
                    return
                if coming.done():
                    event, coming = coming.result(), None
                    if event is None:
                        return
                    self._metrics.add("events_sent")
                    for piece in encode_sse(event):
                        await put(piece)
                    if event.last:
                        return
                elif closing.done():
                    await put(f": the service is shutting down\nretry: {int(self._patience.retry * 1000)}\n\n".encode())
                    return
                else:
                    await put(b": still there\n\n")
        finally:
            unfinished = [task for task in (coming, closing) if task is not None]
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished)


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def encode_sse(event: WireEvent) -> Generator[bytes]:
    """Yield an event in chunks, so that a large event is not stored once for each slow client.

    Encoded JSON contains no line ends.
    """
    head = f"id: {event.id}\n" if event.id else ""
    start = f"{head}event: {event.name}\ndata: ".encode()
    if len(event.data) <= _CHUNK_BYTES:
        yield start + event.data + b"\n\n"
        return
    yield start
    for at in range(0, len(event.data), _CHUNK_BYTES):
        yield event.data[at : at + _CHUNK_BYTES]
    yield b"\n\n"
