"""Clients that belong to the event loop that made them, and go when it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

C = TypeVar("C")


class LoopLocal(Generic[C]):
    """Keeps a client per loop and key.

    A client is closed by `aclose`, or by the loop when that shuts down: it is held by an async generator, and a loop ends
    its generators before it closes. So two calls of ``asyncio.run`` work, and leave nothing open.

    Args:
        make: Makes a client for a key; called inside the loop.
        close: Closes one.
    """

    def __init__(self, make: Callable[[Hashable], C], close: Callable[[C], Awaitable[object]]) -> None:
        self._make = make
        self._close = close
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, tuple[C, AsyncGenerator[C, None]]]]
        self._kept = WeakKeyDictionary()

    async def get(self, key: Hashable) -> C:
        """The client for ``key`` in the running loop."""
        loop = asyncio.get_running_loop()
        held = self._kept.get(loop)
        if held is None:
            held = self._kept[loop] = {}
        entry = held.get(key)
        if entry is None:
            client = self._make(key)
            keeper = self._hold_open(client, held, key)
            held[key] = entry = (client, keeper)
            await anext(keeper)
        return entry[0]

    async def _hold_open(
        self, client: C, held: dict[Hashable, tuple[C, AsyncGenerator[C, None]]], key: Hashable
    ) -> AsyncGenerator[C, None]:
        try:
            yield client
        finally:
            held.pop(key, None)
            await self._close(client)

    async def aclose(self) -> None:
        """Close what belongs to the running loop."""
        held = self._kept.pop(asyncio.get_running_loop(), {})
        for _, keeper in list(held.values()):
            await keeper.aclose()
