"""One lock for each path, created on demand and dropped when released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class PathLocks:
    """Locks by path, in order of arrival."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def acquire(self, path: str) -> AsyncGenerator[None]:
        """Acquire the lock of ``path``."""
        lock, users = self._locks.get(path) or (asyncio.Lock(), 0)
        self._locks[path] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[path]
            if users == 1:
                del self._locks[path]
            else:
                self._locks[path] = (lock, users - 1)
