"""An asynchronous session store in memory."""

import asyncio
from collections.abc import Sequence

from mainspring.sessions import SessionInfo


class SlowStore:
    """An asynchronous store in which every call lets others run several times, before and after its work.

    ``error`` makes `append` fail, ``gate`` makes it wait.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.lines: dict[str, list[bytes]] = {}
        self.infos: dict[str, SessionInfo] = {}
        self.writers: set[str] = set()

    async def wait(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def read(self, id: str) -> Sequence[bytes]:
        await self.wait()
        return list(self.lines.get(id, ()))

    async def append(self, id: str, lines: Sequence[bytes], info: SessionInfo) -> None:
        await self.wait()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.lines.setdefault(id, []).extend(lines)
        self.infos[id] = info
        await self.wait()

    async def list(self, cwd: str | None) -> Sequence[SessionInfo]:
        await self.wait()
        return [info for info in self.infos.values() if cwd in {None, info.cwd}]

    async def delete(self, id: str) -> None:
        await self.wait()
        del self.lines[id], self.infos[id]

    async def acquire(self, id: str) -> bool:
        await self.wait()
        if id in self.writers:
            return False
        self.writers.add(id)
        await self.wait()
        return True

    async def release(self, id: str) -> None:
        await self.wait()
        self.writers.discard(id)
