"""One attempt at a run, as long as it has the run: it ends where another one has it, and at a step's end where the process is to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.errors import DurableError
from mainspring.redaction import redact

T = TypeVar("T")


class LeaseLostError(Exception):
    """The run is another attempt's by now: nothing was written."""


class NonDeterminismError(DurableError):
    """The code that plays a run again does something else than the code that began it."""

    def __init__(self, then: str, now: str) -> None:
        super().__init__(
            f"the run was begun by other code: where it did {then!r} then, it would do {now!r} now. Give the changed code another "
            "version and have the run finished by the old one"
        )


class Attempt:
    """One attempt at a run: it can be over before the run is.

    Attributes:
        broken: The database failed it: the run has to be given back.
        failure: Why the run cannot go on at all.
        idle: Set while no step is under way.
    """

    def __init__(self, run_id: str, task: asyncio.Task[object], number: int = 0) -> None:
        self.run_id = run_id
        self.number = number
        self.broken = False
        self.failure = ""
        self._task = task
        self._parking = False
        self._over = False
        self._busy = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def stop(self) -> None:
        """End it: another attempt has the run, or the process ends."""
        self._over = True
        self._task.cancel()

    def park(self) -> None:
        """Begin no step any more. `idle` is set once none is under way."""
        self._parking = True

    async def gate(self) -> None:
        """Pass unless nothing may begin any more."""
        if self._over:
            raise asyncio.CancelledError
        if self._parking:
            await asyncio.get_running_loop().create_future()

    def __enter__(self) -> None:
        self._busy += 1
        self.idle.clear()

    def __exit__(self, *_: object) -> None:
        self._busy -= 1
        if not self._busy:
            self.idle.set()

    async def reach(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask the engine for something; where it cannot be reached, the attempt ends here and not the run."""
        try:
            return await ask()
        except Exception:
            self.broken = True
            self.stop()
            raise asyncio.CancelledError from None

    async def keep(self, write: Callable[[], Awaitable[bytes]]) -> bytes:
        """Do something that writes under this attempt; where it is not the run's latest any more, it ends here."""
        await self.gate()
        with self:
            try:
                return await write()
            except LeaseLostError:
                self.stop()
            except NonDeterminismError as error:
                self.failure = redact(str(error))
                self.stop()
            except Exception:
                # Not what the step did, which never raises: the engine cannot keep it.
                self.broken = True
                self.stop()
        raise asyncio.CancelledError
