"""Clients that belong to an event loop and are closed with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

C = TypeVar("C")


class LoopLocal(Generic[C]):
    """Stores one client per event loop and key.

    A client is closed by `aclose`, or by the loop when it shuts down: an async generator owns it, and a loop finalizes its
    generators before it closes. Two calls of ``asyncio.run`` work and leave nothing open.

    Args:
        make: Function that creates a client for a key; called inside the loop.
        close: Function that closes a client.
    """

    def __init__(self, make: Callable[[Hashable], C], close: Callable[[C], Awaitable[object]]) -> None:
        self._make = make
        self._close = close
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, tuple[C, AsyncGenerator[C, None]]]]
        self._clients = WeakKeyDictionary()

    async def get(self, key: Hashable) -> C:
        """Return the client for ``key`` in the running loop."""
        loop = asyncio.get_running_loop()
        clients = self._clients.get(loop)
        if clients is None:
            clients = self._clients[loop] = {}
        entry = clients.get(key)
        if entry is None:
            client = self._make(key)
            keeper = self._hold_open(client, clients, key)
            clients[key] = entry = (client, keeper)
            await anext(keeper)
        return entry[0]

    async def _hold_open(
        self, client: C, clients: dict[Hashable, tuple[C, AsyncGenerator[C, None]]], key: Hashable
    ) -> AsyncGenerator[C, None]:
        try:
            yield client
        finally:
            clients.pop(key, None)
            await self._close(client)

    async def aclose(self) -> None:
        """Close the clients of the running loop."""
        clients = self._clients.pop(asyncio.get_running_loop(), {})
        for _, keeper in list(clients.values()):
            await keeper.aclose()
