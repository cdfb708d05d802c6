"""Events of runs as they go over a wire, each with the id by which a follower comes back."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Literal
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from mainspring.app.servers.ag_ui.encoder import AgUi, warning
from mainspring.app.servers.ag_ui.runs import AgUiRun
from mainspring.durable.feed import FeedEvent, FeedItem, RunEnded, encode_event

Format = Literal["native", "ag-ui"]


class WireEvent(Struct, frozen=True, weakref=True):
    """One event: its name, its JSON, and the id after which a follower goes on."""

    id: str
    name: str
    data: bytes
    last: bool = False


ID_PATTERN = "[0-9]{1,15}([.][0-9]{1,6})?"
"""What ids of events look like."""

_RECENT = 64
_SMALL = 16_384
_ID = re.compile(ID_PATTERN)
_SCHEMA = "#/components/schemas/{name}"


def event_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schema of events in the format of our own, and those that it refers to."""
    kind: Any = FeedEvent
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_SCHEMA)
    return schema, components


def parse_id(text: str) -> tuple[int, int]:
    """The number of an event and the part of it that an id names; (0, 0) is before the first.

    Raises:
        ValueError: If it is no such id.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no id of an event")
    number, _, part = text.partition(".")
    return int(number), int(part or 0)


class Wire:
    """Events in the format of our own, encoded once for all followers that are at the same place."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[str, int], WireEvent] = WeakValueDictionary()
        self._recent: deque[WireEvent] = deque(maxlen=_RECENT)

    async def native(self, run_id: str, items: AsyncIterator[FeedItem]) -> AsyncGenerator[WireEvent, None]:
        """What a run tells.

        Args:
            run_id: The run.
            items: Its feed.
        """
        async for item in items:
            key = run_id, item.number
            event = self._known.get(key)
            if event is None:
                kind = type(item.event)
                name = str(kind.__struct_config__.tag)
                event = WireEvent(str(item.number), name, encode_event(item.event), kind is RunEnded)
                self._known[key] = event
                if len(event.data) <= _SMALL:
                    self._recent.append(event)  # others come for it in a moment
            yield event


async def ag_ui(
    run_id: str, follow: Callable[[int], AsyncIterator[FeedItem]], after: tuple[int, int] = (0, 0)
) -> AsyncGenerator[WireEvent, None]:
    """Events in the format of AG-UI. Where a follower comes back, what it knows is read again and not told."""
    translator = AgUi(run_id)
    async for item in follow(0):
        made = translator.of(item.event)
        ends = len(made) if isinstance(item.event, RunEnded) else 0
        for part, event in enumerate(made, 1):
            if (item.number, part) > after:
                yield _wired(f"{item.number}.{part}", event, last=part == ends)


async def ag_ui_run(
    started: AgUiRun, items: AsyncGenerator[FeedItem, None], outcome: Callable[[], Awaitable[str]]
) -> AsyncGenerator[WireEvent, None]:
    """The events of one run of AG-UI, for the client that began it: from its start to its end.

    Args:
        started: The run.
        items: What our run tells, from its first event; closed at the end.
        outcome: Says what became of a run that told nothing of its end.
    """
    translator = AgUi(started.id, started.names)
    async with aclosing(_translated(translator, started, items)) as events:
        async for event in events:
            ends = event["type"] in ("RUN_FINISHED", "RUN_ERROR")
            yield _wired("", event, last=ends)
            if ends:
                return
            if event["type"] == "RUN_STARTED":
                for text in started.warnings:
                    yield _wired("", warning(text))
    for event in translator.failed(await outcome()):
        yield _wired("", event, last=event["type"] == "RUN_ERROR")


async def _translated(
    translator: AgUi, started: AgUiRun, items: AsyncGenerator[FeedItem, None]
) -> AsyncGenerator[dict[str, Any], None]:
    if not started.after:
        for event in translator.begin():
            yield event
    async with aclosing(items):
        async for item in items:
            made = translator.of(item.event)
            if item.number <= started.after:  # told in an earlier run of the thread
                made = translator.resume() if item.number == started.after else ()
            for event in made:
                yield event


def _wired(id: str, event: dict[str, Any], *, last: bool = False) -> WireEvent:
    return WireEvent(id, str(event["type"]), msgspec.json.encode(event), last)
