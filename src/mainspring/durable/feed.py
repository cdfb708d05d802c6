"""The events of a run for followers in any process: numbered, resumable, and separate from the log that replays the run.

Text comes in chunks that are collected for a moment. A crashed worker may leave a text unfinished: `AttemptStart` reports that the
run was resumed, and the text since the last `MessageEnd` is void. All other events come exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from mainspring.errors import DurableError
from mainspring.events import (
    AgentEnd,
    ApprovalRequest,
    ApprovalResult,
    AttemptStart,
    MessageEnd,
    ModelCallRetry,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from mainspring.events.codec import UnknownEventError, decode, encode

FeedEvent = (
    AttemptStart
    | TurnStart
    | TextDelta
    | ThinkingDelta
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | ModelCallRetry
    | ApprovalRequest
    | ApprovalResult
    | AgentEnd
)
"""The events of a run that its followers get. `AgentEnd` is the last, unless the run was cancelled or could not be executed: see
`Engine.info` then. It has no messages, since each came as a `MessageEnd`."""

_UNION: Any = FeedEvent


class FeedItem:
    """An event and its number, which increases by one from 1 in each run.

    Args:
        number: The number.
        event: The event.
        data: The event as stored JSON, in place of ``event``. It is decoded when it is needed.
    """

    __slots__ = ("_data", "_event", "number")

    def __init__(self, number: int, event: FeedEvent | None = None, data: bytes = b"") -> None:
        self.number = number
        self._event = event
        self._data = data

    @property
    def event(self) -> FeedEvent:
        """The event.

        Raises:
            DurableError: If another version stored it.
        """
        if self._event is None:
            try:
                self._event = decode(self._data, _UNION)
            except UnknownEventError as error:
                raise DurableError(
                    f"This version cannot read the events of the run ({error}). Follow it with the version that started it."
                ) from None
        assert self._event is not None
        return self._event

    @property
    def data(self) -> bytes:
        """The event as JSON: the stored bytes, or encoded by this call."""
        return self._data or encode(self.event)


class Feed(Protocol):
    """The events of runs."""

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """Add events in this order, all or none. Returns the number of the last one."""
        ...

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """Return at most ``limit`` events with a higher number, in order. Empty for an unknown run.

        After a number was read, no lower number appears later.
        """
        ...

    async def wait(self, run_id: str, after: int = 0) -> None:
        """Return once there is an event with a higher number. Waits forever: cancel it, or use a timeout."""
        ...


class MemoryFeed:
    """A `Feed` in the memory of the process."""

    def __init__(self) -> None:
        self._events: dict[str, list[FeedEvent]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    async def append(self, run_id: str, events: Sequence[FeedEvent]) -> int:
        """See `Feed.append`."""
        stored = self._events.setdefault(run_id, [])
        stored.extend(events)
        changed = self._changed.pop(run_id, None)
        if changed is not None:
            changed.set()
        return len(stored)

    async def read(self, run_id: str, after: int = 0, limit: int = 1000) -> Sequence[FeedItem]:
        """See `Feed.read`."""
        events = self._events.get(run_id, [])
        return [FeedItem(n, event) for n, event in enumerate(events[after : after + limit], after + 1)]

    async def wait(self, run_id: str, after: int = 0) -> None:
        """See `Feed.wait`."""
        while len(self._events.get(run_id, ())) <= after:
            await self._changed.setdefault(run_id, asyncio.Event()).wait()

    def delete(self, run_id: str) -> None:
        """Delete the events of a run."""
        self._events.pop(run_id, None)
