"""Waits for numbers that other processes increase: one query for all waiters in place of one for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

PollFunction = Callable[[Sequence[str]], Awaitable[Mapping[str, int]]]
"""Returns the current numbers of these keys. Keys without a number may be omitted."""


class Poller:
    """Polls while there are waiters.

    Args:
        look: The query.
        every: Seconds between two queries.
    """

    def __init__(self, look: PollFunction, every: float) -> None:
        self._look = look
        self._every = every
        self._waiting: dict[str, set[tuple[int, asyncio.Future[None]]]] = {}
        self._recursive_reads: asyncio.Task[None] | None = None

    async def wait(self, key: str, after: int) -> None:
        """Return once the key's number is higher than ``after``."""
        waiter = (after, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, set()).add(waiter)
        if self._recursive_reads is None or self._recursive_reads.done():
            self._recursive_reads = asyncio.ensure_future(self._poll_loop())
        try:
            await waiter[1]
        finally:
            left = self._waiting[key]
            left.discard(waiter)
            if not left:
                del self._waiting[key]

    def tell(self, key: str, number: int) -> None:
        """Report a number that is known before the next query."""
        for after, waiter in self._waiting.get(key, ()):
            if number > after and not waiter.done():
                waiter.set_result(None)

    async def _poll_loop(self) -> None:
        while self._waiting:
            with suppress(Exception):  # A database that is away for a while returns.
                for key, number in (await self._look(list(self._waiting))).items():
                    self.tell(key, number)
            await asyncio.sleep(self._every)

    async def aclose(self) -> None:
        """Stop polling. Current waiters are cancelled."""
        looking, self._recursive_reads = self._recursive_reads, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])
        for waiters in self._waiting.values():
            for _, waiter in waiters:
                waiter.cancel()
