"""One attempt at a run. The attempt ends if another attempt claims the run, or at the end of a step if the process exits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from mainspring.errors import DurableError
from mainspring.redaction import redact_environment

_T = TypeVar("_T")


class LeaseLostError(Exception):
    """Another attempt has claimed the run. Nothing was written."""


class NonDeterminismError(DurableError):
    """The code that replays a run does something else than the code that started it."""

    def __init__(self, then: str, now: str) -> None:
        super().__init__(
            f"The run was started by other code: it did {then!r} where this code would do {now!r}. Give the changed code a new "
            "version, and finish the run with a worker of the old version."
        )


class RunAttempt:
    """One attempt at a run. The attempt can end before the run does.

    Attributes:
        broken: The database failed during this attempt. The run must be released.
        failure: The reason why the run cannot continue.
        idle: Set while no step is running.
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
        """End the attempt: another attempt has the run, or the process exits."""
        self._over = True
        self._task.cancel()

    def park(self) -> None:
        """Start no further steps. `idle` is set once none is running."""
        self._parking = True

    async def gate(self) -> None:
        """Return if a step may start. Otherwise, wait until the attempt is cancelled."""
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

    async def reach(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Send a request to the engine. If the engine cannot be reached, this attempt ends and the run does not."""
        try:
            return await ask()
        except Exception:
            self.broken = True
            self.stop()
            raise asyncio.CancelledError from None

    async def keep(self, write: Callable[[], Awaitable[bytes]]) -> bytes:
        """Perform a write of this attempt. The attempt ends if it is no longer the latest one of the run."""
        await self.gate()
        with self:
            try:
                return await write()
            except LeaseLostError:
                self.stop()
            except NonDeterminismError as error:
                self.failure = redact_environment(str(error))
                self.stop()
            except Exception:
                # The step itself never raises: this is the engine, which failed to store the result.
                self.broken = True
                self.stop()
        raise asyncio.CancelledError


async def park_attempts(attempts: Sequence[RunAttempt], seconds: float) -> None:
    """Park attempts, and wait for them until a time limit."""
    for attempt in attempts:
        attempt.park()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for attempt in attempts:
                await attempt.idle.wait()
