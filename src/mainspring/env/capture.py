"""Keeping a program's output: the start and the end in memory, all of it in a private file where asked for."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from mainspring.env.protocol import Output, OutputLimits, Stream


class Kept:
    """The first and the last bytes of one stream."""

    __slots__ = ("_head", "_head_limit", "_pieces", "_tail_limit", "_tail_size", "total")

    def __init__(self, limits: OutputLimits) -> None:
        self._head_limit = limits.head
        self._tail_limit = limits.tail
        self._head = bytearray()
        self._pieces: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> bool:
        """Take bytes; False once some are not kept."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._pieces.append(data)
            self._tail_size += len(data)
            while self._pieces and self._tail_size - len(self._pieces[0]) >= self._tail_limit:
                self._tail_size -= len(self._pieces.popleft())
        return self.total <= self._head_limit + self._tail_limit

    def output(self) -> Output:
        """What was kept."""
        tail = b"".join(self._pieces)
        if len(tail) > self._tail_limit:
            tail = tail[len(tail) - self._tail_limit :]
        return Output(bytes(self._head), tail, self.total)


class Capture:
    """Both streams of one program."""

    def __init__(self, limits: OutputLimits, new_spool: Callable[[], str]) -> None:
        self.kept: dict[Stream, Kept] = {"stdout": Kept(limits), "stderr": Kept(limits)}
        self.spool: str | None = None
        self._limits = limits
        self._new_spool = new_spool
        self._pending: list[bytes] | None = [] if limits.spool else None
        self._file: BinaryIO | None = None
        self._lock = asyncio.Lock()

    @property
    def overflowed(self) -> bool:
        """Whether more came than the cap allows."""
        return self.kept["stdout"].total + self.kept["stderr"].total > self._limits.cap

    async def feed(self, stream: Stream, data: bytes) -> None:
        """Take a piece of output. What comes after an overflow is counted but not kept."""
        if self.overflowed:
            self.kept[stream].total += len(data)
            return
        fits = self.kept[stream].feed(data)
        if not self._limits.spool:
            return
        async with self._lock:
            if self._pending is None:
                await asyncio.to_thread(self._write, data)
                return
            self._pending.append(data)
            if not fits:
                await self._begin()

    async def start_spool(self) -> None:
        """Write what came so far, and from now on everything, to a private file."""
        async with self._lock:
            await self._begin()

    async def _begin(self) -> None:
        if self._pending is not None:
            pending, self._pending = self._pending, None
            await asyncio.to_thread(self._open, b"".join(pending))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, data: bytes) -> None:
        try:
            self.spool = self._new_spool()
            self._file = open(self.spool, "wb", buffering=0, opener=_private)
        except OSError:
            self.spool = None  # A full disk costs the copy, not the command.
            return
        self._write(data)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        except OSError:
            self.close()
            self.spool = None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
