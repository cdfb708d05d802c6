"""A buffer of events for a client: in order, and bounded if the client reads slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

from mainspring.app.chat.events import ChatEvent, QueueChange, ShellOutput, StatusChange, WorkingChange
from mainspring.events.coalescer import Coalescer


class EventBuffer(AsyncIterator[ChatEvent]):
    """A buffer of events for one reader. Pushing never waits.

    Unread pieces of a text are joined, so that the buffer does not grow with their number.
    """

    def __init__(self) -> None:
        self._events = Coalescer(
            progress={ShellOutput: ("id", "text")}, latest=(StatusChange, QueueChange, WorkingChange)
        )
        self._closed = False
        self._has_events = asyncio.Event()

    def publish(self, event: ChatEvent) -> None:
        """Add an event. It is dropped if the buffer is closed."""
        if not self._closed:
            self._events.add(event)
            self._has_events.set()

    def close(self) -> None:
        """Accept no further events. Buffered ones can still be read."""
        self._closed = True
        self._has_events.set()

    def __len__(self) -> int:
        return len(self._events)

    def __aiter__(self) -> AsyncIterator[ChatEvent]:
        return self

    async def __anext__(self) -> ChatEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._has_events.clear()
            await self._has_events.wait()
        return cast("ChatEvent", self._events.pop())
