"""A queue of events with an end and a result."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

_E = TypeVar("_E")
_R = TypeVar("_R")


class EventStream(Generic[_E, _R]):
    """A stream of events: producers push events, readers iterate over them or await the result.

    Events published before a reader attaches are stored. Each event goes to one reader (two readers share the stream), and the end
    releases every reader. The queue is unbounded: the producer never waits.

    Args:
        is_final: Returns True for the last event. Without it, `end` or `fail` ends the stream.
        extract: Returns the result from the last event. Needed with ``is_final``.
    """

    def __init__(self, is_final: Callable[[_E], bool] | None = None, extract: Callable[[_E], _R] | None = None) -> None:
        self._is_final = is_final
        self._extract = extract
        self._events: deque[_E] = deque()
        self._waiting: set[asyncio.Future[None]] = set()
        self._ended = False
        self._result: _R | None = None
        self._error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """True if the last event was published."""
        return self._ended

    def publish(self, event: _E) -> None:
        """Add an event. Events after the end are dropped.

        Raises:
            Exception: Any exception of ``is_final`` and ``extract``. The stream has then failed with it.
        """
        if self._ended:
            return
        self._events.append(event)
        try:
            is_final = self._is_final is not None and self._is_final(event)
            result = self._extract(event) if is_final and self._extract else None
        except Exception as error:
            self.fail(error)  # readers must not wait for a result that cannot arrive
            raise
        if is_final:
            self.end(result)
        elif self._waiting:
            self._notify_waiter()

    def push(self, event: _E) -> None:
        """Add an event: the same as `publish`."""
        self.publish(event)

    def end(self, result: _R | None = None) -> None:
        """End the stream with a result, which `result` returns."""
        if not self._ended:
            self._ended = True
            self._result = result
            self._notify_waiter()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error, which `result` raises. Iteration ends without raising."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._notify_waiter()

    async def result(self) -> _R:
        """Wait for the end and return the result.

        Raises:
            BaseException: The error passed to `fail`.
        """
        while not self._ended:
            await self._wait()
        if self._error is not None:
            raise self._error
        return self._result  # pyright: ignore[reportReturnType]

    def __aiter__(self) -> AsyncIterator[_E]:
        return self

    async def __anext__(self) -> _E:
        events = self._events
        while not events:
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        return events.popleft()

    async def _wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    def _notify_waiter(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()
