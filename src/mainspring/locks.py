"""A lock for an object that serves one event loop after the other."""

from __future__ import annotations

import asyncio


class LoopLock:
    """``async with LoopLock().here():`` each event loop has a lock of its own, as runs one after the other may have theirs."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def here(self) -> asyncio.Lock:
        """The lock of the event loop that runs."""
        loop = asyncio.get_running_loop()
        if self._held is None or self._held[0] is not loop:
            self._held = (loop, asyncio.Lock())
        return self._held[1]
