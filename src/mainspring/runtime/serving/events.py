"""Events of runs as they go over a wire, each with the id by which a follower comes back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.durable.feed import FeedEvent, FeedItem, RunEnded, encode_event
from mainspring.runtime.serving.ag_ui import AgUi

Format = Literal["native", "ag-ui"]


class WireEvent(Struct, frozen=True):
    """One event: its name, its JSON, and the id after which a follower goes on."""

    id: str
    name: str
    data: bytes
    last: bool = False


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
    number, _, part = text.partition(".")
    if not number.isdecimal() or (part and not part.isdecimal()) or len(text) > 30:
        raise ValueError(f"{text[:40]!r} is no id of an event")
    return int(number), int(part or 0)


async def native(items: AsyncIterator[FeedItem]) -> AsyncGenerator[WireEvent, None]:
    """Events in the format of our own."""
    async for item in items:
        kind = type(item.event)
        yield WireEvent(str(item.number), str(kind.__struct_config__.tag), encode_event(item.event), kind is RunEnded)


async def ag_ui(
    run_id: str, follow: Callable[[int], AsyncIterator[FeedItem]], after: tuple[int, int] = (0, 0)
) -> AsyncGenerator[WireEvent, None]:
    """Events in the format of AG-UI. Where a follower comes back, what it knows is read again and not told."""
    translator = AgUi(run_id)
    async for item in follow(0):
        made: Sequence[dict[str, Any]] = translator.of(item.event)
        ends = len(made) if isinstance(item.event, RunEnded) else 0
        for part, event in enumerate(made, 1):
            if (item.number, part) > after:
                name = f"{item.number}.{part}"
                yield WireEvent(name, str(event["type"]), msgspec.json.encode(event), part == ends)
