"""How long a call may take: a server that gives signs of life may go on, and while a person is asked no time runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class CallTimer:
    """The time of one call."""

    def __init__(self, seconds: float, scope: asyncio.Timeout) -> None:
        self._seconds = seconds
        self._scope = scope
        self._paused = False

    def life(self) -> None:
        """It gave a sign of life: its time begins anew."""
        if not self._paused and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def pause(self, paused: bool) -> None:
        """Stop the time, or let it begin anew."""
        self._paused = paused
        if not self._scope.expired():
            self._scope.reschedule(None if paused else asyncio.get_running_loop().time() + self._seconds)


class CallTimeouts:
    """The clocks of the calls to one server."""

    def __init__(self) -> None:
        self._clocks: set[CallTimer] = set()
        self._pauses = 0

    async def within(
        self, seconds: float, work: Callable[[CallTimer], Awaitable[T]], slow: Callable[[], Exception]
    ) -> T:
        """Do something; when its time is over it is cancelled, and what ``slow`` makes is raised."""
        clock: CallTimer | None = None
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                clock = CallTimer(seconds, scope)
                self._clocks.add(clock)
                if self._pauses:
                    clock.pause(True)
                return await work(clock)
        except TimeoutError:
            if scope.expired():
                raise slow() from None
            raise
        finally:
            if clock is not None:
                self._clocks.discard(clock)

    @contextmanager
    def pause(self) -> Generator[None]:
        """Stop all clocks while this is open."""
        self._pauses += 1
        for clock in self._clocks:
            clock.pause(True)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for clock in self._clocks:
                    clock.pause(False)
